"""`LlmDoWorker`: the workflow of one delegated invocation, or of one item of a batch."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from llm_do_temporal.errors import LlmDoError
    from llm_do_temporal.messages.activities import CALL_FOR_TOOL_UPDATE, CalledForTool, CallForToolInput
    from llm_do_temporal.messages.approvals import DeliverDecisionInput, DeliverVotesInput
    from llm_do_temporal.messages.base import DELIVER_DECISION_SIGNAL, DELIVER_VOTES_SIGNAL, WORKER_WORKFLOW
    from llm_do_temporal.messages.budget import GRANT_SPENDING_SIGNAL
    from llm_do_temporal.messages.runs import InvocationResult, InvokeWorkerInput
    from llm_do_temporal.policy.budget import Action
    from llm_do_temporal.telemetry.spans import outside_workflow_span
    from llm_do_temporal.workflows.invocation.invocation import Invocation
    from llm_do_temporal.workflows.runtime.activities import ActivityRoutes
    from llm_do_temporal.workflows.runtime.children import FarDesk
    from llm_do_temporal.workflows.runtime.failures import as_failure
    from llm_do_temporal.workflows.runtime.inbound import read_signal


@workflow.defn(name=WORKER_WORKFLOW, failure_exception_types=[LlmDoError])
class LlmDoWorker:
    """Runs an invocation whose desk is far: its questions are signals to the run, and so are the answers."""

    @workflow.init
    def __init__(self, invocation: InvokeWorkerInput) -> None:
        self.invocation = Invocation(invocation, FarDesk(invocation.run), _go_on_as_new)
        self.routes = ActivityRoutes(invocation.settings.queues, self.invocation.models)

    @workflow.run
    async def run(self, invocation: InvokeWorkerInput) -> InvocationResult:
        """Return the worker's output, and the usage of this invocation with all below it."""
        try:
            return await self.invocation.run()
        except LlmDoError as error:
            raise as_failure(error, self.invocation.usage) from error

    @workflow.update(name=CALL_FOR_TOOL_UPDATE, unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def call_for_tool(self, asked: CallForToolInput) -> CalledForTool:
        """Call a worker for a tool that runs in an activity."""
        return await self.invocation.errands.answer(asked)

    @call_for_tool.validator
    def _check_call_for_tool(self, asked: CallForToolInput) -> None:
        self.invocation.errands.check(asked)

    @workflow.signal(name=DELIVER_DECISION_SIGNAL)
    def deliver_decision(self, *payloads: Any) -> None:
        """Take the desk's answer to a question; an answer to a question that is not open is dropped."""
        delivery = read_signal(DeliverDecisionInput, payloads)
        if delivery is not None:
            self.invocation.desk.take_decision(delivery)

    @workflow.signal(name=DELIVER_VOTES_SIGNAL)
    def deliver_votes(self, *payloads: Any) -> None:
        """Take note that one more person has agreed, where several must."""
        delivery = read_signal(DeliverVotesInput, payloads)
        if delivery is not None:
            self.invocation.desk.show_votes(delivery)

    @workflow.signal(name=GRANT_SPENDING_SIGNAL, unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def grant_spending(self, *payloads: Any) -> None:
        """Take an action of the desk about limits."""
        action = read_signal(Action, payloads)
        if action is not None:
            await self.invocation.guard.apply(action)


async def _go_on_as_new(invocation: InvokeWorkerInput) -> None:
    with outside_workflow_span():
        workflow.continue_as_new(invocation)
