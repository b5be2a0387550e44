"""`start`: all mistakes of a person are found before a run exists."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from llm_do_temporal.cli.commands.batch import NO_BATCH, BatchFlags
from llm_do_temporal.cli.options import HERE, Location, Output, OutputFormat, StayTimeout, check_timeout, read_json
from llm_do_temporal.cli.terminal.recorder import NOTHING, Recording, record_so_far
from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.errors import LlmDoError, UsageError
from llm_do_temporal.login import login_name

if TYPE_CHECKING:
    from llm_do_temporal.cli.session import Session
    from llm_do_temporal.client.start import StartRequest
    from llm_do_temporal.messages.definitions import ReviewMode
    from llm_do_temporal.messages.runs import InputFiles, StartRunInput
    from llm_do_temporal.policy.approvals import Mode
    from llm_do_temporal.policy.budget import Limits

STDIN = "\0"
"""Stands for the argument `-`; no argument can hold this character."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Choices for one run that replace those of the workshop."""

    model: Annotated[str | None, Parameter(help="Model of workers that name none, as provider:name or an alias.")] = (
        None
    )
    force_model: Annotated[str | None, Parameter(help="Model of every worker, whatever it names.")] = None
    approve_all: Annotated[
        bool, Parameter(help="Approve every call that needs approval. What is blocked stays blocked.")
    ] = False
    strict: Annotated[bool, Parameter(help="Refuse every call that needs approval.")] = False
    review: Annotated[
        bool, Parameter(help="Change files in a layer, and ask once about all changes together.", negative=())
    ] = False
    onto_branch: Annotated[
        str | None, Parameter(help="With --review: commit accepted changes to this git branch, not to the files.")
    ] = None

    def review_mode(self) -> ReviewMode | None:
        """Return the chosen review; None leaves it to the workshop. Raises UsageError for a branch without it."""
        if self.onto_branch is not None and not self.review:
            raise UsageError("--onto-branch is for reviewed changes; give --review with it")
        return "changes" if self.review else None

    def mode(self) -> Mode | None:
        """Return the chosen mode; None leaves it to the workshop. Raises UsageError for two at once."""
        from llm_do_temporal.policy.approvals import Mode

        if self.approve_all and self.strict:
            raise UsageError("--approve-all and --strict exclude each other; give one of them, or none to be asked")
        if self.approve_all:
            return Mode.APPROVE_ALL
        return Mode.STRICT if self.strict else None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LimitFlags:
    """Limits of the spending of the run, with all that it delegates."""

    max_turns: Annotated[int | None, Parameter(help="LLM turns of the whole run, at most.")] = None
    max_tool_calls: Annotated[int | None, Parameter(help="Tool calls of the whole run, at most.")] = None
    max_tokens: Annotated[int | None, Parameter(help="Tokens of the whole run, input and output, at most.")] = None
    max_cost: Annotated[Decimal | None, Parameter(help="US dollars for the whole run, at most, like 2.50.")] = None
    max_invocations: Annotated[int | None, Parameter(help="Invocations of workers in the whole run, at most.")] = None
    max_time: Annotated[str | None, Parameter(help="Time from the start of the run, at most, like 90s, 30m, 2h.")] = (
        None
    )

    def limits(self) -> Limits:
        """Return the limits as they are sent. Raises UsageError."""
        from pydantic import ValidationError

        from llm_do_temporal.policy.budget import Limits

        given = {name.removeprefix("max_"): value for name, value in asdict(self).items() if value is not None}
        try:
            return Limits.model_validate(given)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            flag = f"--max-{str(problem['loc'][0]).replace('_', '-')}"
            words = problem["msg"].removeprefix("Value error, ").replace("Input should", "it should")
            raise UsageError(f"{flag} {problem['input']}: {words}") from error


