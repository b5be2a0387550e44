"""Scripts: which questions their answers fit, how often, and what is rejected where nobody is asked."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.desk import state as desk
from llm_do_temporal.desk.grants import shown_digest
from llm_do_temporal.messages.approvals import DeskState, RequestApprovalInput, ScriptedAnswer, Verdict
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.values import LIMIT, REPEAT, CapabilityUse
from tests.support.workflow.desk_questions import NOON, decided, request, write

LIMIT_QUESTION = request(tool="go_on", capabilities=(CapabilityUse(name=LIMIT),), args={"next": 2})
ELSEWHERE = write().model_copy(update={"invocation": "r/main/x-1", "key": "9", "worker": "x", "path": "main/x-1"})
REPEAT_QUESTION = request(tool="shell", capabilities=(CapabilityUse(name=REPEAT),), content_key="k1")


def script(*answers: dict[str, Any]) -> DeskState:
    """A desk with these answers, each an approval unless it says something else."""
    return DeskState(
        script=tuple(ScriptedAnswer.model_validate({"decision": "approve", **answer}) for answer in answers)
    )


def verdict_on(state: DeskState, question: RequestApprovalInput, *, scripted: bool = False) -> Verdict | None:
    """The verdict at once; None: the question waits."""
    return desk.with_request(state, question, now=NOON, scripted=scripted)[1].verdict


def test_an_answer_is_given_in_the_name_of_who_decided_and_names_its_source() -> None:
    verdict = verdict_on(script({"tool": "write_file", "by": "ada", "source": "run-1 a3", "note": "fine"}), write())
    assert verdict is not None
    assert (verdict.decision, verdict.by, verdict.door) == ("approve", "ada", "script")
    assert (verdict.granted_by, verdict.note, verdict.at) == ("run-1 a3", "fine", NOON)
    assert verdict.args == write().args


def test_an_answer_that_names_nobody_is_that_of_the_script() -> None:
    verdict = verdict_on(script({}), write())
    assert verdict is not None
    assert (verdict.by, verdict.granted_by) == ("script", None)


def test_the_first_answer_that_fits_is_taken_as_often_as_it_says() -> None:
    state = script({"tool": "write_file", "left": 2}, {"decision": "reject", "note": "enough"})
    decisions: list[str] = []
    for number in range(4):
        state, approval = desk.with_request(state, write(f"/{number}.txt", key=str(number)), now=NOON)
        assert approval.verdict is not None
        decisions.append(approval.verdict.decision)

    assert decisions == ["approve", "approve", "reject", "reject"]
    assert [answer.left for answer in state.script] == [0, None]


@pytest.mark.parametrize(
    ("answer", "question", "fits"),
    [
        # the tool
        ({}, write(), True),
        ({"tool": "write_file"}, write(), True),
        ({"tool": "shell"}, write(), False),
        # the call
        ({"content_key": "k1"}, write(content_key="k1"), True),
        ({"content_key": "k1"}, write(content_key="k2"), False),
        ({"content_key": "k1"}, write(), False),
        # what was shown
        ({"shown": shown_digest(write())}, ELSEWHERE, True),
        ({"shown": shown_digest(write())}, write(content="more"), False),
        # how often
        ({"left": 0}, write(), False),
        # other arguments, which the call must be able to take
        ({"decision": "modify", "args": {"path": "/b.txt", "content": "x"}}, write(), True),
        ({"decision": "modify", "args": {"path": "../b.txt", "content": "x"}}, write(), False),
        ({"decision": "modify", "args": {"path": "/b.txt"}}, write(), False),
        ({"decision": "modify"}, write(), False),
        ({"args": {"path": "/b.txt", "content": "x"}}, write(), False),
        # limits and what may have happened, by their names alone
        ({}, LIMIT_QUESTION, False),
        ({"tool": "go_on"}, LIMIT_QUESTION, False),
        ({"tool": LIMIT}, LIMIT_QUESTION, True),
        ({"tool": "shell", "content_key": "k1"}, REPEAT_QUESTION, False),
        ({"tool": REPEAT}, REPEAT_QUESTION, True),
        # nobody agrees in the name of people who must agree themselves
        ({}, write(approvers=("ada",)), False),
        ({}, write(quorum=2), False),
        ({}, write(forbid_own=True), False),
        ({"decision": "reject"}, write(approvers=("ada",)), True),
    ],
)
def test_an_answer_fits_a_question(answer: dict[str, Any], question: RequestApprovalInput, fits: bool) -> None:
    assert (verdict_on(script(answer), question) is not None) is fits


def test_changed_arguments_are_those_of_the_answer() -> None:
    changed = {"path": "/b.txt", "content": "better"}
    verdict = verdict_on(script({"decision": "modify", "args": changed}), write())
    assert verdict is not None
    assert (verdict.decision, verdict.args) == ("modify", changed)


def test_what_a_question_shows_is_in_its_digest_whoever_asks() -> None:
    other = [
        write(content="x"),
        write(summary="another"),
        write(diff="+x"),
        write(files=(SeenFile(path="/a.txt", sha256="1"),)),
        write(circumstances="c"),
        request(),
    ]
    digests = {shown_digest(one) for one in [write(), *other]}
    assert len(digests) == 1 + len(other)
    assert shown_digest(ELSEWHERE) == shown_digest(write())


def test_the_digest_of_what_is_shown_stays_what_it_was_when_it_was_recorded() -> None:
    assert shown_digest(write()) == "a659eb04c9f8c4b17d7a12123ba597bfa94ffb6eea93f72218bed165043838c0"


def test_a_script_comes_before_what_was_granted_and_grants_nothing() -> None:
    granted, _ = decided(desk.with_request(DeskState(), write(key="1"), now=NOON)[0], remember="session")
    answers = script({"decision": "reject", "left": 1}).script
    state = granted.model_copy(update={"script": answers})
    state, approval = desk.with_request(state, write(key="2"), now=NOON)
    assert approval.verdict is not None
    assert (approval.verdict.door, approval.verdict.decision) == ("script", "reject")
    again = verdict_on(state, write(key="3"))
    assert again is not None
    assert (again.door, again.decision) == ("grant", "approve")
    assert len(state.grants) == 1


def test_without_an_answer_a_person_is_asked_unless_nobody_is() -> None:
    assert verdict_on(script({"tool": "shell"}), write()) is None
    verdict = verdict_on(script({"tool": "shell"}), write(), scripted=True)
    assert verdict is not None
    assert (verdict.decision, verdict.by, verdict.door) == ("reject", "script", "script")
    assert "write a `decide` for 'write_file'" in verdict.note


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (LIMIT_QUESTION, "write a `decide` for 'limit.exceed'"),
        (REPEAT_QUESTION, "write a `decide` for 'effect.repeat'"),
        (write(approvers=("ada",)), "named people must agree to it, which no script can"),
    ],
)
def test_a_rejection_says_what_would_answer_the_question(question: RequestApprovalInput, words: str) -> None:
    verdict = verdict_on(script({}), question, scripted=True)
    assert verdict is not None
    assert words in verdict.note


def test_a_run_that_goes_on_as_new_takes_its_script_along() -> None:
    state, _ = desk.with_request(script({"left": 3}), write(), now=NOON)
    assert [answer.left for answer in desk.archived(state).script] == [2]
