"""Which task queue the activities of the running workflow go to, asked wherever one is scheduled.

Owns what belongs to which queue, and under which name a model stands in what people read of its activity. The workflow
says which of the queues there are: it has them from its worker's loading, or from an activity that did not find the
files, so every replay comes to the same.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from temporalio import workflow
from temporalio.worker import (
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from llm_do_temporal.messages.activities import KEEP_CONVERSATION, NOTIFY
from llm_do_temporal.messages.base import AGENT_NAME
from llm_do_temporal.policy.queues import Queues, files_queue

_OF_MODELS = f"agent__{AGENT_NAME}__"
_ANYWHERE = frozenset({KEEP_CONVERSATION.name, NOTIFY.name})
"""Activities that need no file of the workshop."""


class HasQueues(Protocol):
    """A workflow that knows which of its work has a task queue of its own."""

    queues: Queues


class AsksModels(Protocol):
    """A workflow that knows where requests to its model go."""

    def model_queue(self) -> str | None:
        """The task queue for the model that is asked; None: the workflow's own."""
        ...

    def name_model(self, summary: str) -> str:
        """A summary with the model that is asked under the name that people know it by."""
        ...


def queue_of(activity: str) -> str | None:
    """The task queue for an activity of the running workflow; None: the workflow's own."""
    if activity.startswith(_OF_MODELS):
        return cast("AsksModels", workflow.instance()).model_queue()
    if activity in _ANYWHERE or not cast("HasQueues", workflow.instance()).queues.files:
        return None
    return files_queue(workflow.info().task_queue)


def use_files_queue() -> None:
    """Send what needs the files of the workshop to their queue from here on, whatever the run was told as it began."""
    owner = cast("HasQueues", workflow.instance())
    owner.queues = owner.queues.model_copy(update={"files": True})


class TaskQueueInterceptor(Interceptor):
    """Sends each activity to its task queue. For every Temporal worker with workflows."""

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002 - named by the SDK
        """See Interceptor."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002 - named by the SDK
        input.task_queue = input.task_queue or queue_of(input.activity)
        if input.summary and input.activity.startswith(_OF_MODELS):
            input.summary = cast("AsksModels", workflow.instance()).name_model(input.summary)
        return super().start_activity(input)