@dataclass(frozen=True)
class TypedStart:
    """A start as it was typed, with files and JSON not looked at yet."""

    worker: str | None
    prompt: str | None
    attach: tuple[Path, ...]
    input: str | None
    params: dict[str, str]
    overrides: Overrides
    limits: LimitFlags
    batch: BatchFlags = NO_BATCH
    aside: bool = False
    """Whether all changes of files stay in a layer that nothing commits."""
    reads: InputFiles | None = None
    """Files of the workshop that the run reads when it begins; None: all that it is given is taken now."""

    def check(self, recording: Recording) -> None:
        """Raise UsageError for flags that do not go together, or that cannot be used."""
        recording.check()
        self.batch.check(self.worker, attached=self.attach, others=(self.prompt, self.input, self.params))

    def request(self, worker: str) -> StartRequest:
        """Return the request to run this worker. Raises UsageError."""
        from llm_do_temporal.client.start import StartRequest

        return StartRequest(
            worker=worker,
            read_prompt=lambda: read_prompt(self.prompt),
            read_input=lambda: None if self.input is None else read_json(self.input, "--input"),
            read_batch=self.batch.batch,
            params=dict(self.params),
            files=self.attach,
            reads=self.reads,
            model=self.overrides.model,
            force_model=self.overrides.force_model,
            mode=self.overrides.mode(),
            limits=self.limits.limits(),
            review=self.overrides.review_mode(),
            review_branch=self.overrides.onto_branch or "",
            aside=self.aside,
        )


async def start(
    worker: str | None = None,
    prompt: str | None = None,
    /,
    *,
    attach: Annotated[tuple[Path, ...], Parameter(name=["--attach", "-a"])] = (),
    input_json: Annotated[str | None, Parameter(name="--input")] = None,
    param: Annotated[tuple[str, ...], Parameter(name=["--param", "-p"], negative=())] = (),
    overrides: Overrides = Overrides(),
    limits: LimitFlags = LimitFlags(),
    batch: BatchFlags = NO_BATCH,
    id: Annotated[str | None, Parameter(name="--id")] = None,  # noqa: A002 - the name of the option
    detach: bool = False,
    output: Output = "text",
    timeout: StayTimeout = None,
    recording: Recording = NOTHING,
    location: Location = HERE,
) -> int:
    """Start a run and stay with it: live on a terminal, else until it ends or needs a person.

    Parameters
    ----------
    worker
        The worker to run: its name, `pkg:NAME` for one that ships with the program, a template of the workshop
        (`templates/NAME.yaml`), or one worker file, to run by itself.
        Only --retry-failed knows it already.
    prompt
        What to tell it; `-` reads it from stdin.
    attach
        A file to attach; may be repeated.
    input_json
        Structured input, as JSON or @FILE.
    param
        A value for a parameter of a template, NAME=VALUE; may be repeated.
    id
        Id of the run.
    detach
        Print the id and leave at once.
    """
    try:
        typed = TypedStart(worker, prompt, attach, input_json, read_params(param), overrides, limits, batch)
        check_timeout(timeout)
        typed.check(recording)
        typed, location = by_itself(typed, location)
        run = await _begin(typed, location, id)
    except LlmDoError as error:
        from llm_do_temporal.cli.output import failure, report

        return report(failure(error), output)
    if detach:
        return await _leave(location, run, output, recording)
    from llm_do_temporal.cli.terminal.attend import AttendOptions, attend, choose_stay

    say(f"run {run}")
    return await attend(location, run, AttendOptions(choose_stay(output, recording), output, timeout, recording))


async def _begin(typed: TypedStart, location: Location, run: str | None) -> str:
    """Start the run and return its id, which is `run` unless that is None. Raises LlmDoError."""
    worker = None if typed.batch.retry_failed else typed.worker
    request = None if worker is None else prepare_start(typed, worker, location)
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.telemetry import begin_telemetry

    begin_telemetry()
    async with opened(location) as session:
        files = typed.batch.files()
        if request is None:
            request, files = await _again(typed, session)
        started = await session.client.start(request, run=run)
    if files and session.workshop is not None:
        from llm_do_temporal.client.batches import remember_files

        remember_files(session.workshop, started, files)
    return started


async def _leave(location: Location, run: str, output: OutputFormat, recording: Recording) -> int:
    from llm_do_temporal.cli.output import RunOutcome, report

    if output == "text":
        print(run, flush=True)
    await record_so_far(recording, run, location)
    return report(RunOutcome(run, "running"), output)


