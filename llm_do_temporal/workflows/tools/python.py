"""The `custom` toolset: functions of the author's `tools.py`.

A plain function is one activity. A function that takes a context runs here, from the text that was pinned with its
worker: the same on every replay, even where the file has changed since.

Workflow code runs without the SDK's sandbox: import contracts and replays hold it to what a replay can do again. An
author's function has neither, so it runs inside the sandbox's importer, one step after the other.

A tool that runs in an activity and calls a worker asks its invocation by an update. That call goes through the gate
like a model's `worker_call`, and ends with the tool that made it.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any, TypeVar, cast

import anyio
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_core import PydanticSerializationError, to_jsonable_python
from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError
from temporalio.worker._workflow_instance import _WorkflowBeingEvictedError  # pyright: ignore[reportPrivateUsage]
from temporalio.worker.workflow_sandbox import RestrictedWorkflowAccessError, SandboxRestrictions
from temporalio.worker.workflow_sandbox._importer import Importer
from temporalio.worker.workflow_sandbox._restrictions import RestrictionContext
from temporalio.workflow import NondeterminismError, ReadOnlyContextError

from llm_do_temporal.definitions.tools.python_functions import PythonFunction, as_json, explain_exception, read_function
from llm_do_temporal.errors import EffectFailed, LlmDoError, Refusal, UsageError
from llm_do_temporal.messages.activities import (
    CALL_PYTHON_TOOL,
    CalledForTool,
    CallForToolInput,
    CallPythonToolInput,
    ToolCaller,
)
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.definitions import PythonTool
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.external import call_arguments, idempotency_key, uses_of_call
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.tools import IdempotencyKey, ToolCallFailed
from llm_do_temporal.workflows.runtime.activities import await_shielded, run_local_first
from llm_do_temporal.workflows.runtime.failures import explain
from llm_do_temporal.workflows.tools.at_most_once import LONGEST_WAIT, ask_whether_to_repeat, is_lost, run_at_most_once
from llm_do_temporal.workflows.tools.delegate import Delegator
from llm_do_temporal.workflows.tools.delegation import WorkerCallTool
from llm_do_temporal.workflows.tools.gate import ENDS_INVOCATION, Gate, for_model
from llm_do_temporal.workflows.tools.gated_tool import AsksDesk, GatedTool, PreparedCall, ToolOutcome, ToolQuestion

T = TypeVar("T")

_RESTRICTIONS = SandboxRestrictions.default.with_passthrough_all_modules()
"""Libraries are those of the process, not loaded once a workflow; what they offer of clocks and chance is forbidden."""


class Restrictions:
    """Restrictions of the functions of one invocation.

    Code in them raises `RestrictedWorkflowAccessError` where it uses what gives something else on each replay.
    """

    def __init__(self) -> None:
        context = RestrictionContext()
        context.is_runtime = True
        self._importer = Importer(_RESTRICTIONS, context)

    @contextmanager
    def applied(self) -> Generator[None]:
        """Hold the code that runs in the block to the restrictions."""
        with self._importer.applied():
            yield

    def awaited(self, begin: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Return an awaitable that begins and runs code under the restrictions, each of its steps for itself.

        Other code of the workflow that runs between the steps is not restricted.
        """
        return _Steps(self, begin)


class _Steps(Awaitable[T]):
    def __init__(self, restrictions: Restrictions, begin: Callable[[], Awaitable[T]]) -> None:
        self._restrictions = restrictions
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, T]:
        with self._restrictions.applied():
            steps = self._begin().__await__()
        sent: Any = None
        raised: BaseException | None = None
        while True:
            try:
                with self._restrictions.applied():
                    waited = steps.send(sent) if raised is None else steps.throw(raised)
            except StopIteration as end:
                return end.value
            try:
                sent, raised = (yield waited), None
            except BaseException as error:
                sent, raised = None, error


class FunctionsCall(WorkerCallTool):
    """`worker_call` as the author's code makes it: a single worker, which need not be on the model's allow-list."""

    def __init__(self, delegator: Delegator, worker: str) -> None:
        super().__init__(delegator, ("*",))
        properties = self.schema["properties"] | {"worker_name": {"type": "string", "enum": [worker]}, "input_data": {}}
        self.schema = self.schema | {"properties": properties}


@dataclass
class _Errand:
    """Call of a tool that runs in an activity now."""

    calls: WorkflowToolContext
    context: Context
    """Context of the tool's call: the spans of its own calls belong below it."""


