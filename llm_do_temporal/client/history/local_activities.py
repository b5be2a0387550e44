"""Effects that ran within their workflow's task: the history has one marker of each, made when it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.payloads import decode_json

_MARKER = "core_local_activity"


@dataclass(frozen=True)
class LocalEffect:
    """Effect that ran as a local activity. Times are nanoseconds since 1970."""

    activity: str
    summary: str
    started_at: int
    ended_at: int
    failure: Failure | None
    result: tuple[Payload, ...] = ()
    """The effect's result: one value, or none."""


def local_effect(event: HistoryEvent) -> LocalEffect | None:
    """The effect that this event records, if it does."""
    if not event.HasField("marker_recorded_event_attributes"):
        return None
    marker = event.marker_recorded_event_attributes
    if marker.marker_name != _MARKER:
        return None
    details = cast("Mapping[str, Payloads]", marker.details)
    payloads = details["data"].payloads if "data" in details else ()
    data = decode_json(payloads[0]) if payloads else None
    facts = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    name = str(facts.get("activity_type") or "")
    said = decode_json(event.user_metadata.summary) if event.user_metadata.summary.data else None
    now = event.event_time.ToNanoseconds()
    ended = _moment(facts.get("complete_time"), now)
    return LocalEffect(
        activity=name,
        summary=str(said or name),
        started_at=min(_moment(facts.get("original_schedule_time"), ended), ended),
        ended_at=ended,
        failure=marker.failure if marker.HasField("failure") else None,
        result=tuple(details["result"].payloads) if "result" in details else (),
    )


def _moment(value: Any, otherwise: int) -> int:
    """A protobuf timestamp as JSON, in nanoseconds."""
    if not isinstance(value, dict):
        return otherwise
    parts = cast("dict[str, Any]", value)
    return int(parts.get("seconds") or 0) * 1_000_000_000 + int(parts.get("nanos") or 0)
