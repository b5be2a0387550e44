"""Commands that try what happens otherwise: `fork`, `diff` of two runs, and `try`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from llm_do_temporal.cli.commands.start import LimitFlags, Overrides, TypedStart, by_itself, prepare_start, read_params
from llm_do_temporal.cli.files import SavedFiles, until_saved
from llm_do_temporal.cli.options import Json, Location, Output, OutputFormat, Timeout, check_timeout
from llm_do_temporal.cli.text import name_line, say, visible_line
from llm_do_temporal.errors import DefinitionError, LlmDoError, UsageError

if TYPE_CHECKING:
    from llm_do_temporal.cli.session import Session
    from llm_do_temporal.extensions.forks.client_forks import ForkPlan, ForkRequest
    from llm_do_temporal.extensions.forks.policy.changes import ForkEstimate, Range
    from llm_do_temporal.messages.runs import StartRunInput


_CHANGES = Group("Changes", sort_key=1)
_Several = Annotated[tuple[str, ...], Parameter(negative=())]


@Parameter(name="*", group=_CHANGES)
@dataclass(frozen=True, kw_only=True)
class ForkFlags:
    """Changes of a fork. Without any, all is reused, and the result is the same."""

    at: Annotated[
        _Several, Parameter(help="PATH@TURN: ask the model anew from this turn of an invocation on; may be repeated.")
    ] = ()
    worker: Annotated[
        Path | None, Parameter(help="Worker file that is used for the worker of its name, in the place of the old one.")
    ] = None
    set: Annotated[
        _Several,
        Parameter(name="--set", help="[WORKER:]KEY=VALUE: give a key of a worker's file, as it is now, another value."),
    ] = ()
    model: Annotated[str | None, Parameter(help="Model of workers that name none, as for `start`.")] = None
    decide: Annotated[
        _Several,
        Parameter(help='a3=approve, a3=reject:"reason" or a3=modify:@FILE: decide otherwise about what was asked.'),
    ] = ()
    result: Annotated[
        _Several, Parameter(help="PATH@TURN=VALUE, or PATH@TURN#N=@FILE: have a call come to something else.")
    ] = ()
    no_reuse: Annotated[
        _Several, Parameter(name="--no-reuse", help="PATH: do an invocation, and all below it, anew.")
    ] = ()
    files: Annotated[
        Literal["then", "now"],
        Parameter(help="Whether what was read of files and workers counts as it was then (default), or is read now."),
    ] = "then"

    def request(self) -> ForkRequest:
        """Return the changes as the client takes them."""
        from llm_do_temporal.extensions.forks.client_forks import ForkRequest

        return ForkRequest(
            at=self.at,
            worker=self.worker,
            settings=self.set,
            model=self.model,
            decide=self.decide,
            results=self.result,
            no_reuse=self.no_reuse,
            then=self.files == "then",
        )


async def fork(
    run: str,
    /,
    *,
    changes: ForkFlags = ForkFlags(),
    dry_run: Annotated[bool, Parameter(name="--dry-run")] = False,
    yes: bool = False,
    id: Annotated[str | None, Parameter(name="--id")] = None,  # noqa: A002 - the name of the option
    detach: bool = False,
    output: Output = "text",
    timeout: Timeout = None,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Do a run once more with changes, reuse everything that these leave as it was, and stay with it.

    What it changes of files stays in a layer: nothing of the workshop is touched.

    Parameters
    ----------
    run
        Id of the run to fork.
    dry_run
        Say what would be reused, what would run and what that may cost, and start nothing.
    yes
        Do not ask on the terminal before a model is asked anything.
    id
        Id of the fork.
    detach
        Print the id and leave at once.
    output
        What goes to stdout: the result (default), one JSON object, or events as JSON lines.
    timeout
        Seconds to stay at most; the fork goes on.
    """
    from llm_do_temporal.cli.output import RunOutcome, failure, report

    try:
        check_timeout(timeout)
        plan = await _planned(run, changes, location)
        _tell(plan, output, dry_run=dry_run)
        if dry_run:
            return 0
        if not plan.estimate.is_free and not yes and output == "text":
            await _confirm(run)
        started = await _started(plan, id, location)
    except LlmDoError as error:
        return report(failure(error), output)
    if detach:
        if output == "text":
            print(started, flush=True)
        return report(RunOutcome(started, "running"), output)
    from llm_do_temporal.cli.terminal.attend import AttendOptions, attend, choose_stay

    say(f"run {started}")
    code = await attend(location, started, AttendOptions(choose_stay(output), output, timeout))
    await _say_reused(started, location)
    return code


