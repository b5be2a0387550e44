"""The desk's book-keeping: who asked, who decided, what is remembered."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.desk import state as desk
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import (
    Decision,
    DecisionKind,
    DeskState,
    Remember,
    RequestApprovalInput,
    WithdrawApprovalsInput,
)
from llm_do_temporal.messages.sizes import MAX_CALL_BYTES
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.values import CapabilityUse
from tests.support.workflow.desk_questions import LATER, NOON, asked, decided, request, withdrawn, write


def test_ids_are_given_out_in_the_order_of_the_questions() -> None:
    state = asked(write(), request(), write("/b.txt"))
    assert [one.id for one in state.approvals] == ["a1", "a2", "a3"]


def test_an_id_is_never_used_again() -> None:
    state, _ = decided(withdrawn(asked(write(), write("/b.txt", key="2")), "2"), id="a1")
    state, approval = desk.with_request(state, write("/c.txt"), now=LATER)
    assert approval.id == "a3"


def test_pending_is_what_was_neither_decided_nor_withdrawn() -> None:
    state = asked(write(key="1"), write("/b.txt", key="2"), write("/c.txt", key="3"))
    state, _ = decided(state, id="a1")
    assert [one.id for one in desk.pending(withdrawn(state, "2"))] == ["a3"]


def test_a_verdict_keeps_who_when_which_door_and_the_arguments() -> None:
    _, (answered,) = decided(asked(write()), id="a1", decision="reject", note="not now", by="ada")
    verdict = answered.verdict
    assert verdict is not None
    assert (verdict.decision, verdict.note, verdict.by) == (DecisionKind.REJECT, "not now", "ada")
    assert (verdict.at, verdict.door, verdict.args) == (LATER, "signal", {"path": "/a.txt", "content": "hi"})
    assert answered.asked_at == NOON


def test_a_change_keeps_the_arguments_before_and_after() -> None:
    changed = {"path": "/a.txt", "content": "better"}
    _, (answered,) = decided(asked(write()), decision="modify", args=changed)
    assert answered.verdict is not None
    assert answered.verdict.args == changed
    assert answered.request.args["content"] == "hi"


def test_the_id_may_be_left_out_while_exactly_one_is_pending() -> None:
    state, _ = decided(asked(write(), write("/b.txt")), id="a1")
    _, (answered,) = decided(state)
    assert answered.id == "a2"


TWO = asked(write(key="1"), write("/b.txt", key="2"))
DECIDED, _ = decided(asked(write()), id="a1", decision="reject", by="ada")
UNSIGNED, _ = decided(asked(write()), id="a1")


@pytest.mark.parametrize(
    ("state", "decision", "message"),
    [
        # which one
        (TWO, {}, "say which approval: 2 are pending (a1, a2)"),
        (DeskState(), {}, "say which approval: 0 are pending (none)"),
        (TWO, {"id": "a9"}, "there is no approval 'a9'; pending: a1, a2"),
        (DeskState(), {"id": "a1"}, "there is no approval 'a1'; pending: none"),
        (TWO, {"id": "x" * 100}, f"there is no approval '{'x' * 40}'; pending: a1, a2"),
        # too late
        (DECIDED, {"id": "a1"}, "approval 'a1' was already decided: reject by ada at 2026-03-01T12:05:00+00:00"),
        (UNSIGNED, {"id": "a1"}, "approval 'a1' was already decided: approve by somebody at 2026-03-01T12:05:00+00:00"),
        (withdrawn(asked(write()), "1"), {"id": "a1"}, "'a1' is no longer needed: its worker has stopped"),
        # changes that make no sense
        (asked(write()), {"args": {}}, "`args` belong to a `modify`"),
        (asked(write()), {"decision": "reject", "args": {}}, "`args` belong to a `modify`"),
        (asked(write()), {"decision": "modify"}, "a `modify` needs the new arguments in `args`"),
        (asked(request()), {"decision": "modify", "args": {}}, "'a1' cannot be changed, only approved or rejected"),
        # the tool's schema
        (asked(write()), {"decision": "modify", "args": {"path": "/a.txt"}}, "'content' is a required property"),
        (asked(write()), {"decision": "modify", "args": {"path": "/a", "content": 1}}, "content: 1 is not of type"),
        # policy
        (
            asked(write()),
            {"decision": "modify", "args": {"path": "../a.txt", "content": ""}},
            "policy refuses the new arguments: '../a.txt' contains '..'",
        ),
        (
            asked(write(tree=Tree(mounts=(Mount(at="/", root=".", readonly=True),)))),
            {"decision": "modify", "args": {"path": "/b.txt", "content": ""}},
            "'/b.txt' is read-only",
        ),
        # what no history could carry
        (
            asked(write()),
            {"decision": "modify", "args": {"path": "/a.txt", "content": "x" * MAX_CALL_BYTES}},
            f"at most {MAX_CALL_BYTES} are accepted",
        ),
    ],
)
def test_a_decision_that_cannot_be_taken_says_why(state: DeskState, decision: dict[str, Any], message: str) -> None:
    with pytest.raises(DecisionRefused) as refused:
        decided(state, **decision)
    assert message in str(refused.value)


def test_changed_arguments_of_a_tool_without_paths_are_held_against_its_schema_alone() -> None:
    schema = {"type": "object", "properties": {"input": {"type": "string"}}}
    _, (answered,) = decided(asked(request(args_schema=schema)), decision="modify", args={"input": "../up"})
    assert answered.verdict is not None
    assert answered.verdict.args == {"input": "../up"}


def test_withdrawing_touches_neither_decided_questions_nor_those_of_others() -> None:
    state = asked(write(key="1"), write("/b.txt", key="2"), write("/c.txt", key="1", invocation="run/main/other"))
    state, _ = decided(state, id="a1")
    state = withdrawn(state, "1", "2", "7")
    assert [one.withdrawn for one in state.approvals] == [False, True, False]


def test_an_invocation_that_has_closed_asks_nothing_any_more() -> None:
    state = asked(write(key="1"), write("/b.txt", key="2"), write("/c.txt", key="3", invocation="run/main/other"))
    state = desk.with_withdrawal(state, WithdrawApprovalsInput(invocation="run", keys=(), closed=True))
    assert [one.id for one in desk.pending(state)] == ["a3"]


def test_a_decision_holds_for_one_call_unless_it_is_remembered() -> None:
    state, _ = decided(asked(write()), id="a1")
    _, approval = desk.with_request(state, write(), now=LATER)
    assert state.grants == ()
    assert approval.verdict is None


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_remembered_decision_answers_the_identical_call_of_anybody(decision: str) -> None:
    state, _ = decided(asked(write()), id="a1", decision=decision, note="for all", by="ada", remember="session")
    again = write(invocation="run/main/child-1", key="5", worker="child")
    state, approval = desk.with_request(state, again, now=LATER)
    assert approval.verdict is not None
    assert (approval.verdict.decision, approval.verdict.door) == (DecisionKind(decision), "grant")
    assert (approval.verdict.by, approval.verdict.note) == ("ada", "for all")
    assert approval.verdict.remember is Remember.NONE
    assert desk.pending(state) == ()


def test_the_order_of_keys_does_not_make_a_call_another_one() -> None:
    state, _ = decided(asked(write()), id="a1", remember="session")
    turned = write().model_copy(update={"args": {"content": "hi", "path": "/a.txt"}})
    _, approval = desk.with_request(state, turned, now=LATER)
    assert approval.verdict is not None


ELSEWHERE = Tree(mounts=(Mount(at="/", root="elsewhere"),))
RENAMED = write().model_copy(update={"tool": "other_tool"})
BROADER = write().model_copy(
    update={"capabilities": (*write().capabilities, CapabilityUse(name="proc.exec", payload={}))}
)


@pytest.mark.parametrize(
    "other",
    [
        # other arguments
        write("/b.txt"),
        write(content="ho"),
        # another tool
        RENAMED,
        # it would do more
        BROADER,
        # the same name means another file there
        write(tree=ELSEWHERE),
        write(tree=Tree()),
    ],
)
def test_a_grant_covers_nothing_but_the_identical_call(other: RequestApprovalInput) -> None:
    state, _ = decided(asked(write()), id="a1", remember="session")
    _, approval = desk.with_request(state, other, now=LATER)
    assert approval.verdict is None


def test_the_same_file_seen_through_a_narrower_tree_is_the_same_file() -> None:
    narrower = Tree(mounts=(Mount(at="/notes", root="notes", base="."),))
    state, _ = decided(asked(write("/notes/a.txt")), id="a1", remember="session")
    _, approval = desk.with_request(state, write("/notes/a.txt", tree=narrower), now=LATER)
    assert approval.verdict is not None


def test_remembering_answers_identical_questions_that_are_already_open() -> None:
    state = asked(write(key="1"), write(key="2", invocation="run/main/b-1"), write("/other.txt", key="3"))
    state, answered = decided(state, id="a2", remember="session")
    assert [(one.id, one.verdict and one.verdict.door) for one in answered] == [("a2", "signal"), ("a1", "grant")]
    assert [one.id for one in desk.pending(state)] == ["a3"]


def test_a_refused_decision_leaves_the_desk_as_it_was() -> None:
    state = asked(write())
    taken = Decision(decision=DecisionKind.MODIFY, args={"path": "/../x", "content": ""}, remember=Remember.SESSION)
    with pytest.raises(DecisionRefused):
        desk.with_decision(state, taken, door="update", now=LATER)
    assert state == asked(write())


def test_notes_of_ignored_decisions_are_short_and_the_oldest_go_first() -> None:
    state = DeskState()
    for number in range(desk.KEPT_IGNORED + 2):
        state = desk.with_ignored(state, f"{number} " + "x" * 1000, now=NOON)
    assert len(state.ignored) == desk.KEPT_IGNORED
    assert state.ignored[0].reason.startswith("2 ")
    assert max(len(one.reason) for one in state.ignored) == 500


def test_an_approval_whose_call_is_asked_about_again_names_that_question() -> None:
    state, _ = decided(asked(write()), id="a1")
    state, again = desk.with_question(state, write(again="a1", key="2"), now=LATER)
    assert [one.again for one in state.approvals] == [again.id, ""]


@pytest.mark.parametrize("more", [{"again": "a9"}, {"again": "a2"}, {"again": "a1", "invocation": "other"}, {}])
def test_no_other_approval_is_marked(more: dict[str, str]) -> None:
    state, _ = decided(asked(write(), write("/b.txt", key="2")), id="a1")
    state, _ = desk.with_question(state, write(**{"key": "3", **more}), now=LATER)
    assert [one.again for one in state.approvals] == ["", "", ""]