@dataclass
class Errands:
    """The tools of one invocation that run in activities, and the workers that they call."""

    invocation: InvokeWorkerInput
    dispatch: ToolDispatch
    desk: AsksDesk
    delegator: Delegator
    occurrences: Counter[str] = field(default_factory=Counter[str])
    """Number of times that each call of a tool was made, by the digest of tool and arguments."""
    _open: dict[str, _Errand] = field(default_factory=dict[str, _Errand])

    def key_of(self, tool: str, args: Mapping[str, Any]) -> str:
        """Return the idempotency key of the call that is about to be made; an identical call later gets another."""
        call = hashlib.sha256(canonical([tool, dict(args)]).encode()).hexdigest()[:32]
        self.occurrences[call] += 1
        return idempotency_key(self.invocation.run, self.invocation.path, tool, args, self.occurrences[call])

    def caller(self, key: str = "") -> ToolCaller:
        """Return the caller of a tool, for its activity; `key` is the key of the call, empty where none is made."""
        known = self.invocation
        return ToolCaller(
            call=key,
            run=known.run,
            path=known.path,
            worker=known.worker.name,
            depth=known.depth,
            max_depth=known.settings.max_depth,
        )

    async def carry_out(self, key: str, work: Callable[[], Awaitable[Any]]) -> ToolOutcome:
        """Run the activity of `work` and return its result, with the usage of the workers that it called meanwhile."""
        calls = WorkflowToolContext(self.dispatch, key)
        self._open[key] = _Errand(calls, copy_context())
        value: Any = None
        failure: LlmDoError | None = None
        # Nothing may be awaited in a `finally` here: see LlmDoRun.
        try:
            value = await work()
        except FailureError as error:
            failure = explain(error)
        except LlmDoError as error:
            failure = error
        except (Exception, asyncio.CancelledError):
            await self._close(key)
            raise
        await self._close(key)
        if calls.stopped is not None:
            # The tool may have caught it like any other exception, but must not prevent the end of the invocation.
            raise calls.stopped
        if isinstance(failure, (Refusal, *ENDS_INVOCATION)):
            raise failure
        return ToolOutcome(value, calls.usage, failure, "\n".join(calls.notes))

    async def _close(self, key: str) -> None:
        await self._open.pop(key).calls.close()

    def is_waiting(self, key: str) -> bool:
        """Whether the tool of this call waits for a worker, or a person."""
        return key in self._open and self._open[key].calls.is_waiting

    def check(self, asked: CallForToolInput) -> None:
        """Raise UsageError unless the tool that asks for the call is under way."""
        if asked.call not in self._open:
            raise UsageError(f"'{asked.worker[:80]}' was not called: no tool that runs now has asked for it")

    async def answer(self, asked: CallForToolInput) -> CalledForTool:
        """Make the call and return its result, or its failure as a text."""
        errand = self._open.get(asked.call)
        if errand is None:
            return CalledForTool(failure=f"'{asked.worker[:80]}' was not called: the tool has ended")
        args: dict[str, Any] = {"worker_name": asked.worker, "input_data": asked.input_data}
        if asked.attachments is not None:
            args["attachments"] = list(asked.attachments)
        tool = FunctionsCall(self.delegator, asked.worker)
        try:
            outcome = await errand.calls.carry_out(tool, args, errand.context.copy())
        except (ToolCallFailed, LlmDoError) as error:
            return CalledForTool(failure=str(error))
        except asyncio.CancelledError:
            return CalledForTool(failure=f"'{asked.worker}' was not waited for: the tool that called it has ended")
        return CalledForTool(output=outcome.value, usage=outcome.usage)


@dataclass
class ToolDispatch:
    """The gate, and the tools of the invocation by name: all that a call from code needs."""

    gate: Gate
    tools: dict[str, GatedTool] = field(default_factory=dict[str, GatedTool])


