"""Task queues of the activities of the running workflow, chosen wherever an activity is scheduled.

Owns the queue of each activity, and the name of the model in the summary of its activity. The workflow knows the
existing queues: it has them from its worker's loading, or from an activity that did not find the files, so every
replay comes to the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

from temporalio import workflow
from temporalio.worker import (
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from llm_do_temporal.extension import activity_refs
from llm_do_temporal.messages.activities import FILE_ACTIVITIES
from llm_do_temporal.messages.base import AGENT_NAME
from llm_do_temporal.policy.queues import Queues, files_queue

_OF_MODELS = f"agent__{AGENT_NAME}__"
_OF_FILES = frozenset(ref.name for ref in (*FILE_ACTIVITIES, *activity_refs()))


class AskedModel(Protocol):
    """The model that an invocation asks, as far as the way to it goes."""

    @property
    def queue(self) -> str | None:
        """The task queue for requests to the model; None: the workflow's own."""
        ...

    def as_shown(self, summary: str) -> str:
        """The summary of a request with the name that people know the model by."""
        ...


@dataclass
class ActivityRoutes:
    """The task queues that a workflow's activities have of their own. Every workflow keeps them as `routes`."""

    queues: Queues
    model: AskedModel | None = None
    """None in a workflow that asks no model."""


class _Routed(Protocol):
    routes: ActivityRoutes


def _routes() -> ActivityRoutes:
    return cast("_Routed", workflow.instance()).routes


def queue_of(activity: str) -> str | None:
    """Return the task queue for an activity of the running workflow; None: the workflow's own."""
    routes = _routes()
    if routes.model is not None and activity.startswith(_OF_MODELS):
        return routes.model.queue
    if activity not in _OF_FILES or not routes.queues.files:
        return None
    return files_queue(workflow.info().task_queue)


def use_files_queue() -> None:
    """Send activities that need the files of the workshop to the files queue from here on, even where the run began
    without such a queue."""
    routes = _routes()
    routes.queues = routes.queues.model_copy(update={"files": True})


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
        model = _routes().model if input.activity.startswith(_OF_MODELS) else None
        if model is not None and input.summary:
            input.summary = model.as_shown(input.summary)
        return super().start_activity(input)
