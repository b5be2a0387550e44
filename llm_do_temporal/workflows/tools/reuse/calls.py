"""Calls of an invocation by their content keys, and, in a fork, by what the other run came to with them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

from pydantic_ai.exceptions import ModelRetry, ToolFailed

from llm_do_temporal.messages.activities import REUSE_CALL
from llm_do_temporal.messages.budget import Saved, Usage
from llm_do_temporal.messages.experiments.forks import RecordedCall, ReuseCallInput, ReusedCall
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.reuse.keys import call_key
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.workflows.runtime.activities import run_local_first
from llm_do_temporal.workflows.runtime.call_keys import current_call
from llm_do_temporal.workflows.tools.gated_tool import ToolOutcome
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer

_NOT_THERE = ReusedCall()


class CallRecord:
    """Keys of an invocation's calls, and the record that a fork looks them up in."""

    def __init__(self, invocation: InvokeWorkerInput, layer: WorkingLayer | None) -> None:
        self._invocation = invocation
        self._layer = layer
        self._turn = ""
        self._occurrences: Counter[str] = Counter()

    def begin_answer(self, turn_key: str) -> None:
        """Begin with the calls of the answer of this turn; empty: the turn has no key, and its calls have none."""
        self._turn = turn_key
        self._occurrences.clear()

    def key_of(self, tool: str, args: dict[str, Any]) -> str:
        """Return the key of a call that begins now: of the newest answer, or of the call that is being carried out."""
        by = current_call() or self._turn
        equal = canonical([by, tool, args])
        self._occurrences[equal] += 1
        return call_key(by, tool, args, self._occurrences[equal])

    async def look_up(self, key: str) -> ReusedCall:
        """Return what the record of the other run has of this key, and put what was changed into the layer.

        Nothing is found where the run is no fork.
        """
        fork, layer = self._invocation.fork, self._layer
        if fork is None or not key:
            return _NOT_THERE
        request = ReuseCallInput(fork=fork, key=key, path=self._invocation.path, tree=self._invocation.tree)
        if layer is None:
            return await run_local_first(REUSE_CALL, request, summary="look for it in the other run")

        async def in_layer(work: LayerWork) -> ReusedCall:
            laid = request.model_copy(update={"layer": work})
            return await run_local_first(REUSE_CALL, laid, summary="look for it in the other run")

        return await layer.change(in_layer)


def outcome_of(call: RecordedCall) -> ToolOutcome:
    """Return the outcome of a recorded call, for the model. Raises ToolFailed and ModelRetry where it came to these."""
    if call.outcome == "failed":
        raise ToolFailed(str(call.content))
    if call.outcome == "retry":
        raise ModelRetry(str(call.content))
    return ToolOutcome(call.content, saved_by(call))


def saved_by(call: RecordedCall) -> Usage:
    """Return the usage of a reused call: nothing, and what it has saved."""
    if call.saved is None:
        return Usage()
    spent = Usage.model_validate(call.saved)
    saved = Saved(
        requests=spent.requests,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cost_usd=spent.cost_usd,
    )
    return Usage(cost_usd=Decimal(0), saved=saved.plus(spent.saved))