class WorkflowToolContext:
    """The `ToolContext` of one call of a function."""

    def __init__(self, dispatch: ToolDispatch, key: str) -> None:
        self.usage = Usage()
        """Usage of the calls together."""
        self.notes: list[str] = []
        """Changes that people made to the calls, as notes for the model."""
        self.stopped: Exception | None = None
        """First error of a call that ends the whole invocation; None: none did."""
        self._dispatch = dispatch
        self._key = key
        self._open: list[asyncio.Task[ToolOutcome]] = []
        self._closed = False

    @property
    def idempotency_key(self) -> IdempotencyKey:
        """See ToolContext."""
        return IdempotencyKey(self._key)

    async def call_tool(
        self,
        name: str,
        input: str | Mapping[str, Any],  # noqa: A002 - the name that authors know
        *,
        attachments: Sequence[str] | None = None,
    ) -> Any:
        """See ToolContext."""
        self._check_open()
        tool = self._dispatch.tools.get(name)
        if tool is None:
            has = ", ".join(f"'{known}'" for known in sorted(self._dispatch.tools))
            raise ToolCallFailed(f"there is no tool '{name}'; this worker has {has}")
        return (await self.carry_out(tool, _arguments(tool, input, attachments))).value

    async def carry_out(self, tool: GatedTool, args: dict[str, Any], context: Context | None = None) -> ToolOutcome:
        """Carry out the call of a tool, in `context`; None: in the context of the awaiting task.

        Raises ToolCallFailed, or one of ENDS_INVOCATION.
        """
        self._check_open()
        task = asyncio.create_task(self._carry_out(tool, args), context=context)
        self._open.append(task)
        return await await_shielded(task)

    @property
    def is_waiting(self) -> bool:
        """Whether a call is under way."""
        return any(not task.done() for task in self._open)

    def _check_open(self) -> None:
        if self.stopped is not None:
            raise self.stopped
        if self._closed:
            raise ToolCallFailed("the function has ended, so it cannot call tools any more")

    async def close(self) -> None:
        """Cancel the calls that the function did not wait for, and take back their questions."""
        self._closed = True
        running = [task for task in self._open if not task.done()]
        for task in running:
            task.cancel()
        with anyio.CancelScope(shield=True):
            if running:
                await workflow.wait(running)
                await self._dispatch.gate.withdraw_abandoned()
        for task in self._open:
            if not task.cancelled():
                task.exception()  # seen: asyncio need not warn that no code asked for it

    async def _carry_out(self, tool: GatedTool, args: dict[str, Any]) -> ToolOutcome:
        try:
            outcome = await self._dispatch.gate.execute(tool, args)
        except (ToolFailed, ModelRetry) as error:
            raise ToolCallFailed(error.message) from error
        except ENDS_INVOCATION as stop:
            self.stopped = self.stopped or stop
            raise
        self.usage = self.usage.plus(outcome.usage)
        if outcome.note:
            self.notes.append(outcome.note)
        if outcome.failure is not None:
            raise ToolCallFailed(for_model(outcome.failure)) from outcome.failure
        return outcome


def _arguments(tool: GatedTool, given: Any, attachments: Sequence[str] | None) -> dict[str, Any]:
    try:
        plain = to_jsonable_python(given)
        paths = None if attachments is None else [str(path) for path in attachments]
    except (PydanticSerializationError, ValueError) as error:
        raise ToolCallFailed(f"the input of '{tool.name}' cannot be written as JSON: {error}") from error
    if not isinstance(plain, str | dict):
        raise ToolCallFailed(f"the input of '{tool.name}' is a {type(given).__name__}; give it a text or a mapping")
    try:
        return call_arguments(tool.name, tool.schema, cast("str | dict[str, Any]", plain), paths)
    except EffectFailed as error:
        raise ToolCallFailed(str(error)) from error


CALL_TIMEOUT = timedelta(minutes=30)
"""Longest single attempt of a plain function, without the time that it waits for workers that it calls."""
MAX_NESTED = 10
"""Largest depth of functions with a context that call each other: recursion must end somewhere."""
_SUMMARY_CHARS = 150

_level: ContextVar[int] = ContextVar("llm_do_nested_functions", default=0)


@dataclass
class Functions:
    """State that the Python tools of one invocation share."""

    invocation: InvokeWorkerInput
    dispatch: ToolDispatch
    errands: Errands
    restrictions: Restrictions = field(default_factory=Restrictions)
    """Restrictions of the functions with a context."""
    _modules: dict[str, ModuleType] = field(default_factory=dict[str, ModuleType])

    def function(self, tool: PythonTool) -> PythonFunction:
        """Return the function of a pinned file, which is executed the first time. Raises the file's own errors."""
        if tool.sha256 not in self._modules:
            # Each invocation has a module of its own: values that it leaves in there must not meet a replay of another.
            toolset = self.invocation.worker.python
            assert toolset is not None
            with self.restrictions.applied():
                self._modules[tool.sha256] = _executed(tool, toolset.sources[tool.sha256])
        with self.restrictions.applied():
            return read_function(tool.name, getattr(self._modules[tool.sha256], tool.name))


@dataclass
class _Function:
    """Function of the author's as a model sees it."""

    functions: Functions
    tool: PythonTool

    def __post_init__(self) -> None:
        self.name = self.tool.name
        self.description = self.tool.description
        self.schema = self.tool.parameters


