"""Decisions that are held for some seconds: nothing acts on them yet, and whoever decided can take them back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.desk import state as desk
from llm_do_temporal.desk.state import NOBODY_IN_TIME, waits_of
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import Approval, Decision, DecisionKind, DeskState
from tests.support.workflow.desk_questions import LATER, NOON, asked, decided, withdrawn, write

SOON = LATER + timedelta(seconds=4)
DUE = LATER + timedelta(seconds=10)


def held(*questions: Any, **decision: Any) -> DeskState:
    """A desk with these questions, of which ada has decided the first one for in ten seconds."""
    state, _ = decided(asked(*(questions or (write(),))), **{"id": "a1", "by": "ada", "hold": 10, **decision})
    return state


def undone(state: DeskState, by: str = "ada", at: datetime = SOON, approval: str | None = "a1") -> DeskState:
    undo = Decision(id=approval, decision=None, by=by)
    state, _ = desk.with_decision(state, undo, door="signal", now=at)
    return state


def holding(state: DeskState) -> list[str]:
    """The ids of the questions whose decision has not taken effect."""
    return [one.id for one in state.approvals if one.held is not None and not one.withdrawn]


def a1(state: DeskState) -> Approval:
    approval = desk.question(state, "a1")
    assert approval is not None
    return approval


@pytest.mark.parametrize(
    "decision",
    [
        {"decision": "approve", "note": "fine"},
        {"decision": "reject", "note": "no"},
        {"decision": "modify", "args": {"path": "/b.txt", "content": "better"}},
    ],
)
def test_a_held_decision_of_any_kind_takes_effect_when_its_time_is_over(decision: dict[str, Any]) -> None:
    state = held(**decision)
    assert a1(state).verdict is None
    assert desk.pending(state) == ()
    assert desk.next_due(state) == DUE
    early, nothing = desk.at_time(state, now=SOON)
    assert (early, nothing) == (state, [])
    state, (answered,) = desk.at_time(state, now=DUE)
    at_once, _ = decided(asked(write()), id="a1", by="ada", **decision)
    assert answered.held is None
    assert answered.verdict is not None
    assert answered.verdict.effective_at == DUE
    assert answered.verdict.model_copy(update={"effective_at": None}) == a1(at_once).verdict
    assert desk.next_due(state) is None


def test_a_decision_without_a_hold_is_what_it_always_was() -> None:
    state, _ = decided(asked(write()), id="a1", hold=0)
    assert a1(state).held is None
    assert "held" not in a1(state).model_dump()
    assert "effective_at" not in a1(state).model_dump()["verdict"]
    assert "hold" not in Decision.model_validate({"decision": "approve"}).model_dump()


@pytest.mark.parametrize("hold", [-1, 61, 10**9, 1.5, "10", True, None])
def test_a_hold_is_a_whole_number_of_seconds_up_to_a_minute(hold: object) -> None:
    with pytest.raises(ValidationError, match="hold"):
        Decision.model_validate({"decision": "approve", "hold": hold})


@pytest.mark.parametrize("decision", [{"by": "bob"}, {"by": "", "hold": 10}, {"decision": "reject", "note": "no"}])
def test_a_held_decision_has_won_already_against_others(decision: dict[str, Any]) -> None:
    with pytest.raises(DecisionRefused) as refused:
        decided(held(), id="a1", **decision)
    assert str(refused.value) == (
        "approval 'a1' was already decided: approve by ada at 2026-03-01T12:05:00+00:00; "
        "it takes effect at 2026-03-01T12:05:10+00:00"
    )


def test_what_is_held_is_not_meant_by_a_decision_that_names_nothing() -> None:
    state, _ = decided(held(write(), write("/b.txt", key="2")), by="bob")
    assert holding(state) == ["a1"]
    assert desk.pending(state) == ()


def test_what_is_taken_back_is_open_again() -> None:
    state = undone(held(note="oops"))
    assert [one.id for one in desk.pending(state)] == ["a1"]
    assert desk.next_due(state) is None
    state, _ = desk.with_decision(state, Decision.model_validate({"decision": "approve"}), door="update", now=DUE)
    assert a1(state).verdict is not None


def test_whoever_decided_can_put_another_decision_in_its_place() -> None:
    state, (changed,) = decided(held(), id="a1", by=" ADA ", decision="reject", note="no", hold=20)
    assert changed.held is not None
    assert (changed.held.decision, changed.held.effective_at) == ("reject", LATER + timedelta(seconds=20))
    _, (answered,) = desk.at_time(state, now=LATER + timedelta(seconds=20))
    assert answered.verdict is not None
    assert answered.verdict.note == "no"
    state, (answered,) = decided(state, id="a1", by="ada")
    assert (answered.held, answered.verdict and answered.verdict.decision) == (None, "approve")
    assert desk.at_time(state, now=DUE) == (state, [])


def test_a_vote_in_the_place_of_a_held_one_that_leaves_the_question_open_holds_nothing() -> None:
    args = {"path": "/b.txt", "content": "better"}
    state, _ = decided(asked(write(quorum=2)), id="a1", by="ada")
    state, _ = decided(state, id="a1", by="bob", hold=10)
    state, (changed,) = decided(state, id="a1", by="bob", decision="modify", args=args, hold=10)
    assert (changed.held, changed.verdict, [one.by for one in changed.votes]) == (None, None, ["bob"])
    assert [one.id for one in desk.pending(state)] == ["a1"]


def test_a_decision_whose_time_is_over_can_be_taken_back_while_nothing_has_acted_on_it() -> None:
    assert a1(undone(held(), at=DUE + timedelta(hours=1))).held is None


DELIVERED, _ = desk.at_time(held(), now=DUE)
AT_ONCE, _ = decided(asked(write()), id="a1", by="ada")


@pytest.mark.parametrize(
    ("state", "undo", "message"),
    [
        # too late
        (DELIVERED, {}, "approval 'a1' was already decided: approve by ada at 2026-03-01T12:05:00+00:00"),
        (AT_ONCE, {}, "approval 'a1' was already decided: approve by ada at 2026-03-01T12:05:00+00:00"),
        # twice
        (undone(held()), {}, "approval 'a1' is not decided; there is nothing to take back"),
        (asked(write()), {}, "approval 'a1' is not decided; there is nothing to take back"),
        # somebody else's
        (held(), {"by": "bob"}, "approval 'a1' was already decided: approve by ada at "),
        (held(), {"by": ""}, "approval 'a1' was already decided: approve by ada at "),
        (held(by=""), {}, "approval 'a1' was already decided: approve by somebody at "),
        # nobody waits for it
        (withdrawn(held(), "1"), {}, "approval 'a1' is no longer needed: its worker has stopped"),
        # none of that name
        (held(), {"id": "a9"}, "there is no approval 'a9'; pending: none"),
        (DeskState(), {"id": "x" * 100}, f"there is no approval '{'x' * 40}'; pending: none"),
        # a change of what is taken back
        (held(), {"args": {}}, "`args` belong to a `modify`"),
    ],
)
def test_an_undo_that_cannot_be_taken_says_why(state: DeskState, undo: dict[str, str], message: str) -> None:
    wanted = Decision.model_validate({"id": "a1", "by": "ada", "decision": None, **undo})
    with pytest.raises(DecisionRefused) as refused:
        desk.with_decision(state, wanted, door="signal", now=SOON)
    assert message in str(refused.value)


def test_people_are_the_same_however_they_write_their_name() -> None:
    assert a1(undone(held(), by=" ADA ")).held is None


def test_a_decision_that_is_held_was_in_time_whatever_the_deadline() -> None:
    state = held(write(deadline=SOON, timeout_seconds=304))
    assert desk.next_due(state) == DUE
    assert desk.at_time(state, now=SOON) == (state, [])
    _, (answered,) = desk.at_time(state, now=DUE)
    assert answered.verdict is not None
    assert (answered.verdict.door, answered.verdict.by) == ("signal", "ada")


def test_a_question_that_is_open_again_after_its_deadline_is_rejected_at_once() -> None:
    state = undone(held(write(deadline=SOON, timeout_seconds=304)), at=SOON)
    assert desk.next_due(state) == SOON
    _, (answered,) = desk.at_time(state, now=SOON)
    assert answered.verdict is not None
    assert answered.verdict.door == "timer"


def test_nobody_is_reminded_of_a_question_while_its_decision_is_held() -> None:
    state = held(write(remind_at=SOON))
    assert desk.next_due(state) == DUE
    assert a1(desk.at_time(state, now=SOON)[0]).reminded_at is None


def test_a_withdrawn_question_is_never_answered() -> None:
    state = withdrawn(held(), "1")
    assert (holding(state), desk.next_due(state)) == ([], None)
    assert desk.at_time(state, now=DUE) == (state, [])
    with pytest.raises(DecisionRefused, match="no longer needed"):
        decided(state, id="a1")


def test_a_run_that_has_ended_holds_nothing() -> None:
    state = desk.with_all_withdrawn(held())
    assert a1(state).withdrawn
    assert holding(state) == []


def test_a_remembered_decision_covers_nothing_until_it_takes_effect() -> None:
    state = held(write(key="1"), write(key="2", invocation="run/main/b-1"), remember="session")
    state, third = desk.with_request(state, write(key="3"), now=SOON)
    assert state.grants == ()
    assert third.verdict is None
    state, answered = desk.at_time(state, now=DUE)
    assert [(one.id, one.verdict and one.verdict.door) for one in answered] == [
        ("a1", "signal"),
        ("a2", "grant"),
        ("a3", "grant"),
    ]
    assert answered[1].verdict is not None
    assert answered[1].verdict.effective_at is None


def test_a_remembered_decision_that_is_taken_back_is_not_remembered() -> None:
    state, _ = desk.at_time(undone(held(write(), write(key="2"), remember="session")), now=DUE)
    assert state.grants == ()
    assert [one.id for one in desk.pending(state)] == ["a1", "a2"]


def test_a_held_decision_is_answered_by_no_grant_that_comes_meanwhile() -> None:
    state = held(write(key="1"), write(key="2"), decision="reject", note="no")
    state, answered = decided(state, id="a2", by="bob", remember="session")
    assert [one.id for one in answered] == ["a2"]
    _, (first,) = desk.at_time(state, now=DUE)
    assert first.verdict is not None
    assert first.verdict.by == "ada"


def test_votes_count_at_once_and_the_last_one_is_held() -> None:
    state, (voted,) = decided(asked(write(quorum=2)), id="a1", by="ada", hold=10)
    assert (len(voted.votes), voted.held) == (1, None)
    state, (voted,) = decided(state, id="a1", by="bob", hold=10)
    assert ([one.by for one in voted.votes], voted.verdict) == (["ada"], None)
    with pytest.raises(DecisionRefused, match="already decided: approve by bob"):
        undone(state)
    again = a1(undone(state, by="bob"))
    assert ([one.by for one in again.votes], again.held) == (["ada"], None)
    _, (answered,) = desk.at_time(state, now=DUE)
    assert answered.verdict is not None
    assert (answered.verdict.by, len(answered.votes)) == ("ada, bob", 2)


def test_a_rejection_among_votes_is_held_like_any_other() -> None:
    state, _ = decided(asked(write(quorum=2)), id="a1", by="ada")
    state, _ = decided(state, id="a1", by="bob", decision="reject", note="no", hold=10)
    assert holding(state) == ["a1"]
    assert [one.by for one in a1(undone(state, by="bob")).votes] == ["ada"]


def test_decisions_take_effect_in_the_order_of_their_ends() -> None:
    state = held(write(key="1"), write("/b.txt", key="2"))
    state, _ = decided(state, id="a2", by="bob", hold=5)
    assert desk.next_due(state) == LATER + timedelta(seconds=5)
    _, answered = desk.at_time(state, now=DUE)
    assert [one.id for one in answered] == ["a2", "a1"]


def test_a_question_waited_until_somebody_decided_and_not_for_the_hold() -> None:
    state, _ = desk.at_time(held(), now=DUE)
    assert waits_of(state).seconds == (LATER - NOON).total_seconds()


def test_the_desk_that_is_carried_on_keeps_what_is_held() -> None:
    state = undone(held(write(key="1"), write("/b.txt", key="2")))
    state, _ = decided(state, id="a2", by="ada", hold=10)
    assert DeskState.model_validate_json(state.model_dump_json()) == state


def test_a_copy_of_an_earlier_decision_replaces_no_newer_one() -> None:
    state = held(key="k1")
    state, _ = decided(state, decision="reject", id="a1", by="ada", hold=10, key="k2")
    for stale in ("k1", "k2"):
        with pytest.raises(DecisionRefused, match="this decision about approval 'a1' was taken already"):
            decided(state, decision="approve", id="a1", by="ada", hold=10, key=stale)
    state = undone(state)
    with pytest.raises(DecisionRefused, match="was taken already"):
        decided(state, decision="approve", id="a1", by="ada", hold=10, key="k1")
    state, _ = decided(state, decision="approve", id="a1", by="ada", hold=10, key="k3")
    assert holding(state) == ["a1"]
    assert a1(state).keys == ("k1", "k2", "k3")


def test_a_held_decision_without_a_name_can_be_taken_back_and_not_replaced() -> None:
    state = held(decision="reject", by="")
    for by in ("", "\u200b ", "ada"):
        with pytest.raises(DecisionRefused):
            decided(state, decision="approve", id="a1", by=by)
    assert holding(undone(state, by="")) == []


def test_a_held_decision_is_not_replaced_after_the_deadline_of_its_question() -> None:
    state = held(write(deadline=SOON))
    with pytest.raises(DecisionRefused, match="the time for another decision is over, it can only be taken back"):
        desk.with_decision(state, Decision(decision=DecisionKind.REJECT, id="a1", by="ada"), door="signal", now=SOON)
    back, (answered,) = desk.at_time(undone(state, at=SOON), now=SOON)
    assert (holding(back), answered.verdict is not None and answered.verdict.by) == ([], NOBODY_IN_TIME)
