"""Time that the questions of a run waited."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from llm_do_temporal.desk.state import archived, waits_of
from llm_do_temporal.messages.approvals import Approval, DecisionKind, DeskState, Verdict
from llm_do_temporal.messages.budget import Waits
from tests.support.workflow.desk_questions import NOON, request


def asked(minutes: int | None, door: Literal["signal", "update", "grant", "rule", "timer"] = "update") -> Approval:
    """A question that was decided after so many minutes; None: it is open."""
    verdict = None
    if minutes is not None:
        at = NOON + timedelta(minutes=minutes)
        verdict = Verdict(decision=DecisionKind.APPROVE, args={}, at=at, door=door)
    return Approval(id="a1", asked_at=NOON, request=request(), verdict=verdict)


def test_questions_that_were_decided_have_waited() -> None:
    state = DeskState(approvals=(asked(2), asked(5, "timer"), asked(None)))
    assert waits_of(state) == Waits(questions=2, seconds=420, longest=300)


def test_what_a_grant_or_a_rule_answers_does_not_wait() -> None:
    assert waits_of(DeskState(approvals=(asked(3, "grant"), asked(4, "rule")))) == Waits()


def test_waits_are_kept_when_the_run_goes_on_as_new() -> None:
    before = archived(DeskState(approvals=(asked(2),)))
    assert before.approvals == ()
    after = before.model_copy(update={"approvals": (asked(1),)})
    assert waits_of(after) == Waits(questions=2, seconds=180, longest=120)
    assert "waited" not in archived(DeskState()).model_dump()