def _tell(plan: ForkPlan, output: OutputFormat, *, dry_run: bool) -> None:
    """Print the plan: on stdout where nothing else comes, else for people."""
    from llm_do_temporal.cli.output import print_json

    for warning in plan.warnings:
        say(f"warning: {warning}")
    if dry_run and output != "text":
        print_json(plan_json(plan), pretty=output == "json")
        return
    for line in plan_lines(plan):
        if dry_run:
            print(line, flush=True)
        else:
            say(line)


async def _planned(run: str, changes: ForkFlags, location: Location) -> ForkPlan:
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.extensions.forks.client_forks import plan_fork

    async with opened(location) as session:
        if session.workshop is None:
            raise UsageError(
                "a run can be forked only in its workshop, where what it reuses is kept, and none is known here",
                next_step="Go to the workshop's folder, or name it with --workshop DIR.",
            )
        return await plan_fork(session.client.temporal, run, changes.request(), session.workshop)


async def _started(plan: ForkPlan, run: str | None, location: Location) -> str:
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.storage.places import workshop_blobs

    async with opened(location) as session:
        assert session.workshop is not None
        return await session.client.start(plan.prepared(workshop_blobs(session.workshop)), run=run)


async def _confirm(run: str) -> None:
    """Raise UsageError where a person at the terminal does not want it; without a terminal nobody is asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    print("Start it? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = await asyncio.to_thread(sys.stdin.readline)
    if answer.strip().lower() not in ("y", "yes"):
        raise UsageError(f"run '{run}' was not forked")


async def _say_reused(run: str, location: Location) -> None:
    """Say how much was reused, where the fork has completed."""
    from llm_do_temporal.cli.session import opened

    try:
        async with opened(location) as session:
            if (await session.client.status(run)).status != "completed":
                return
            usage = (await session.client.result(run)).usage
    except LlmDoError:
        return
    saved = 0 if usage.saved is None else usage.saved.requests
    turns = saved + usage.requests
    say(f"reused {saved} of {turns} {'turn' if turns == 1 else 'turns'}")


_SHOWN_PATHS = 10


def plan_lines(plan: ForkPlan) -> list[str]:
    """Return the plan for people."""
    known = plan.estimate
    turns = "turn" if known.turns == 1 else "turns"
    lines = [f"fork of {visible_line(plan.run)}: reuses {_counts(known.reused)} of {known.turns} {turns}"]
    if known.workers:
        lines.append(f"  runs: {_paths(known.workers)}")
    if known.maybe:
        lines.append(f"  perhaps: {_paths(known.maybe)}")
    if known.unfinished:
        lines.append(
            f"  goes on where the run had no more turns, nobody knows for how long: {_paths(known.unfinished)}"
        )
    if known.is_free:
        return [*lines, "  asks no model anything"]
    told = f"{_counts(known.input_tokens)} tokens in, {_counts(known.output_tokens)} out"
    lines.append(f"  new turns {_counts(known.new)}, {told}, {_cost(known)}")
    if known.questions.high:
        lines.append(f"  questions {_counts(known.questions)}, besides those that nobody has asked yet")
    return lines


def plan_json(plan: ForkPlan) -> dict[str, Any]:
    """Return the plan as an object."""
    known = plan.estimate.model_dump(mode="json", exclude={"cost_low", "cost_high"})
    low, high = plan.estimate.cost_low, plan.estimate.cost_high
    cost = {"low": None if low is None else float(low), "high": None if high is None else float(high)}
    return {"fork_of": plan.run, **known, "cost_usd": cost, "warnings": list(plan.warnings)}


def _counts(amount: Range) -> str:
    return f"{amount.low:,}" if amount.low == amount.high else f"{amount.low:,} to {amount.high:,}"


def _cost(known: ForkEstimate) -> str:
    from llm_do_temporal.cli.terminal.run_picture import dollars

    if known.cost_low is None or known.cost_high is None:
        return "at a price that is not known"
    low, high = dollars(known.cost_low), dollars(known.cost_high)
    return low if low == high else f"{low} to {high}"


def _paths(paths: tuple[str, ...]) -> str:
    shown = ", ".join(name_line(path) for path in paths[:_SHOWN_PATHS])
    return f"{shown} and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else shown


async def diff(
    run: str,
    other: str,
    /,
    *,
    exit_code: Annotated[bool, Parameter(name="--exit-code", negative="")] = False,
    as_json: Json = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Show where two runs part first, and what came of it: answers, files, turns, cost, side by side.

    Parameters
    ----------
    run
        Id of the run on the left.
    other
        Id of the run on the right, such as a fork of the first.
    exit_code
        End with 1 where anything differs but times, tokens and cost.
    as_json
        Print a JSON object, with everything in full.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.extensions.forks.client_differences import read_difference
    from llm_do_temporal.extensions.forks.terminal_differences import difference_json, print_difference
    from llm_do_temporal.redaction.configured_keys import without_keys

    async with opened(location, "reading") as session:
        found = await read_difference(session.client.temporal, run, other)
    if as_json:
        print_json(without_keys(difference_json(found)), pretty=True)
    else:
        print_difference(found)
    return 1 if exit_code and not found.is_same else 0


async def try_worker(
    worker: str,
    prompt: str | None = None,
    /,
    *,
    watch: Annotated[bool, Parameter(negative="")] = False,
    attach: Annotated[tuple[Path, ...], Parameter(name=["--attach", "-a"])] = (),
    input_json: Annotated[str | None, Parameter(name="--input")] = None,
    param: Annotated[tuple[str, ...], Parameter(name=["--param", "-p"], negative=())] = (),
    model: str | None = None,
    approve_all: Annotated[bool, Parameter(negative="")] = False,
    limits: LimitFlags = LimitFlags(),  # noqa: B008 - frozen
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Run a worker with all changes of files kept aside; with --watch again on each save of its files, side by side.

    Nothing that it writes gets into the workshop's files. Ctrl-C ends it, and stops what still runs.

    Parameters
    ----------
    worker
        The worker to run: its name, or one worker file, to run by itself.
    prompt
        What to tell it; `-` reads it from stdin.
    watch
        Stay, and on each save of the worker's file, or of one that it names, fork the last run with it: turns that it
        does not change are not asked again. Shows the difference in answer, files and cost.
    attach
        A file to attach; may be repeated.
    input_json
        Structured input, as JSON or @FILE.
    param
        A value for a parameter of a template, NAME=VALUE; may be repeated.
    model
        Model of workers that name none, as provider:name or an alias.
    approve_all
        Approve every call that needs approval. What is blocked stays blocked.
    """
    overrides = Overrides(model=model, approve_all=approve_all)
    typed = TypedStart(worker, prompt, attach, input_json, read_params(param), overrides, limits, aside=True)
    single = Path(worker) if watch else None
    typed, location = by_itself(typed, location)
    assert typed.worker is not None
    request = prepare_start(typed, typed.worker, location)
    from llm_do_temporal.cli.session import opened

    async with opened(location) as session:
        file = None if single is None else _file_of(session, typed.worker, single)
        trial = _Trial(session, location)
        code = await trial.begin(request, None if file is None else SavedFiles(lambda: _files_of(session, file)))
        return code if file is None or trial.is_left else await trial.go_on(file)


