"""Running workers and templates from Python: `run_worker`, `call_worker` and `TemplateCall`.

Owns the path from a function call to the result of a run. What it does is what `start` does: the same checks, the same
server, the same runs, visible to every other command. A callback that answers questions is one door among others: the
first answer wins, and a question that it leaves alone waits for other people. Must not load agent code.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from temporalio import activity, workflow

from llm_do_temporal.callers import CallerContext, WorkerCall, WorkerRunResult, loop_is_running
from llm_do_temporal.client.batches import read_given
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connections import Connection, names_server, translated
from llm_do_temporal.client.embedded.single_file import check_single_file, is_worker_file, name_in, single_file_workshop
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.session import open_session
from llm_do_temporal.client.start import StartRequest, check_request_size, load_local_worker, template_path
from llm_do_temporal.definitions.workshop import find_workshop
from llm_do_temporal.errors import DecisionRefused, UsageError, WorkshopNotFound
from llm_do_temporal.json_schema import normalised, schema_problems
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.messages.definitions import ReviewMode
from llm_do_temporal.messages.runs import RunResult
from llm_do_temporal.messages.sizes import MAX_CONTEXT_CHARS
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.delegation import TemplateRules, choose_template, template_problems
from llm_do_temporal.policy.files.attachments import (
    DEFAULT_MAX_ATTACHMENTS,
    DEFAULT_MAX_TOTAL_BYTES,
    check_attachment_names,
    check_total,
)

ApprovalCallback = Callable[[Question], Decision | Awaitable[Decision | None] | None]
"""Takes a question and returns the decision, or None to leave it to others. A plain function runs in a thread."""
AnyPath = str | os.PathLike[str]
Parameter = str | int | float | bool
_WHOSE = "this TemplateCall"
FileOrText = str | os.PathLike[str] | Mapping[str, str]


async def result_with(client: LlmDoClient, run: str, callback: ApprovalCallback | None) -> RunResult:
    """Wait for the run's result while the callback answers its questions. Raises what the callback raises, too."""
    if callback is None:
        return await client.result(run)
    result = asyncio.ensure_future(client.result(run))
    answering = asyncio.ensure_future(_answer(client, run, callback))
    try:
        await asyncio.wait((result, answering), return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            await answering
        return await result
    finally:
        for task in (result, answering):
            task.cancel()
        await asyncio.gather(result, answering, return_exceptions=True)


async def _answer(client: LlmDoClient, run: str, callback: ApprovalCallback) -> None:
    """Ask about each question once, one after the other, until the run ends."""
    seen: set[str] = set()
    async with translated(run):
        async for event in client.follow(run).events():
            if event.type != "desk.changed":
                continue
            # Asked for again each time: somebody else may have answered meanwhile.
            while new := [one for one in await client.approvals(run) if one.id not in seen]:
                seen.add(new[0].id)
                decision = await _call(callback, new[0])
                if decision is not None:
                    await _send(client, new[0], decision)


async def _call(callback: ApprovalCallback, question: Question) -> Decision | None:
    # A plain function may ask somebody, and wait.
    is_async = inspect.iscoroutinefunction(callback)
    said: Any = callback(question) if is_async else await asyncio.to_thread(callback, question)
    said = await said if inspect.isawaitable(said) else said
    if said is not None and not isinstance(said, Decision):
        raise UsageError(
            f"approval_callback returned {type(said).__name__} for '{question.id}'",
            next_step="It returns a Decision, such as Decision(decision='approve'), or None to leave it to others.",
        )
    return said


async def _send(client: LlmDoClient, question: Question, decision: Decision) -> None:
    """Decide about the question as it was shown. Raises DecisionRefused, unless another decision was faster."""
    digest = question.request.digest or None
    facts: dict[str, Any] = {"id": question.id, "digest": digest, "by": decision.by or login_name()}
    if decision.decision is DecisionKind.APPROVE and question.args != question.request.args:
        # Others have changed the call: agreeing names what was shown here.
        facts |= {"decision": DecisionKind.MODIFY, "args": question.args}
    try:
        await client.decide(question.run, decision.model_copy(update=facts))
    except DecisionRefused:
        if any(one.id == question.id for one in await client.approvals(question.run)):
            raise


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
    if review not in (None, "changes"):
        raise UsageError(f"there is no review '{review}'; there is 'changes'")
    request = StartRequest(
        worker=os.fspath(worker),
        read_prompt=lambda: prompt or "",
        read_input=lambda: input,
        params=dict(params or {}),
        files=tuple(Path(file) for file in attachments),
        model=model,
        mode=_mode(mode),
        limits=_limits(limits),
        review=review,
        review_branch=review_branch,
    )
    return await _run(request, workshop, connection, run=id, callback=approval_callback)


async def _run(
    request: StartRequest,
    workshop: AnyPath | None,
    connection: LlmDoClient | Connection | None,
    *,
    is_template: bool = False,
    run: str | None = None,
    callback: ApprovalCallback | None = None,
) -> WorkerRunResult:
    """Do the request at this server in this workshop, None for those that are to be searched.

    `is_template`: its worker is known to be a template, spelled as runs call it.
    """
    _refuse_workflow_code()
    connection = connection or Connection()
    is_client = isinstance(connection, LlmDoClient)
    elsewhere = is_client or names_server(connection)
    request, folder = await asyncio.to_thread(_located, request, workshop, is_template=is_template, elsewhere=elsewhere)
    sent = await asyncio.to_thread(request.prepare, folder, embedded=not elsewhere)
    async with AsyncExitStack() as stack:
        if isinstance(connection, LlmDoClient):
            client = connection
            check_request_size(sent, kept_outside=client.takes_big_values)
        else:
            client = (await stack.enter_async_context(open_session(connection, folder))).client
        run = await client.start(sent, run=run)
        result = await result_with(client, run, callback)
    return WorkerRunResult(output=result.output, usage=result.usage, run=run, truncated=result.truncated)


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
        modes = ", ".join(repr(mode.value) for mode in Mode)
        raise UsageError(f"there is no mode '{mode}'; modes are {modes}") from None


def _limits(limits: Limits | Mapping[str, Any] | None) -> Limits:
    if isinstance(limits, Limits):
        return limits
    try:
        return Limits.model_validate(dict(limits or {}))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise UsageError(f"the limit '{where}' cannot be used: {problem['msg']}") from None


def _located(
    request: StartRequest, workshop: AnyPath | None, *, is_template: bool, elsewhere: bool
) -> tuple[StartRequest, Path | None]:
    """Return the request with its worker as runs call it, and the workshop's folder; None where none is known."""
    variable = os.environ.get("LLM_DO_WORKSHOP") or None
    named = variable if workshop is None else workshop
    is_file, missing = is_worker_file(request.worker), None
    try:
        folder = find_workshop(Path.cwd() if named is None else Path(named), named=named is not None)
    except WorkshopNotFound as error:
        folder, missing = None, error
    template = request.worker
    if not is_template:
        template = template_path(request.worker, folder, has_params=bool(request.params))
    if is_file and template is None:
        file = Path(request.worker)
        if elsewhere or workshop is not None:
            raise UsageError(
                f"the file '{file}' runs by itself, on a server of its own",
                next_step="Leave `workshop` and `connection` and TEMPORAL_ADDRESS out, or name a worker of a workshop.",
            )
        folder = single_file_workshop(file)
        check_single_file(folder, name_in(file))
        return replace(request, worker=name_in(file)), folder
    if folder is None and missing is not None and not (elsewhere and named is None):
        raise missing
    return replace(request, worker=template or request.worker), folder


class TemplateCall:
    """Callable rules for templates of a workshop; each call waits for the template's result."""

    def __init__(
        self,
        allow_templates: Sequence[str] = ("**", "pkg:*"),
        lock_template: str | None = None,
        allowed_suffixes: Sequence[str] = (),
        max_attachments: int = DEFAULT_MAX_ATTACHMENTS,
        max_bytes: int = DEFAULT_MAX_TOTAL_BYTES,
        *,
        workshop: AnyPath | None = None,
        model: str | None = None,
        mode: Mode | str | None = None,
        connection: LlmDoClient | Connection | None = None,
    ) -> None:
        """The first five are the keys `allow`, `lock` and so on of a worker's `templates:`; by default every template
        of the workshop may be called. The others are those of `run_worker`. Raises UsageError for rules that cannot be.
        """
        try:
            self._rules = TemplateRules(
                allow=tuple(allow_templates),
                lock=lock_template,
                allowed_suffixes=tuple(allowed_suffixes),
                max_attachments=max_attachments,
                max_bytes=max_bytes,
            )
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            raise UsageError(f"'{'.'.join(map(str, problem['loc']))}' cannot be used: {problem['msg']}") from None
        for _path, problem in template_problems(self._rules):
            raise UsageError(problem)
        self._workshop, self._model, self._mode, self._connection = workshop, model, mode, connection

    def run(
        self,
        template: str = "",
        input: str = "",  # noqa: A002 - the name it has everywhere else
        attachments: Sequence[FileOrText] = (),
        fragments: Sequence[FileOrText] = (),
        params: Mapping[str, Parameter] | None = None,
        *,
        expect_json: bool = False,
    ) -> Any:
        """`run_async` for code that does not run in an event loop. Raises UsageError where it does."""
        if loop_is_running():
            raise UsageError(
                "TemplateCall.run would block the event loop that runs here",
                next_step="Write `await TemplateCall(…).run_async(…)`.",
            )
        return asyncio.run(self.run_async(template, input, attachments, fragments, params, expect_json=expect_json))

    async def run_async(
        self,
        template: str = "",
        input: str = "",  # noqa: A002 - the name it has everywhere else
        attachments: Sequence[FileOrText] = (),
        fragments: Sequence[FileOrText] = (),
        params: Mapping[str, Parameter] | None = None,
        *,
        expect_json: bool = False,
    ) -> Any:
        """Return the template's result: a text; with `expect_json` the object that its schema describes.

        `template` is a path below the workshop's folder, or `pkg:NAME`; with a lock it is not looked at. `attachments`
        are files of this machine, as paths or `{"path": …}`. `fragments` are added to the input: texts, and files as
        `{"path": …}` or paths of pathlib.

        Raises UsageError, DelegationRefusal and AttachmentRefusal before anything is started, and what `run_worker`
        raises.
        """
        if activity.in_activity():
            raise UsageError(
                "TemplateCall is for code outside of runs",
                next_step="Mark the tool with @tool_context, and call `ctx.call_tool('llm_worker_call', …)` there.",
            )
        name = choose_template(self._rules, template, caller=_WHOSE)
        files, policy = [_path_of(one) for one in attachments], self._rules.attachments
        check_attachment_names(policy, [file.name for file in files], whose=_WHOSE)
        check_total(policy, [file.stat().st_size for file in files if file.is_file()], whose=_WHOSE)
        schema = await asyncio.to_thread(self._schema, name, params) if expect_json else None
        text = "\n\n".join(part for part in (input, await asyncio.to_thread(_fragments, fragments)) if part)
        request = StartRequest(
            worker=name,
            read_prompt=lambda: text,
            params=dict(params or {}),
            files=tuple(files),
            model=self._model,
            mode=_mode(self._mode),
        )
        done = await _run(request, self._workshop, self._connection, is_template=True)
        if schema is None:
            return done.output if isinstance(done.output, str) else json.dumps(done.output, ensure_ascii=False)
        problems = schema_problems(schema, done.output)
        if problems:  # the template has another schema by now, or another workshop is served
            raise UsageError(f"the result of run '{done.run}' does not fit the schema of '{name}': {problems[0]}")
        return normalised(schema, done.output)

    def _schema(self, name: str, params: Mapping[str, Parameter] | None) -> dict[str, Any]:
        named = self._workshop or os.environ.get("LLM_DO_WORKSHOP") or None
        folder = find_workshop(Path(named or Path.cwd()), named=named is not None)
        schema = load_local_worker(folder, name, params).worker.output_schema
        if schema is None:
            raise UsageError(
                f"template '{name}' has no schema, so its result cannot be expected as JSON",
                next_step="Call it without expect_json.",
            )
        return schema


def _path_of(given: FileOrText) -> Path:
    if not isinstance(given, Mapping):
        return Path(given)
    if set(given) != {"path"}:
        raise UsageError('a file is given as its path or as {"path": …}')
    return Path(given["path"])


def _fragments(given: Sequence[FileOrText]) -> str:
    parts: list[str] = []
    for one in given:
        if isinstance(one, str):
            parts.append(f"Extra context:\n{one}")
            continue
        path = _path_of(one)
        text = read_given(path, f"the fragment '{path}'")
        parts.append(f"Extra context, the file {path.name}:\n{text}")
    text = "\n\n".join(parts)
    if len(text) > MAX_CONTEXT_CHARS:
        raise UsageError(f"the fragments have {len(text)} characters; at most {MAX_CONTEXT_CHARS} are taken together")
    return text