def by_itself(typed: TypedStart, location: Location) -> tuple[TypedStart, Location]:
    """Return start and location with a worker file replaced by its worker's name and the place that serves this file.

    Any other start comes back as it is. Raises UsageError for a file that cannot run by itself here.
    """
    from llm_do_temporal.client.connections import names_server
    from llm_do_temporal.client.embedded.single_file import (
        check_single_file,
        enclosing_workshop,
        is_worker_file,
        name_in,
        single_file_workshop,
    )
    from llm_do_temporal.client.start import template_path
    from llm_do_temporal.policy.delegation import TEMPLATE_SUFFIXES

    if typed.worker is None or not is_worker_file(typed.worker):
        return typed, location
    if typed.worker.endswith(TEMPLATE_SUFFIXES):
        template = template_path(typed.worker, location.local_workshop(), has_params=bool(typed.params))
        if template is not None:
            return replace(typed, worker=template), location
    file = Path(typed.worker)
    name = name_in(file)
    if location.workshop is not None:
        raise UsageError(
            f"the file '{file}' runs by itself, without the workshop '{location.workshop}'",
            next_step=f"Name the worker to run it in the workshop: '{name}'. Or leave --workshop out.",
        )
    if names_server(location.connection()):
        raise UsageError(
            f"the file '{file}' runs by itself, on a server of its own, and a flag, TEMPORAL_ADDRESS or a profile "
            "names another one",
            next_step=f"Leave that out, or put the file into the workshop served there and name the worker: '{name}'.",
        )
    alone = replace(location, workshop=file)
    check_single_file(single_file_workshop(file), name)
    if enclosing_workshop(file) is not None:
        say(f"note: '{file}' runs by itself, without the files of the workshop it lies in; `start {name}` uses them")
    return replace(typed, worker=name), alone


async def _again(typed: TypedStart, session: Session) -> tuple[StartRunInput, dict[str, Path]]:
    """Return the request to do the items that another run has left over, and their files as far as they are known here.

    Raises UsageError, and DefinitionError where the worker's file is wrong by now.
    """
    before = await session.client.unfinished(typed.batch.retry_failed or "")
    chosen = typed.overrides
    changes: dict[str, Any] = {
        "model": chosen.model,
        "force_model": chosen.force_model,
        "mode": chosen.mode(),
        "limits": typed.limits.limits(),
        "review": chosen.review_mode(),
        "review_branch": chosen.onto_branch or "",
        "started_by": login_name(),
    }
    request, files = typed.batch.with_files(typed.batch.again(before, typed.worker, changes), session.workshop)
    if not typed.batch.no_reuse:
        from llm_do_temporal.client.batches import taken_over

        request, lines = await taken_over(session.client.temporal, typed.batch.retry_failed or "", request)
        for line in lines:
            say(f"  {visible_line(line, 400)}")
    return request, files


def prepare_start(typed: TypedStart, worker: str, location: Location) -> StartRunInput:
    """Return the request that is sent to the server. Raises LlmDoError for any mistake that can be found here."""
    from llm_do_temporal.client.connections import names_server

    request = typed.request(worker)
    elsewhere = names_server(location.connection())
    workshop = location.local_workshop() if elsewhere else location.find_workshop()
    # The worker service that this command starts has the variables that are set here.
    starts_service = workshop is not None and not elsewhere and not _is_served(workshop)
    return request.prepare(
        workshop,
        embedded=not elsewhere,
        needs_keys=starts_service,
        warn=lambda warning: say(f"warning: {warning}"),
    )


def _is_served(workshop: Path) -> bool:
    """Whether the workshop's own server runs; nothing is made where there was none before."""
    from llm_do_temporal.client.embedded.server import running_host
    from llm_do_temporal.policy.files.sandbox import STATE_FOLDER

    return (workshop / STATE_FOLDER).is_dir() and running_host(workshop) is not None


def read_params(given: Sequence[str]) -> dict[str, str]:
    """Return the parameters that were typed as NAME=VALUE, by name. Raises UsageError."""
    params: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"'{text[:80]}' is no value for a parameter", next_step="Write it like --param tone=dry.")
        if name in params:
            raise UsageError(f"the parameter '{name[:80]}' is given twice")
        params[name] = value
    return params


def read_prompt(prompt: str | None) -> str:
    """Return the prompt as it was typed, or all of stdin for STDIN. Raises UsageError."""
    if prompt != STDIN:
        return prompt or ""
    # Imported here: most commands read no file.
    from llm_do_temporal.client.batches import read_stream

    return read_stream(sys.stdin.buffer, "the prompt on stdin")
