"""Running a worker from Python: `run_worker`, and `call_worker`, which within a run is a call of its invocation's.

Owns the path from a function call to the result of a run. What it does is what `start` does: the same
checks, the same server, the same runs, visible to every other command. Must not load agent code.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from temporalio import workflow

from llm_do_temporal.callers import CallerContext, WorkerCall, WorkerRunResult
from llm_do_temporal.client.callback import ApprovalCallback, result_with
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connection.connect import Connection, names_server
from llm_do_temporal.client.embedded.single_file import check_single_file, is_worker_file, name_in, single_file_workshop
from llm_do_temporal.client.session import open_session
from llm_do_temporal.client.start import StartRequest, check_request_size, template_path
from llm_do_temporal.definitions.workshop.workshop import find_workshop
from llm_do_temporal.errors import UsageError, WorkshopNotFound
from llm_do_temporal.messages.definitions import ReviewMode
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.policy.budget import Limits

AnyPath = str | os.PathLike[str]
Parameter = str | int | float | bool
"""A value for a parameter of a template."""


@dataclass(frozen=True)
class _Where:
    """Workshop and server of a run, as the caller named them; None for those that are to be searched."""

    workshop: AnyPath | None
    connection: LlmDoClient | Connection | None
    is_template: bool = False
    """Whether the run's worker is known to be a template, spelled as runs call it."""


async def run_worker(
    worker: AnyPath,
    prompt: str | None = None,
    *,
    input: Any = None,  # noqa: A002 - the name it has everywhere else
    params: Mapping[str, Parameter] | None = None,
    attachments: Sequence[AnyPath] = (),
    workshop: AnyPath | None = None,
    model: str | None = None,
    mode: Mode | str | None = None,
    limits: Limits | Mapping[str, Any] | None = None,
    review: ReviewMode | None = None,
    review_branch: str = "",
    id: str | None = None,  # noqa: A002 - the name it has everywhere else
    connection: LlmDoClient | Connection | None = None,
    approval_callback: ApprovalCallback | None = None,
) -> WorkerRunResult:
    """Start a run of `worker` and wait for its result, also while it waits for a person.

    `worker` is a name, a template of the workshop (`templates/one.yaml`), for which `params` are, or a worker file,
    which then runs by itself without any files. `input` is any JSON value, `attachments` are files of this machine,
    `mode` is `interactive`, `approve_all` or `strict`, `limits` are those of the run by the keys of `limits:`, used
    instead of the workshop's, `review="changes"` has all changes of files reviewed together, and `review_branch` is the
    git branch that takes those that are accepted (empty: the files do), `id` is the id of the run. `approval_callback`
    (plain or `async`) is given each Question of the run, and returns a Decision, or None to leave it to others; what it
    raises is raised here. The workshop is `workshop`, else the variable LLM_DO_WORKSHOP, else searched upwards from
    here. The server is `connection`, else the one that TEMPORAL_* or a profile names, else the workshop's own, joined
    or started.

    Raises LlmDoError: DefinitionError, UsageError or ConnectionFailed before there is a run, RunFailed, or the error
    that it ended with, after. Cancelling the call leaves the run going.
    """
    request = StartRequest(
        worker=os.fspath(worker),
        read_prompt=lambda: prompt or "",
        read_input=lambda: input,
        params=dict(params or {}),
        files=tuple(Path(file) for file in attachments),
        model=model,
        mode=_mode(mode),
        limits=_limits(limits),
        review=_review(review),
        review_branch=review_branch,
    )
    return await _run(request, _Where(workshop, connection), run=id, callback=approval_callback)


async def run_template(
    name: str,
    prompt: str,
    *,
    params: Mapping[str, Parameter],
    attachments: Sequence[AnyPath],
    workshop: AnyPath | None,
    model: str | None,
    mode: Mode | str | None,
    connection: LlmDoClient | Connection | None,
) -> WorkerRunResult:
    """Do as `run_worker` for the template `name`, as `choose_template` spells it."""
    request = StartRequest(
        worker=name,
        read_prompt=lambda: prompt,
        params=dict(params),
        files=tuple(Path(file) for file in attachments),
        model=model,
        mode=_mode(mode),
    )
    return await _run(request, _Where(workshop, connection, is_template=True))


async def _run(
    request: StartRequest, where: _Where, *, run: str | None = None, callback: ApprovalCallback | None = None
) -> WorkerRunResult:
    _refuse_workflow_code()
    if isinstance(where.connection, LlmDoClient):
        client = where.connection
        sent, _ = await asyncio.to_thread(_prepare, request, where, elsewhere=True)
        check_request_size(sent, kept_outside=client.takes_big_values)
        return await _started(client, sent, run, callback=callback)
    connection = where.connection or Connection()
    elsewhere = names_server(connection)
    sent, folder = await asyncio.to_thread(_prepare, request, where, elsewhere=elsewhere)
    async with open_session(connection, folder) as session:
        return await _started(session.client, sent, run, callback=callback)