class _Trial:
    """Run that is tried, and its forks, one after the other."""

    def __init__(self, session: Session, location: Location) -> None:
        self.is_left = False
        """Whether a person has left, so that nothing is tried any more."""
        self._session = session
        self._location = location
        self._run = ""
        self._saved: SavedFiles | None = None

    async def begin(self, request: StartRunInput, saved: SavedFiles | None) -> int:
        """Do the first run; `saved` has the worker's files as they are now. Return the exit code."""
        from llm_do_temporal.extensions.forks.client_differences import read_account
        from llm_do_temporal.extensions.forks.terminal_differences import aside_lines

        self._saved = saved
        self._run = await self._session.client.start(request)
        say(f"run {self._run}, with its changes kept aside")
        code = await self._attend(self._run)
        if not self.is_left:
            account = await read_account(self._session.client.temporal, self._run)
            patch = self._location.command(f"export --patch {self._run}")
            for line in aside_lines(account, patch):
                say(line)
        return code

    async def go_on(self, file: Path) -> int:
        """Fork the last run on each save of the worker's files, until a person leaves; return the exit code."""
        assert self._saved is not None
        while not self.is_left:
            if not await until_saved(self._saved, f"save {file} to try it again; Ctrl-C ends"):
                break
            try:
                await self._fork(file)
            except (DefinitionError, UsageError) as error:
                from llm_do_temporal.cli.output import say_error

                say_error(error)
        say(f"the last run was {self._run}")
        return 0

    async def _fork(self, file: Path) -> None:
        """Fork the last run with the file as it is now, and show what that has changed."""
        from llm_do_temporal.extensions.forks.client_differences import read_difference
        from llm_do_temporal.extensions.forks.client_forks import ForkRequest, plan_fork
        from llm_do_temporal.extensions.forks.terminal_differences import print_difference
        from llm_do_temporal.storage.places import workshop_blobs

        session, before = self._session, self._run
        workshop = session.workshop
        assert workshop is not None
        plan = await plan_fork(session.client.temporal, before, ForkRequest(worker=file), workshop)
        for line in (*(f"warning: {one}" for one in plan.warnings), *plan_lines(plan)):
            say(line)
        fork = await session.client.start(plan.prepared(workshop_blobs(workshop)))
        say(f"run {fork}")
        await self._attend(fork)
        self._run = fork
        if not self.is_left:
            print_difference(await read_difference(session.client.temporal, before, fork))

    async def _attend(self, run: str) -> int:
        """Stay with the run to its end, its questions asked here; a run that is left is stopped."""
        from llm_do_temporal.cli.terminal.attend import AttendOptions, attend, choose_stay

        stay = choose_stay("text")
        code = await attend(self._location, run, AttendOptions("until_end" if stay != "live" else stay))
        if (await self._session.client.status(run)).ended_at is None:
            self.is_left = True
            await self._session.client.cancel(run)
            say(f"asked run {run} to stop")
        return code


def _file_of(session: Session, worker: str, typed: Path) -> Path:
    """Return the file that defines the worker. Raises UsageError for one that no person edits here."""
    from llm_do_temporal.client.embedded.single_file import is_worker_file
    from llm_do_temporal.client.start import load_local_worker

    if is_worker_file(str(typed)) and typed.is_file():
        return typed
    if session.workshop is None:
        raise UsageError(
            "--watch looks at the worker's file, and no workshop is known here",
            next_step="Go to the workshop's folder, or name it with --workshop DIR.",
        )
    file = session.workshop / load_local_worker(session.workshop, worker).worker.source
    if not file.is_file():
        raise UsageError(f"'{worker}' has no file in the workshop that could be saved", next_step="Leave --watch out.")
    return file


def _files_of(session: Session, file: Path) -> tuple[Path, ...]:
    """Return the files that define the worker of `file`."""
    from llm_do_temporal.definitions.registry.registry import worker_files
    from llm_do_temporal.definitions.workers.places import WorkerPlace, named_worker

    path = file.resolve()
    workshop = path.parent if session.workshop is None else session.workshop.resolve()
    root = workshop if path.is_relative_to(workshop) else path.parent
    return worker_files(WorkerPlace(named_worker(path), path, root))
