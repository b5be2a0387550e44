"""Calls like one that is asked about, and the tally of answers that an address carries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from llm_do_temporal.client import Question
from llm_do_temporal.messages.approvals import DecisionKind, RequestApprovalInput, Verdict
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.ui.content.last_answer import own_address
from llm_do_temporal.ui.content.precedents import MOST_SHOWN, place_of, precedents_of
from llm_do_temporal.ui.content.tally import answered, with_asked_again, with_one_less, with_one_more

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def question(number: int, tool: str, use: CapabilityUse, decision: DecisionKind | None = None) -> Question:
    request = RequestApprovalInput(
        invocation="r/main",
        key=str(number),
        worker="w",
        path="main",
        tool=tool,
        args={},
        capabilities=(use,),
        summary="s",
    )
    at = NOW + timedelta(seconds=number)
    verdict = None if decision is None else Verdict(decision=decision, args={}, at=at, door="update")
    return Question(f"a{number}", "r", request, at, verdict=verdict)


def writing(path: str) -> CapabilityUse:
    return CapabilityUse(name="sandbox.write", payload={"path": path, "bytes": 1})


@pytest.mark.parametrize(
    ("name", "payload", "place"),
    [
        ("sandbox.write", {"path": "/notes/a.txt"}, "/notes"),
        ("sandbox.read", {"path": "/a.txt"}, "/"),
        ("proc.exec", {"argv": ["git", "push"], "cwd": "/"}, "git"),
        ("worker.call", {"worker": "reader"}, "reader"),
        ("worker.create", {"definition": "x"}, ""),
        ("proc.exec", {"argv": []}, ""),
        ("sandbox.write", {"path": 7}, ""),
    ],
)
def test_the_place_of_a_call(name: str, payload: dict[str, Any], place: str) -> None:
    assert place_of(question(1, "t", CapabilityUse(name=name, payload=payload)).request) == place


def test_only_other_calls_of_the_same_tool_at_the_same_place_count() -> None:
    here = question(1, "write_file", writing("/n/a"))
    approved = [question(n, "write_file", writing(f"/n/{n}"), DecisionKind.APPROVE) for n in range(2, 4 + MOST_SHOWN)]
    others = [
        question(50, "write_file", writing("/n/x"), DecisionKind.REJECT),
        question(51, "write_file", writing("/n/y")),
        question(52, "edit_file", writing("/n/a"), DecisionKind.REJECT),
        question(53, "write_file", writing("/m/a"), DecisionKind.REJECT),
    ]
    found = precedents_of(here, [here, *approved, *others])
    assert found.place == "/n"
    assert found.counts == {DecisionKind.APPROVE: len(approved), DecisionKind.REJECT: 1}
    assert found.waiting == 1
    assert [one.id for one in found.newest][:2] == ["a50", approved[-1].id]
    assert len(found.newest) == MOST_SHOWN


def test_a_tally_counts_and_a_forged_one_says_nothing() -> None:
    tally = ""
    for kind in (DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.APPROVE):
        tally = with_one_more(tally, kind)
    assert answered({"tally": tally}) == "3 questions answered: 2 approved, 1 rejected"
    for forged in ("", "x", "1.2", "1.2.x", "-1.0.0", f"{10**7}.0.0", "0.0.0", "٣.0.0.0"):
        assert answered({"tally": forged}) == ""


def test_an_answer_that_was_taken_back_does_not_count() -> None:
    assert with_one_less("2.0.1", DecisionKind.APPROVE) == "1.0.1"
    assert with_one_less("2.0.1", DecisionKind.MODIFY) == "2.0.1"
    assert with_one_less("forged", DecisionKind.REJECT) == "0.0.0"


def test_a_call_that_was_asked_about_again_counts_as_that() -> None:
    again = with_asked_again("3.0.1", DecisionKind.APPROVE)
    assert again == "2.0.1.1"
    assert answered({"tally": with_one_more(again, DecisionKind.APPROVE)}) == (
        "5 questions answered: 3 approved, 1 rejected, 1 not carried out and asked again"
    )
    assert with_asked_again("0.0.1", DecisionKind.APPROVE) == "0.0.1"


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("/", True),
        ("/?worker=a&did=r%2Fa1", True),
        ("/runs/r/approvals/a1?tally=1.0.0", True),
        # another site
        ("//evil.example/runs/", False),
        ("https://evil.example/runs/r", False),
        ("/\\evil.example", False),
        ("/runs/r\r\nSet-Cookie: a=b", False),
        # another page
        ("/start", False),
        ("runs/r", False),
        ("", False),
    ],
)
def test_only_pages_with_questions_are_gone_back_to(text: str, own: bool) -> None:
    assert own_address(text) == (text if own else None)
