"""Facts around a question on the terminal: few lines on a screen, all of them in the pager."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from llm_do_temporal.cli.terminal.pictures.question import fit_question, question_text
from llm_do_temporal.cli.terminal.pictures.surroundings import Surroundings, surrounding_lines
from llm_do_temporal.client.client import Question
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.messages.runs import RunMemo
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.ui.content.background import Background, Words
from llm_do_temporal.ui.content.precedents import precedents_of

LONG = "I have read the deck.\n\n" + "\n".join(f"Reason {number} of many that I have." for number in range(20))


def in_notes(question: Question, approval: str, verdict: Verdict | None = None) -> Question:
    use = CapabilityUse(name="sandbox.write", payload={"path": f"/notes/{approval}.md"})
    request = question.request.model_copy(
        update={"capabilities": (use,), "summary": f"write_file /notes/{approval}.md"}
    )
    return replace(question, id=approval, request=request, verdict=verdict)


def decided(kind: DecisionKind, hours: int, note: str = "") -> Verdict:
    at = datetime.now(UTC) - timedelta(hours=hours)
    return Verdict(decision=kind, args={}, by="ann", at=at, door="update", note=note)


@pytest.fixture
def asked(pending: Question) -> Question:
    return in_notes(pending, "a9")


def around(asked: Question, *known: Question, words: Words | None = None, task: str = "Sort the mail") -> Surroundings:
    background = Background(RunMemo(worker="clerk", task=task, started_by="ada"), [], words)
    return Surroundings(background, precedents_of(asked, [asked, *known]))


def plain(asked: Question, facts: Surroundings, width: int = 80, *, is_short: bool = True) -> list[str]:
    return [line.plain.rstrip() for line in surrounding_lines(asked, facts, width, is_short=is_short)]


def test_the_task_its_person_and_the_words_of_the_model_are_told(asked: Question) -> None:
    facts = around(asked, words=Words("The mail is sorted now.", 0, ""))
    assert plain(asked, facts) == ["  task: Sort the mail, started by ada", "  said: The mail is sorted now."]
    facts = around(asked, words=Words("Wait.", 2, ""), task="")
    assert plain(asked, facts) == ["  task: clerk, started by ada", "  said 2 turns before: Wait."]


def test_long_words_take_three_lines_of_a_screen_and_stand_whole_in_the_pager(asked: Question) -> None:
    facts = around(asked, words=Words(LONG, 1, ""), task="Sort " * 50)
    short, whole = plain(asked, facts), plain(asked, facts, is_short=False)
    assert short[1:] == [
        "  said 1 turn before: I have read the deck.",
        "  Reason 0 of many that I have.",
        "  Reason 1 of many that I have.…",
    ]
    assert short[0].startswith("  task: Sort Sort")
    assert short[0].endswith("…")
    assert len(short[0]) <= 80
    assert "  Reason 19 of many that I have." in whole


def test_decisions_on_calls_like_it_are_counted_and_the_last_no_is_named(asked: Question) -> None:
    known = [
        in_notes(asked, "a1", decided(DecisionKind.APPROVE, 5)),
        in_notes(asked, "a2", decided(DecisionKind.REJECT, 4, "too long")),
        in_notes(asked, "a3", decided(DecisionKind.MODIFY, 3)),
        in_notes(asked, "a4", decided(DecisionKind.APPROVE, 1)),
        in_notes(asked, "a5"),
        replace(in_notes(asked, "a6"), request=asked.request.model_copy(update={"tool": "edit_file"})),
    ]
    lines = plain(asked, around(asked, *known), width=100)
    assert lines[1:] == [
        "  like it: 2 approved, 1 rejected, 1 changed, 1 more waits (write_file in /notes)",
        "    a3 changed by ann 3h ago (write_file /notes/a3.md)",
    ]
    whole = plain(asked, around(asked, *known), width=200, is_short=False)
    assert [line.split()[0] for line in whole[2:]] == ["a4", "a3", "a2", "a1"]
    assert whole[4] == "    a2 rejected by ann 4h ago: too long (write_file /notes/a2.md)"


def test_a_worker_that_is_a_tool_is_named_once(asked: Question) -> None:
    use = CapabilityUse(name="worker.call", payload={"worker": "reader"})
    request = asked.request.model_copy(update={"tool": "reader", "capabilities": (use,)})
    known = [replace(asked, id=name, request=request) for name in ("a1", "a9")]
    assert plain(known[1], around(known[1], known[0]))[1] == "  like it: 1 more waits (reader)"


def test_no_words_of_the_model_reach_the_left_margin_or_pass_for_the_prompt(asked: Question) -> None:
    facts = around(asked, words=Words("\n\na9> a\n[a]pprove \x1b[2J\u202e\n" + "long " * 90, 0, ""), task="[bold]x\ny")
    for is_short in (True, False):
        lines = plain(asked, facts, is_short=is_short)
        assert all(line.startswith("  ") for line in lines if line)
        assert any("\\x1b[2J\\u202e" in line for line in lines)
        assert lines[0] == "  task: [bold]x\\ny, started by ada"


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_a_question_with_all_of_it_fits_on_a_screen(asked: Question, width: int, height: int) -> None:
    known = in_notes(asked, "a2", decided(DecisionKind.REJECT, 4, "too long"))
    facts = around(asked, known, words=Words(LONG, 0, ""))
    long = replace(asked, request=asked.request.model_copy(update={"args": {"path": "/a", "content": LONG * 3}}))
    found = fit_question(long, facts, width, height - 3, others=39)
    lines = [line.plain for line in found.lines]
    assert len(lines) <= height - 3
    assert all(len(line) <= width for line in lines)
    assert lines[0].endswith("─ 39 more wait")
    assert found.unread > 0
    assert "Reason 19" in question_text(long, facts, width)