def call_worker(
    worker: AnyPath,
    input_data: Any,
    *,
    attachments: Sequence[AnyPath] = (),
    caller_context: CallerContext | None = None,
    workshop: AnyPath | None = None,
    model: str | None = None,
    mode: Mode | str | None = None,
    connection: LlmDoClient | Connection | None = None,
) -> WorkerCall:
    """Call a worker on behalf of whoever runs this code: await it, or use it as the result where no event loop runs.

    In a Python tool of a run this is a call like one of its model's: a worker of the same workshop, one level deeper,
    `attachments` are paths in the tool's worker's files, questions are asked at the run, and what it spends counts
    there. The caller is found by itself; `caller_context` is for code that hands one on, to a thread of its own for
    instance. When the tool is tried again it gets the answers of the calls that it has made. Raises ToolCallFailed
    where the call is refused, rejected or fails. Anywhere else this is `run_worker`, and raises what that raises.

    Text in `input_data` is the prompt, anything else the input.
    """
    _refuse_workflow_code()
    caller = caller_context or CallerContext.current()
    if caller is not None:
        if is_worker_file(os.fspath(worker)) or any(one is not None for one in (workshop, model, mode, connection)):
            raise UsageError(
                "in a run's tool, call_worker takes no `workshop`, `model`, `mode` or `connection`: it calls a worker "
                "of the same workshop by its name, with its own model or the caller's, and asks in the run's mode"
            )
        return caller.call_worker(os.fspath(worker), input_data, attachments=[os.fspath(file) for file in attachments])
    prompt, given = (input_data, None) if isinstance(input_data, str) else (None, input_data)
    return WorkerCall(
        run_worker(
            worker,
            prompt,
            input=given,
            attachments=attachments,
            workshop=workshop,
            model=model,
            mode=mode,
            connection=connection,
        )
    )


async def _started(
    client: LlmDoClient, request: StartRunInput, run: str | None, *, callback: ApprovalCallback | None = None
) -> WorkerRunResult:
    """Start the run and wait for its end."""
    run = await client.start(request, run=run)
    result = await result_with(client, run, callback)
    return WorkerRunResult(output=result.output, usage=result.usage, run=run, truncated=result.truncated)


def _refuse_workflow_code() -> None:
    if workflow.in_workflow():
        raise UsageError(
            "a function marked @tool_context runs in workflow code, where call_worker and run_worker cannot be used",
            next_step="Call a worker there with `await ctx.call_tool(name, input)`.",
        )


def _mode(mode: Mode | str | None) -> Mode | None:
    try:
        return None if mode is None else Mode(mode)
    except ValueError:
        raise UsageError(
            f"there is no mode '{mode}'; modes are {', '.join(repr(mode.value) for mode in Mode)}"
        ) from None


def _review(review: object) -> ReviewMode | None:
    if review not in (None, "changes"):
        raise UsageError(f"there is no review '{review}'; there is 'changes'")
    return None if review is None else "changes"


def _limits(limits: Limits | Mapping[str, Any] | None) -> Limits:
    if isinstance(limits, Limits):
        return limits
    try:
        return Limits.model_validate(dict(limits or {}))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise UsageError(f"the limit '{where}' cannot be used: {problem['msg']}") from None


def _prepare(request: StartRequest, where: _Where, *, elsewhere: bool) -> tuple[StartRunInput, Path | None]:
    """Return the checked request, and the workshop's folder where one is known."""
    request, folder = _located(request, where, elsewhere=elsewhere)
    return request.prepare(folder, embedded=not elsewhere), folder


def _located(request: StartRequest, where: _Where, *, elsewhere: bool) -> tuple[StartRequest, Path | None]:
    """Return the request with its worker as runs call it, and the workshop's folder; None where none is known."""
    variable = os.environ.get("LLM_DO_WORKSHOP") or None
    named = variable if where.workshop is None else where.workshop
    is_file, missing = is_worker_file(request.worker), None
    try:
        folder = find_workshop(Path.cwd() if named is None else Path(named), named=named is not None)
    except WorkshopNotFound as error:
        folder, missing = None, error
    template = request.worker
    if not where.is_template:
        template = template_path(request.worker, folder, has_params=bool(request.params))
    if is_file and template is None:
        return _single_file(request, where, elsewhere=elsewhere)
    if folder is None and missing is not None and not (elsewhere and named is None):
        raise missing
    return replace(request, worker=template or request.worker), folder


def _single_file(request: StartRequest, where: _Where, *, elsewhere: bool) -> tuple[StartRequest, Path]:
    file = Path(request.worker)
    if elsewhere or where.workshop is not None:
        raise UsageError(
            f"the file '{file}' runs by itself, on a server of its own",
            next_step="Leave `workshop` and `connection` and TEMPORAL_ADDRESS out, or name a worker of a workshop.",
        )
    folder = single_file_workshop(file)
    check_single_file(folder, name_in(file))
    return replace(request, worker=name_in(file)), folder
