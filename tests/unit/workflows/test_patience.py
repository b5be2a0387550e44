"""An activity that lacks a key, the blob store or the files has not begun: it is tried again, ever more patiently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType  # noqa: A004

from llm_do_temporal.activities.runtime.failures import as_failure
from llm_do_temporal.errors import BlobsUnreachable, EffectFailed, KeyMismatch
from llm_do_temporal.messages.activities import EDIT_FILE, EditFileInput, WriteFileInput
from llm_do_temporal.messages.base import NOT_BEGUN
from llm_do_temporal.policy.files.sandbox import Mount
from llm_do_temporal.storage.object_store import QUICK_BACKOFF
from llm_do_temporal.storage.places import READ_PATIENCE, READ_SILENCE
from llm_do_temporal.workflows.runtime.activities import (
    HEARTBEAT_TIMEOUT,
    could_not_fetch,
    lacks_blobs,
    run_activity,
    run_until_started,
)
from llm_do_temporal.workflows.tools.at_most_once import is_unknown, why_unknown
from tests.support.workflow.activity_failures import activity_failed
from tests.support.workflow.fake_workflow import FakeWorkflow

MOUNT = Mount(at="/", root=".")


def unreadable() -> ActivityError:
    """As the SDK says it of a service that lacks the key for what it was to do."""
    outer = ApplicationError("Failed decoding arguments")
    outer.__cause__ = ApplicationError("no key 'k2'", type=KeyMismatch.__name__)
    return activity_failed(outer)


def unfetchable() -> ActivityError:
    """As the SDK says it of a service that cannot read the blob with what it was to do."""
    outer = ApplicationError("Failed decoding arguments")
    outer.__cause__ = ApplicationError("it does not answer", type="BlobsUnreachable")
    return activity_failed(outer)


def starting(*outcomes: Any) -> Callable[[], Any]:
    """Starts an activity that comes to the next outcome each time: an error, or a result."""
    left = list(outcomes)

    async def attempt() -> Any:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return lambda: asyncio.create_task(attempt())


@pytest.mark.parametrize("failure", [unreadable, unfetchable])
async def test_each_wait_is_twice_as_long_up_to_ten_minutes(
    fake_workflow: FakeWorkflow, failure: Callable[[], ActivityError]
) -> None:
    result = await run_until_started(starting(*(failure() for _ in range(11)), "done"))
    assert result == "done"
    seconds = [wait.total_seconds() for wait in fake_workflow.slept]
    assert seconds == [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]


async def test_a_week_without_the_key_does_not_fill_a_history(fake_workflow: FakeWorkflow) -> None:
    begun = fake_workflow.now
    tries = 0

    async def attempt() -> str:
        nonlocal tries
        tries += 1
        if fake_workflow.now - begun < timedelta(days=7):
            raise unreadable()
        return "done"

    assert await run_until_started(lambda: asyncio.create_task(attempt())) == "done"  # type: ignore[arg-type, return-value]
    assert tries < 1_100


async def test_what_has_begun_is_not_tried_again(fake_workflow: FakeWorkflow) -> None:
    lost = activity_failed(ApplicationError("no", type="EffectFailed"))
    with pytest.raises(ActivityError):
        await run_until_started(starting(lost, "never"))
    assert fake_workflow.slept == []


async def test_a_caller_says_what_else_is_worth_waiting_for(fake_workflow: FakeWorkflow) -> None:
    late = activity_failed(ApplicationError("no", type="Passing"))
    assert await run_until_started(starting(late, "done"), or_passes=lambda error: error is late) == "done"
    assert len(fake_workflow.slept) == 1


async def test_what_came_too_late_to_begin_is_tried_again(fake_workflow: FakeWorkflow) -> None:
    late = activity_failed(ApplicationError("no", type=NOT_BEGUN))
    assert await run_until_started(starting(late, "done")) == "done"
    assert len(fake_workflow.slept) == 1


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


@pytest.mark.parametrize(
    ("request_", "marks"),
    [
        (EditFileInput(mount=MOUNT, relative="a", path="/a", old_text="a", new_text="b"), [False, True, True]),
        (WriteFileInput(mount=MOUNT, relative="a", path="/a", content="b"), [None, None, None]),
    ],
)
async def test_a_further_activity_knows_that_one_before_may_have_made_the_edit(
    request_: Any, marks: list[bool | None], fake_workflow: FakeWorkflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    start = starting(unfetchable(), unreadable(), "done")

    def start_activity(_name: str, request: Any, **_options: Any) -> Any:
        asked.append(request)
        return start()

    monkeypatch.setattr(workflow, "start_activity", start_activity)
    await run_activity(EDIT_FILE, request_, summary="edit")
    assert [getattr(one, "retried", None) for one in asked] == marks
    assert len(fake_workflow.slept) == 2
