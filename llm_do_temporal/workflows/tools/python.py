"""The `custom` toolset: functions of the author's `tools.py`.

A plain function is one activity. A function that takes a context runs here, from the text that was pinned with its
worker: the same on every replay, even where the file has changed since.
"""

from __future__ import annotations

import asyncio
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any

from temporalio.exceptions import ActivityError
from temporalio.worker._workflow_instance import _WorkflowBeingEvictedError  # pyright: ignore[reportPrivateUsage]
from temporalio.worker.workflow_sandbox import RestrictedWorkflowAccessError
from temporalio.workflow import NondeterminismError, ReadOnlyContextError

from llm_do_temporal.definitions.tools.python_functions import PythonFunction, as_json, explain_exception, read_function
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.activities import CALL_PYTHON_TOOL
from llm_do_temporal.messages.definitions import PythonTool
from llm_do_temporal.messages.effects import CallPythonToolInput
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.external import uses_of_call
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.workflows.runtime.activities import run_local_first
from llm_do_temporal.workflows.runtime.restrictions import Restrictions
from llm_do_temporal.workflows.tools.at_most_once import LONGEST_WAIT, ask_whether_to_repeat, is_lost, run_at_most_once
from llm_do_temporal.workflows.tools.gated_tool import GatedTool, PreparedCall, ToolOutcome, ToolQuestion
from llm_do_temporal.workflows.tools.tool_context import ToolDispatch, WorkflowToolContext
from llm_do_temporal.workflows.tools.worker_calls import Errands

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