class PlainFunction(_Function):
    """Function that an activity calls."""

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Judge the tool; the effect calls the function, once unless it is idempotent."""
        question = _question(self.tool, args)
        tool = self.tool

        async def effect() -> ToolOutcome:
            errands = self.functions.errands
            key = errands.key_of(tool.name, args)
            request = CallPythonToolInput(
                tool=tool.name,
                source=tool.source,
                sha256=tool.sha256,
                args=args,
                idempotency_key=key,
                caller=errands.caller(key),
                limit_seconds=CALL_TIMEOUT.total_seconds(),
            )
            attempt = self._attempted if tool.idempotent else self._attempted_once
            return await errands.carry_out(key, lambda: attempt(request, question))

        return PreparedCall((question,), effect)

    async def _attempted(self, request: CallPythonToolInput, question: ToolQuestion) -> Any:
        while True:
            try:
                result = await run_local_first(
                    CALL_PYTHON_TOOL, request, summary=question.summary, timeout=LONGEST_WAIT
                )
            except ActivityError as error:
                # Services may be replaced any number of times while a person thinks: the call is not given up for that.
                if not (is_lost(error) and self.functions.errands.is_waiting(request.idempotency_key)):
                    raise
            else:
                return result.value

    async def _attempted_once(self, request: CallPythonToolInput, question: ToolQuestion) -> Any:
        settings = self.functions.invocation.settings
        result = await run_at_most_once(
            CALL_PYTHON_TOOL,
            request,
            summary=question.summary,
            timeout=LONGEST_WAIT,
            ask=ask_whether_to_repeat(self.functions.errands.desk, settings, self, question, what=question.summary),
        )
        return result.value


class ContextFunction(_Function):
    """Function that runs in workflow code and calls other tools."""

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Judge the tool; the effect runs the function, and each of its calls passes the gate by itself."""

        async def effect() -> ToolOutcome:
            if _level.get() >= MAX_NESTED:
                raise EffectFailed(f"'{self.name}' was not called: more than {MAX_NESTED} functions call each other")
            calls = WorkflowToolContext(self.functions.dispatch, self.functions.errands.key_of(self.name, args))
            token = _level.set(_level.get() + 1)
            try:
                return await self._run(args, calls)
            finally:
                _level.reset(token)
                await calls.close()

        return PreparedCall((_question(self.tool, args),), effect)

    async def _run(self, args: dict[str, Any], calls: WorkflowToolContext) -> ToolOutcome:
        value: Any = None
        failure: EffectFailed | None = None
        try:
            function = self.functions.function(self.tool)
            with self.functions.restrictions.applied():
                arguments = function.arguments(args, key=calls.idempotency_key, context=calls)
            given = await self.functions.restrictions.awaited(lambda: function.call(**arguments))
            value = as_json(given)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            failure = EffectFailed(f"'{self.name}' waited for something that was cancelled")
        except BaseException as error:
            if isinstance(error, _WorkflowBeingEvictedError):
                raise
            failure = _failure(self.name, error)
        if calls.stopped is not None:
            # The function may have caught it like any other exception, but must not prevent the end of the invocation.
            raise calls.stopped
        return ToolOutcome(value, calls.usage, failure, "\n".join(calls.notes))


def python_tools(functions: Functions) -> list[GatedTool]:
    """Return the Python tools of an invocation's worker."""
    toolset = functions.invocation.worker.python
    if toolset is None:
        return []
    return [
        ContextFunction(functions, tool) if tool.kind == "context" else PlainFunction(functions, tool)
        for tool in toolset.tools
    ]


def _question(tool: PythonTool, args: dict[str, Any]) -> ToolQuestion:
    uses = uses_of_call(tool.name, tool.capabilities, tool.ruling, digest=tool.sha256)
    return ToolQuestion(uses, args, f"{tool.name} {canonical(args)}"[:_SUMMARY_CHARS])


def _failure(tool: str, error: BaseException) -> EffectFailed:
    """Return an error of the author's function as one of ours. Raises it unchanged where Temporal has to see it."""
    if isinstance(error, RestrictedWorkflowAccessError):
        used = error.qualified_name.removeprefix("__builtins__.").removesuffix(".__call__")
        return EffectFailed(
            f"'{tool}' used '{used}', which gives something else each time it is asked; a function "
            "with a context must do that in a plain function of tools.py and call it with ctx.call_tool"
        )
    if isinstance(error, NondeterminismError | ReadOnlyContextError):
        raise error
    return error if isinstance(error, EffectFailed) else EffectFailed(explain_exception(tool, error))


def _executed(tool: PythonTool, text: str) -> ModuleType:
    module = ModuleType(f"_llm_do_pinned_{tool.sha256}")
    module.__file__ = tool.source
    sys.modules[module.__name__] = module  # pydantic looks there for the names in annotations
    exec(_compiled(tool.source, text), module.__dict__)  # noqa: S102 - the author's own code
    return module


@lru_cache(maxsize=64)
def _compiled(source: str, text: str) -> CodeType:
    return compile(text, source, "exec", dont_inherit=True)
