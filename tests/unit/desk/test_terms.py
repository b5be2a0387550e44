"""The desk where it matters who decides, how many agree, and until when; and taking back what was remembered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from llm_do_temporal.desk import state as desk
from llm_do_temporal.desk.grants import with_revocation
from llm_do_temporal.desk.votes import agreed_to
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import Approval, DecisionKind, DeskState, Remember, RevokeGrantInput
from llm_do_temporal.messages.runs import ContinuedRun, StartRunInput
from llm_do_temporal.workflows.run.workflow import LlmDoRun
from tests.support.workflow.desk_questions import LATER, NOON, asked, decided, withdrawn, write
from tests.support.workflow.invocations import invocation

BETTER = {"path": "/a.txt", "content": "better"}
OTHER = {"path": "/a.txt", "content": "other"}
ORIGINAL = {"path": "/a.txt", "content": "hi"}


def started_by(name: str, **more: Any) -> DeskState:
    """A desk of a run that this person started, with one question."""
    return asked(write(**more)).model_copy(update={"started_by": name})


def voted(state: DeskState, *votes: dict[str, Any]) -> Approval:
    """The one question after these decisions."""
    for vote in votes:
        state, _ = decided(state, **vote)
    return state.approvals[0]


def by(name: str, **more: Any) -> dict[str, Any]:
    """A decision of this person."""
    return {"by": name, **more}


ANN, BOB = by("ann"), by("bob")


@pytest.mark.parametrize(
    ("terms", "decision", "refused"),
    [
        ({"approvers": ("ann", "bob")}, ANN, None),
        ({"approvers": ("ann", "bob")}, by(" bob "), None),
        ({"approvers": ("ann", "bob")}, by("eve"), "approval 'a1' may be decided by ann or bob, not by 'eve'"),
        ({"approvers": ("ann",)}, by("Ann"), "may be decided by ann, not by 'Ann'"),
        ({"approvers": ("ann",)}, by(""), "may be decided by ann, not by somebody without a name"),
        ({"approvers": ("ann",)}, by("eve", decision="reject"), "may be decided by ann, not by 'eve'"),
        ({"approvers": ("ann",)}, by("eve", decision="modify", args=BETTER), "may be decided by ann"),
        ({"approvers": ("ann",)}, by("x" * 200), f"not by '{'x' * 80}'"),
        # whoever started the run may stop a call of it, and no more
        ({"forbid_own": True}, BOB, None),
        ({"forbid_own": True}, by("starter", decision="reject"), None),
        ({"forbid_own": True}, by("starter"), "needs somebody other than who started the run"),
        ({"forbid_own": True}, by(" Starter"), "needs somebody other than who started the run"),
        ({"forbid_own": True}, by("starter", decision="modify", args=BETTER), "somebody other than who started"),
        ({"forbid_own": True}, by(" "), "it cannot be approved by somebody without a name"),
        ({"quorum": 2}, by(""), "approval 'a1' needs 2 people, so each says who it is in `by`"),
        ({"quorum": 2}, by("", decision="reject"), None),
    ],
)
def test_who_may_decide(terms: dict[str, Any], decision: dict[str, Any], refused: str | None) -> None:
    state = started_by("starter", **terms)
    if refused is None:
        voted(state, decision)
        return
    with pytest.raises(DecisionRefused) as error:
        decided(state, **decision)
    assert refused in str(error.value)


@pytest.mark.parametrize(
    ("votes", "agreed", "args", "verdict"),
    [
        # not yet
        ([ANN], ["ann"], ORIGINAL, None),
        ([ANN, BOB], ["ann", "bob"], ORIGINAL, None),
        # three have agreed
        ([ANN, BOB, by("eve")], ["ann", "bob", "eve"], ORIGINAL, ("approve", "ann, bob, eve")),
        # one rejection is enough
        ([ANN, by("bob", decision="reject")], ["ann"], ORIGINAL, ("reject", "bob")),
        # a change is a vote for the change, and begins anew
        ([by("ann", decision="modify", args=BETTER)], ["ann"], BETTER, None),
        ([ANN, BOB, by("eve", decision="modify", args=BETTER)], ["eve"], BETTER, None),
        ([by("ann", decision="modify", args=BETTER), by("bob", decision="modify", args=OTHER)], ["bob"], OTHER, None),
        # who changes it again takes the place of their own vote
        ([by("ann", decision="modify", args=BETTER), by("ann", decision="modify", args=OTHER)], ["ann"], OTHER, None),
        # the same change is agreement
        (
            [by(name, decision="modify", args=BETTER) for name in ("ann", "bob", "eve")],
            ["ann", "bob", "eve"],
            BETTER,
            ("modify", "ann, bob, eve"),
        ),
        # and so is the change back to the call as it was
        (
            [
                by("ann", decision="modify", args=BETTER),
                by("ann", decision="modify", args=ORIGINAL),
                BOB,
                by("eve"),
            ],
            ["ann", "bob", "eve"],
            ORIGINAL,
            ("approve", "ann, bob, eve"),
        ),
    ],
)
def test_different_people_must_agree_to_the_same_call(
    votes: list[dict[str, Any]], agreed: list[str], args: dict[str, Any], verdict: tuple[str, str] | None
) -> None:
    question = voted(asked(write(quorum=3)), *votes)
    assert [vote.by for vote in question.votes] == agreed
    assert agreed_to(question) == args
    taken = question.verdict
    assert (taken and (taken.decision, taken.by)) == verdict
    assert taken is None or taken.decision is DecisionKind.REJECT or taken.args == args


@pytest.mark.parametrize(
    ("before", "decision", "refused"),
    [
        ([ANN], ANN, "approval 'a1' needs 2 people, and 'ann' has agreed already; 1 more must"),
        ([ANN], by("ann "), "'ann' has agreed already"),
        ([ANN], by("Ann"), "'Ann' has agreed already"),
        (
            [by("ann", decision="modify", args=BETTER)],
            by("ann", decision="modify", args=BETTER),
            "'ann' has agreed already",
        ),
        # nobody agrees to what they may not have seen
        (
            [by("ann", decision="modify", args=BETTER)],
            BOB,
            """'ann' has changed the arguments; to agree, send a `modify` with args {"content":"better",""",
        ),
    ],
)
def test_a_vote_that_says_nothing_new_is_refused(
    before: list[dict[str, Any]], decision: dict[str, Any], refused: str
) -> None:
    state = asked(write(quorum=2))
    for vote in before:
        state, _ = decided(state, **vote)
    with pytest.raises(DecisionRefused) as error:
        decided(state, **decision)
    assert refused in str(error.value)


def test_a_question_that_others_must_agree_to_stays_open() -> None:
    state, (answered,) = decided(asked(write(quorum=2)), by="ann")
    assert (answered.id, answered.verdict) == ("a1", None)
    assert desk.pending(state) == (answered,)


def test_the_notes_of_all_who_agreed_are_kept() -> None:
    question = voted(asked(write(quorum=2)), by("ann", note="seen"), by("bob", note="fine"))
    assert question.verdict is not None
    assert question.verdict.note == "ann: seen; bob: fine"


@pytest.mark.parametrize(
    ("first", "second", "remembered"),
    [("session", "session", True), ("none", "session", False), ("session", "none", False)],
)
def test_what_several_decide_is_remembered_with_the_last_vote_where_all_say_so(
    first: str, second: str, remembered: bool
) -> None:
    state, _ = decided(asked(write(quorum=2), write(key="2", quorum=2)), id="a1", by="ann", remember=first)
    assert state.grants == ()
    state, answered = decided(state, id="a1", by="bob", remember=second)
    assert [grant.verdict.by for grant in state.grants] == ["ann, bob"] * remembered
    # The identical question that is open already is answered with it.
    assert [one.id for one in answered] == (["a1", "a2"] if remembered else ["a1"])


def test_a_rejection_is_remembered_by_one_alone() -> None:
    state, _ = decided(asked(write(quorum=2)), by="ann", decision="reject", remember="session")
    assert [grant.verdict.decision for grant in state.grants] == [DecisionKind.REJECT]


# --- time ---

HOUR = timedelta(hours=1)


def timed(*hours: float | None, **more: Any) -> DeskState:
    """A desk with a question for each number, with so many hours to decide it."""
    questions = [
        write(
            key=str(number),
            timeout_seconds=None if after is None else int(after * 3600),
            deadline=None if after is None else NOON + after * HOUR,
            **more,
        )
        for number, after in enumerate(hours)
    ]
    return asked(*questions)


@pytest.mark.parametrize(
    ("state", "due"),
    [
        (DeskState(), None),
        (timed(None), None),
        (timed(3, 2, None), NOON + 2 * HOUR),
        (timed(3, remind_at=NOON + HOUR), NOON + HOUR),
        # what is settled is not waited for
        (decided(timed(2, 3), id="a1")[0], NOON + 3 * HOUR),
        (withdrawn(timed(2), "0"), None),
        (desk.at_time(timed(3, remind_at=NOON + HOUR), now=NOON + HOUR)[0], NOON + 3 * HOUR),
    ],
)
def test_the_desk_knows_what_is_due_next(state: DeskState, due: Any) -> None:
    assert desk.next_due(state) == due


def test_what_nobody_decided_in_time_is_rejected_and_never_approved() -> None:
    state, late = desk.at_time(timed(1, 2, None), now=NOON + HOUR)
    assert [one.id for one in late] == ["a1"]
    verdict = state.approvals[0].verdict
    assert verdict is not None
    assert (verdict.decision, verdict.by, verdict.door) == (DecisionKind.REJECT, "timeout", "timer")
    assert (verdict.note, verdict.at, verdict.remember) == (
        "nobody decided within 1 hour",
        NOON + HOUR,
        Remember.NONE,
    )
    assert [one.id for one in desk.pending(state)] == ["a2", "a3"]


def test_too_few_votes_are_no_decision_either() -> None:
    state, _ = decided(timed(1, quorum=2), by="ann")
    _, (late,) = desk.at_time(state, now=NOON + HOUR)
    assert late.verdict is not None
    assert (late.verdict.decision, late.verdict.note) == ("reject", "only 1 of 2 agreed within 1 hour")


def test_time_changes_nothing_that_is_settled() -> None:
    state, _ = decided(timed(1, 1), id="a1")
    state = withdrawn(state, "1")
    assert desk.at_time(state, now=NOON + 2 * HOUR) == (state, [])


def test_people_are_reminded_once() -> None:
    state = timed(3, None, remind_at=NOON + HOUR)
    state, late = desk.at_time(state, now=NOON + HOUR)
    assert late == []
    assert [one.reminded_at for one in state.approvals] == [NOON + HOUR] * 2
    state, _ = desk.at_time(state, now=NOON + 2 * HOUR)
    assert [one.reminded_at for one in state.approvals] == [NOON + HOUR] * 2


# --- taking back ---


def test_a_revoked_grant_covers_nothing_any_more() -> None:
    state, _ = decided(asked(write(), write("/b.txt", key="2")), id="a1", remember="session")
    state, _ = decided(state, id="a2", remember="session")
    state = with_revocation(state, RevokeGrantInput(id="a1", by="ann"))
    assert [(grant.approval, grant.summary) for grant in state.grants] == [("a2", "call evaluator")]
    _, again = desk.with_request(state, write(key="3"), now=LATER)
    assert again.verdict is None


@pytest.mark.parametrize("terms", [{"approvers": ("ann",)}, {"quorum": 2}, {"forbid_own": True}])
def test_what_anybody_has_decided_is_no_answer_where_it_matters_who_does(terms: dict[str, Any]) -> None:
    state, answered = decided(asked(write(), write(key="2", **terms)), id="a1", by="eve", remember="session")
    assert [one.id for one in answered] == ["a1"]
    _, again = desk.with_request(state, write(key="3", **terms), now=LATER)
    assert again.verdict is None


def test_a_run_that_was_continued_as_new_can_be_told_at_once_that_a_grant_is_revoked() -> None:
    state, _ = decided(asked(write()), id="a1", remember="session")
    continued = ContinuedRun(entry=invocation(), desk=desk.archived(state))
    # Signals are seen to before the workflow itself has done anything.
    run = LlmDoRun(StartRunInput(worker="main", continued=continued).model_dump(mode="json"))
    run.revoke_grant({"id": "a1", "by": "ann"})
    assert run.desk_state().grants == ()
    assert run.desk_state().earlier == 1


def test_only_what_is_remembered_can_be_revoked() -> None:
    state, _ = decided(asked(write()), id="a1")
    with pytest.raises(DecisionRefused, match="there is no grant of approval 'a1' to revoke"):
        with_revocation(state, RevokeGrantInput(id="a1"))
