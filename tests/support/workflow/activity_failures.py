"""Failures of activities, as workflows get them."""

from __future__ import annotations

from temporalio.exceptions import ActivityError, RetryState


def activity_failed(cause: Exception) -> ActivityError:
    failed = ActivityError(
        "Activity task failed",
        scheduled_event_id=1,
        started_event_id=2,
        identity="",
        activity_type="a",
        activity_id="1",
        retry_state=RetryState.NON_RETRYABLE_FAILURE,
    )
    failed.__cause__ = cause
    return failed
