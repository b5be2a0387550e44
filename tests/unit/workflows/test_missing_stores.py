"""What an activity that could not reach the blob store means for the effect it was to have."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError, TimeoutError, TimeoutType  # noqa: A004

from llm_do_temporal.activities.runtime.failures import as_failure
from llm_do_temporal.errors import BlobsUnreachable, EffectFailed
from llm_do_temporal.storage.object_store import QUICK_BACKOFF
from llm_do_temporal.storage.places import READ_PATIENCE, READ_SILENCE
from llm_do_temporal.workflows.runtime.activities import HEARTBEAT_TIMEOUT, could_not_fetch, lacks_blobs
from llm_do_temporal.workflows.tools.at_most_once import is_unknown, why_unknown
from tests.support.workflow.activity_failures import activity_failed


def wrapped(failure: ApplicationError, kind: str | None = None) -> ApplicationError:
    outer = ApplicationError("Failed decoding arguments", type=kind)
    outer.__cause__ = failure
    return outer


AWAY = ApplicationError("it does not answer", type="BlobsUnreachable")
"""As the SDK makes one of an error that leaves its own reading or keeping of a value."""


@pytest.mark.parametrize(
    ("failure", "away", "begun"),
    [
        (as_failure(BlobsUnreachable("it does not answer")), True, True),
        (AWAY, True, True),
        # What an activity was to do could not be read; what an activity itself raises has a type.
        (wrapped(AWAY), True, False),
        (wrapped(AWAY, "EffectFailed"), False, True),
        (wrapped(as_failure(EffectFailed("a blob is damaged"))), False, True),
        (as_failure(EffectFailed("no such file")), False, True),
    ],
)
def test_an_effect_waits_for_the_blob_store_and_is_not_repeated_without_a_word(
    failure: ApplicationError, away: bool, begun: bool
) -> None:
    error = activity_failed(failure)
    assert lacks_blobs(error) is away
    assert could_not_fetch(error) is not begun
    assert is_unknown(error) is (away and begun)


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (AWAY, "the blob store could not be used"),
        (TimeoutError("", type=TimeoutType.HEARTBEAT, last_heartbeat_details=[]), "the worker service was lost"),
        (TimeoutError("", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[]), "the time was up"),
        (ApplicationError("", type="WorkerShutdown"), "the worker service was lost"),
    ],
)
def test_a_person_is_told_why_nobody_knows_what_happened(cause: Exception, why: str) -> None:
    error = activity_failed(cause)
    assert is_unknown(error)
    assert why_unknown(error) == why


def test_what_an_activity_is_to_do_is_read_before_it_is_taken_for_dead() -> None:
    """Nothing can beat until then."""
    assert READ_PATIENCE + QUICK_BACKOFF + 2 * READ_SILENCE <= HEARTBEAT_TIMEOUT
