"""Workflow of a traced run: its open spans, and readings of its events.

Owns reading single events. Called by `build`, which decides what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.desk_news import DESK_ACTIVITIES
from llm_do_temporal.client.history.local_activities import local_effect
from llm_do_temporal.client.history.origins import CallOrigins
from llm_do_temporal.client.traces.open_calls import OpenCalls
from llm_do_temporal.client.traces.spans import OpenSpan
from llm_do_temporal.errors import error_classes
from llm_do_temporal.messages.activities import RECORD_AT_DESK
from llm_do_temporal.policy.models import models_of, read_serving_id


@dataclass
class Flow:
    """Workflow, as far as its history was read."""

    workflow_id: str
    span: OpenSpan
    execution: str = ""
    """The execution that is being read: a workflow that continues as new has several."""
    model: str = ""
    turns: dict[int, OpenSpan] = field(default_factory=dict[int, OpenSpan])
    """Open model turns by the id of the event that scheduled them."""
    effects: dict[int, OpenSpan] = field(default_factory=dict[int, OpenSpan])
    calls: dict[str, OpenSpan] = field(default_factory=dict[str, OpenSpan])
    """Open tool calls by their ids."""
    unclaimed: OpenCalls = field(default_factory=OpenCalls)
    """Open tool calls of which no invocation is known that they have started."""
    questions: dict[str, OpenSpan] = field(default_factory=dict[str, OpenSpan])
    origins: CallOrigins = field(default_factory=CallOrigins)
    """Results of calls that were taken from another run."""
    answered: bool = False
    """Whether the workflow has ended."""

    @property
    def open_spans(self) -> list[OpenSpan]:
        """Return the spans that have begun and not ended, the innermost first."""
        inner = [*self.questions.values(), *self.effects.values(), *self.calls.values(), *self.turns.values()]
        return inner if self.answered else [*inner, self.span]


def is_effect_of_run(event: HistoryEvent) -> bool:
    """Whether this event begins, or has, an effect of a run itself, and not of its entry invocation."""
    local = local_effect(event)
    name = event.activity_task_scheduled_event_attributes.activity_type.name if local is None else local.activity
    return name in DESK_ACTIVITIES and name != RECORD_AT_DESK.name


def activity_failure(event: HistoryEvent) -> tuple[int, str, str] | None:
    """The scheduling event, code and message of an activity that ended without a result; else None."""
    if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
        failed = event.activity_task_failed_event_attributes
        return failed.scheduled_event_id, *reason_of(failed.failure)
    if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
        timed_out = event.activity_task_timed_out_event_attributes
        return timed_out.scheduled_event_id, *reason_of(timed_out.failure)
    if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
        return event.activity_task_canceled_event_attributes.scheduled_event_id, "cancelled", "cancelled"
    return None


def first_model(invocation: dict[str, Any]) -> str:
    """`provider:name` of the model that an invocation asks first, whatever the workshop calls it."""
    name = next(iter(models_of(str(invocation.get("model") or ""))), "")
    settings = cast("dict[str, Any]", invocation.get("settings") or {})
    aliases = cast("dict[str, Any]", cast("dict[str, Any]", settings.get("models") or {}).get("aliases") or {})
    alias = aliases.get(name)
    return str(cast("dict[str, Any]", alias).get("model")) if is_object(alias) else name


def asked_model(request: dict[str, Any]) -> str | None:
    """`provider:name` of the model that a request goes to; None where it does not say."""
    try:
        return read_serving_id(str(request["model_id"]))[1].model
    except (ValueError, KeyError):
        return None


def reason_of(failure: Failure) -> tuple[str, str]:
    """The code and the message of a failure: the first error of ours in it, else the innermost; never a stack."""
    while True:
        code = failure.application_failure_info.type if failure.HasField("application_failure_info") else ""
        if code in error_classes() or not failure.HasField("cause"):
            return code or "error", failure.message or "failed"
        failure = failure.cause


def nanoseconds(moment: Any) -> int | None:
    """A moment written as text, in nanoseconds since 1970; None where it is none."""
    try:
        return int(datetime.fromisoformat(str(moment)).timestamp() * 1_000_000) * 1_000
    except ValueError:
        return None


def is_object(value: Any) -> bool:
    """Whether this is a JSON object."""
    return isinstance(value, dict)
