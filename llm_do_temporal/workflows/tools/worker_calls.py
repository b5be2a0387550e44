"""Calls of workers for tools that run in an activity: the workflow makes them, and the activity waits for the answers.

A tool that calls a worker asks its invocation by an update. The call goes through the gate like a model's
`worker_call`, from the same files and at the same desk. Its usage is counted with the tool's result, like the usage of
a function with a context. Calls end with the tool that made them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

from temporalio.exceptions import FailureError

from llm_do_temporal.errors import LlmDoError, Refusal, UsageError
from llm_do_temporal.messages.external import CalledForTool, CallForToolInput, ToolCaller
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.external import idempotency_key
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.tools import ToolCallFailed
from llm_do_temporal.workflows.runtime.failures import explain
from llm_do_temporal.workflows.tools.delegate import Delegator
from llm_do_temporal.workflows.tools.delegation import WorkerCallTool
from llm_do_temporal.workflows.tools.gate import ENDS_INVOCATION
from llm_do_temporal.workflows.tools.gated_tool import AsksDesk, ToolOutcome
from llm_do_temporal.workflows.tools.tool_context import ToolDispatch, WorkflowToolContext


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
