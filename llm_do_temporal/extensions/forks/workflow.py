"""Part of a fork in its invocations: steps that the other run has done are looked up in its record before they begin.

Requests of activities that read carry the record in a header, so that they read what the other run has read.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    StartActivityInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from llm_do_temporal.extensions.forks.messages import (
    HEADER,
    READS,
    REUSE_CALL,
    ForkSource,
    RecordedCall,
    ReuseCallInput,
    ReusedCall,
    TurnSource,
    source_of,
)
from llm_do_temporal.messages.base import Json
from llm_do_temporal.messages.budget import Saved, Usage
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.workflows.runtime.activities import run_local_first
from llm_do_temporal.workflows.tools.parts import Advice, InvocationPart, KnownStep, PartHost


class ForkPart(InvocationPart):
    """Look-ups of one invocation of a fork."""

    def __init__(self, source: ForkSource, invocation: InvokeWorkerInput, host: PartHost) -> None:
        self._source = source
        self._invocation = invocation
        self._host = host

    async def advice(self, key: str) -> Advice:
        """See InvocationPart. What a recorded call has changed is put into the layer."""
        found = await self._looked_up(key)
        call = found.call
        known = None if call is None else KnownStep(call.outcome, call.content, _saved_by(call), call.result)
        return Advice(known, found.asks, found.doubtful)

    def of_turn(self) -> Json:
        """See InvocationPart."""
        return TurnSource(source=self._source, path=self._invocation.path).model_dump(
            mode="json", exclude_defaults=True
        )

    async def _looked_up(self, key: str) -> ReusedCall:
        invocation, layer = self._invocation, self._host.layer
        request = ReuseCallInput(fork=self._source, key=key, path=invocation.path, tree=invocation.tree)
        summary = "look for it in the other run"
        if layer is None:
            return await run_local_first(REUSE_CALL, request, summary=summary)

        async def in_layer(work: LayerWork) -> ReusedCall:
            return await run_local_first(REUSE_CALL, request.model_copy(update={"layer": work}), summary=summary)

        return await layer.change(in_layer)


def fork_part(invocation: InvokeWorkerInput, host: PartHost) -> ForkPart | None:
    """Return the part of an invocation of a fork; None: it belongs to none."""
    source = source_of(invocation.parts)
    return None if source is None else ForkPart(source, invocation, host)


def _saved_by(call: RecordedCall) -> Usage:
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


class ForkHeaders(Interceptor):
    """Gives the activities of a fork that read the record of the other run."""

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002 - named by the SDK
        """See Interceptor."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    """Knows the record from the input of the workflow."""

    source: ForkSource | None = None

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound, self))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002 - named by the SDK
        given = input.args[0] if input.args else None
        # What starts a run may be anything.
        parts = cast("dict[str, Any]", given).get("parts") if isinstance(given, dict) else getattr(given, "parts", None)
        source = source_of(cast("dict[str, Any]", parts)) if isinstance(parts, dict) else None
        self.source = source if source is not None and source.then else None
        return await super().execute_workflow(input)


class _Outbound(WorkflowOutboundInterceptor):
    def __init__(self, following: WorkflowOutboundInterceptor, known: _Inbound) -> None:
        super().__init__(following)
        self._known = known

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002 - named by the SDK
        input.headers = self._marked(input.activity, input.headers)
        return super().start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002 - named by the SDK
        input.headers = self._marked(input.activity, input.headers)
        return super().start_local_activity(input)

    def _marked(self, activity: str, headers: Mapping[str, Payload]) -> Mapping[str, Payload]:
        source = self._known.source
        if source is None or activity not in READS:
            return headers
        return {**headers, HEADER: workflow.payload_converter().to_payload(source.model_dump(mode="json"))}
