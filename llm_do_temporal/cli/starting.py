"""`start`: everything a person can get wrong is found before a run exists."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.login import login_name
from llm_do_temporal.cli.options import Location, Output, OutputFormat, Timeout, check_timeout, read_json
from llm_do_temporal.cli.plain_text import say
from llm_do_temporal.errors import AttachmentRefusal, LlmDoError, ModelRefusal, UsageError

if TYPE_CHECKING:
    from llm_do_temporal.messages import PinnedWorker, StartRunInput
    from llm_do_temporal.policy.approvals import Mode
    from llm_do_temporal.policy.attachments import Attachment

STDIN = "\0"
"""Stands for the argument `-`; no argument can hold this character."""
MAX_START_BYTES = 1_900_000
"""Temporal takes 2 MiB in one payload."""


@dataclass(frozen=True)
class _Wanted:
    """What was typed, with files and JSON not looked at yet."""

    worker: str
    prompt: str | None
    attach: tuple[Path, ...]
    input: str | None
    model: str | None
    force_model: str | None
    approve_all: bool
    strict: bool


async def start(
    worker: str,
    prompt: str | None = None,
    /,
    *,
    attach: Annotated[tuple[Path, ...], Parameter(name=["--attach", "-a"])] = (),
    input_json: Annotated[str | None, Parameter(name="--input")] = None,
    model: str | None = None,
    force_model: str | None = None,
    approve_all: bool = False,
    strict: bool = False,
    id: Annotated[str | None, Parameter(name="--id")] = None,  # noqa: A002 - the name of the option
    detach: bool = False,
    output: Output = "text",
    timeout: Timeout = None,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Start a run and stay with it: live on a terminal, else until it ends or needs a person.

    Parameters
    ----------
    worker
        The worker to run, by name; `pkg:NAME` for one that ships with the program.
    prompt
        What to tell it; `-` reads it from stdin.
    attach
        A file to attach; may be repeated.
    input_json
        Structured input, as JSON or @FILE.
    model
        Model of workers that name none, as provider:name or an alias.
    force_model
        Model of every worker, whatever it names.
    approve_all
        Approve every call that needs approval. What is blocked stays blocked.
    strict
        Refuse every call that needs approval.
    id
        Id of the run.
    detach
        Print the id and leave at once.
    output
        What goes to stdout: the result (default), one JSON object, or events as JSON lines.
    timeout
        Seconds to stay at most; the run goes on.
    """
    wanted = _Wanted(worker, prompt, attach, input_json, model, force_model, approve_all, strict)
    try:
        check_timeout(timeout)
        request = _prepare(wanted, location)
        from llm_do_temporal.cli.session import opened

        async with opened(location) as session:
            run = await session.client.start(request, run=id)
    except LlmDoError as error:
        from llm_do_temporal.cli.output import failure, report

        return report(failure(error), output)
    return await _go_on(location, run, detach=detach, output=output, timeout=timeout)


async def _go_on(location: Location, run: str, *, detach: bool, output: OutputFormat, timeout: float | None) -> int:
    if detach:
        from llm_do_temporal.cli.output import Outcome, report

        if output == "text":
            print(run, flush=True)
        return report(Outcome(run, "running"), output)
    from llm_do_temporal.cli.watching import Manner, attend, choose_stay

    say(f"run {run}")
    return await attend(location, run, Manner(choose_stay(output), output, timeout))


def _prepare(wanted: _Wanted, location: Location) -> StartRunInput:
    """What is sent to the server. Raises LlmDoError for all that can be known to be wrong."""
    from llm_do_temporal.client.connecting import names_server
    from llm_do_temporal.messages import StartRunInput

    mode = _mode(wanted)
    elsewhere = names_server(location.connection())
    workshop = location.local_workshop() if elsewhere else location.find_workshop()
    worker = None if workshop is None else _load(workshop, wanted.worker)
    request = StartRunInput(
        worker=wanted.worker,
        prompt=_read_prompt(wanted.prompt),
        input=None if wanted.input is None else read_json(wanted.input, "--input"),
        attachments=_attach(wanted.attach, workshop, worker),
        model=wanted.model,
        force_model=wanted.force_model,
        environment_model=os.environ.get("LLM_DO_MODEL") or None,
        mode=mode,
        started_by=login_name(),
    )
    if workshop is not None and worker is not None and not elsewhere:
        _check_model(workshop, worker, request)
    size = len(request.model_dump_json())
    if size > MAX_START_BYTES:
        raise UsageError(
            f"prompt and input have {size} bytes together; at most {MAX_START_BYTES} can be sent",
            next_step="Give long text as a file: -a FILE.",
        )
    return request


def _mode(wanted: _Wanted) -> Mode | None:
    from llm_do_temporal.policy.approvals import Mode

    if wanted.approve_all and wanted.strict:
        raise UsageError("--approve-all and --strict exclude each other; give one of them, or none to be asked")
    if wanted.approve_all:
        return Mode.APPROVE_ALL
    return Mode.STRICT if wanted.strict else None


def _load(workshop: Path, name: str) -> PinnedWorker:
    from llm_do_temporal.definitions import Registry, load_workshop

    worker = Registry(load_workshop(workshop)).load(name)
    for warning in worker.warnings:
        say(f"warning: {warning}")
    return worker


def _check_model(workshop: Path, worker: PinnedWorker, request: StartRunInput) -> None:
    """The embedded worker service shares this environment, so what it would choose is known now."""
    from llm_do_temporal.definitions import load_workshop, run_settings
    from llm_do_temporal.policy.models import resolve_model

    settings = run_settings(load_workshop(workshop).config, request)
    try:
        resolve_model(
            settings.models,
            worker=worker.name,
            worker_model=worker.model,
            caller_model=None,
            compatible=worker.compatible_models,
        )
    except ModelRefusal as refusal:
        raise UsageError(refusal.message, next_step=refusal.next_step) from refusal


def _read_prompt(prompt: str | None) -> str:
    if prompt != STDIN:
        return prompt or ""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the prompt on stdin is not UTF-8 text: {error.reason}", next_step="Attach files with -a FILE."
        ) from error


def _attach(files: tuple[Path, ...], workshop: Path | None, worker: PinnedWorker | None) -> tuple[Attachment, ...]:
    """Check the files against the worker's policy, and copy them to where the worker service finds them."""
    from llm_do_temporal.blobs import LocalBlobStore, blob_folder
    from llm_do_temporal.policy.attachments import check_attachment_names, check_attachments
    from llm_do_temporal.snapshots import snapshot_host_files

    if not files:
        return ()
    if workshop is None or worker is None:
        raise UsageError(
            "files can only be attached in a workshop: its folder is where they are kept for the worker service",
            next_step="Go to the workshop's folder, or name it with --workshop DIR.",
        )
    policy, whose = worker.attachment_policy, f"worker '{worker.name}'"
    try:
        check_attachment_names(policy, [file.name for file in files], whose=whose)
        attachments = snapshot_host_files(files, LocalBlobStore(blob_folder(workshop)), policy.max_total_bytes)
        check_attachments(policy, attachments, whose=whose)
    except AttachmentRefusal as refusal:
        raise UsageError(refusal.message, next_step=refusal.next_step) from refusal
    return attachments
