"""Targets are told what happens at the desk: once, in order, and for as long as somebody may care."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio import workflow

from llm_do_temporal.messages.activities import NotifyInput
from llm_do_temporal.messages.runs import ItemCounts
from llm_do_temporal.policy.notifications import NotifyEvent, NotifySettings
from llm_do_temporal.workflows.run.notifications import FAREWELL, LIFETIME, MAX_WAITING, Notifier
from tests.support.workflow.desk_questions import asked, decided, withdrawn, write
from tests.support.workflow.fake_workflow import FakeWorkflow, idle

Sent = list[NotifyInput]


@pytest.fixture
def open_gate() -> asyncio.Event:
    """Lets activities end; set from the start."""
    gate = asyncio.Event()
    gate.set()
    return gate


@pytest.fixture
def sent(fake_workflow: FakeWorkflow, monkeypatch: pytest.MonkeyPatch, open_gate: asyncio.Event) -> Sent:
    """Everything that activities were to tell, in order."""
    kept: Sent = []

    async def execute(_name: str, request: NotifyInput, **_options: Any) -> None:
        kept.append(request)
        await open_gate.wait()

    monkeypatch.setattr(workflow, "execute_activity", execute)
    return kept


def notifier(*targets: dict[str, Any]) -> Notifier:
    told = Notifier()
    plain = [{"url": "http://127.0.0.1:9/", "secret_env": "HOOK_SECRET", **target} for target in targets]
    told.open(NotifySettings.model_validate({"targets": plain}), "main")
    return told


def events(sent: Sent) -> list[NotifyEvent]:
    return [request.notification.event for request in sent]


async def test_a_question_and_its_decision_are_told_once(sent: Sent) -> None:
    told = notifier({})
    state = asked(write())
    told.see(state)
    told.see(state)
    await idle()
    state, _ = decided(state)
    told.see(state)
    told.see(state)
    await idle()
    assert events(sent) == [NotifyEvent.APPROVAL_REQUESTED, NotifyEvent.APPROVAL_DECIDED]


async def test_a_question_that_was_taken_back_at_once_is_not_told(sent: Sent) -> None:
    told = notifier({})
    told.see(withdrawn(asked(write()), "1"))
    await idle()
    assert sent == []


async def test_a_target_hears_only_of_its_events(sent: Sent) -> None:
    told = notifier({"events": ["approval.decided"]})
    state, _ = decided(asked(write()))
    told.see(state)
    await idle()
    assert events(sent) == [NotifyEvent.APPROVAL_DECIDED]


async def test_content_leaves_only_where_it_is_asked_for(sent: Sent) -> None:
    told = notifier({}, {"content": True})
    told.see(asked(write()))
    await idle()
    assert sorted(request.notification.content is None for request in sent) == [False, True]


async def test_what_is_too_old_is_not_told(sent: Sent, fake_workflow: FakeWorkflow) -> None:
    fake_workflow.now += LIFETIME
    told = notifier({})
    told.see(asked(write()))
    await idle()
    assert sent == []


async def test_of_too_much_the_oldest_is_dropped(sent: Sent, open_gate: asyncio.Event) -> None:
    open_gate.clear()
    told = notifier({})
    count = MAX_WAITING + 10
    told.see(asked(write("/first.txt")))
    await idle()  # the first is under way, the others wait
    told.see(asked(*(write(f"/{number}.txt", key=str(number)) for number in range(1, count + 1))))
    open_gate.set()
    for _ in range(count):
        await idle()
    assert len(sent) == 1 + MAX_WAITING
    assert sent[-1].notification.approval == f"a{count}"


async def test_the_end_of_a_run_waits_a_moment_for_a_target_that_does_not_answer(
    sent: Sent, fake_workflow: FakeWorkflow, open_gate: asyncio.Event
) -> None:
    open_gate.clear()
    told = notifier({})
    await told.finish(asked(write()), output="Done.")
    assert fake_workflow.timers == [FAREWELL]
    # The end does not queue behind the question.
    assert set(events(sent)) == {NotifyEvent.APPROVAL_REQUESTED, NotifyEvent.RUN_COMPLETED}


@pytest.mark.parametrize(("failed", "told_of"), [(1, [NotifyEvent.RUN_COMPLETED]), (0, [])])
async def test_a_batch_with_failed_items_is_told_to_whom_failures_are_told(
    sent: Sent, failed: int, told_of: list[NotifyEvent]
) -> None:
    told = notifier({"events": ["run.failed"]})
    counts = ItemCounts(total=4, completed=4 - failed, failed=failed)
    await told.finish(asked(write()), items=counts)
    assert events(sent) == told_of
    assert [request.notification.items for request in sent] == [counts] * failed


async def test_without_targets_nothing_is_waited_for(sent: Sent, fake_workflow: FakeWorkflow) -> None:
    told = Notifier()
    told.see(asked(write()))
    await told.finish(asked(write()), output="Done.")
    assert sent == []
    assert fake_workflow.timers == []
