"""A question on the terminal: on a screen, in the pager, and as `approvals RUN ID` prints it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from llm_do_temporal.cli import session
from llm_do_temporal.cli.commands.approvals import approvals
from llm_do_temporal.cli.terminal.question import background_lines, fit_question, joined, question_lines, question_text
from llm_do_temporal.client import question_document
from llm_do_temporal.client.client import Question
from llm_do_temporal.client.question_document import Background, Words, document_of, precedents_of
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.messages.runs import RunMemo
from llm_do_temporal.policy.values import CapabilityUse

VOTED: Any = {"at": datetime(2026, 1, 2, tzinfo=UTC), "door": "update"}
CHANGE = "--- /a.txt\n+++ /a.txt\n@@ -1 +1,2 @@\n-old\n+one\n+two\n"
LONG = "I have read the deck.\n\n" + "\n".join(f"Reason {number} of many that I have." for number in range(20))
REJECTED = Verdict(
    decision=DecisionKind.REJECT, args={}, by="ann", at=datetime(2026, 1, 2, tzinfo=UTC), door="update", note="no"
)


def drawn(pending: Question, width: int = 80) -> list[str]:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(joined(question_lines(document_of(pending), width)))
    return [line.rstrip() for line in capture.get().splitlines()]


def fitted(pending: Question, height: int, width: int = 80) -> tuple[list[str], int]:
    found = fit_question(document_of(pending), width, height)
    return [line.plain.rstrip() for line in found.lines], found.unread


def asking(pending: Question, **change: Any) -> Question:
    return replace(pending, request=pending.request.model_copy(update=change))


def test_the_whole_call_is_shown(pending: Question) -> None:
    lines = drawn(pending)
    assert lines[0].startswith("a1 · write_file · main · run run-1 ─")
    assert lines[1:] == [
        "write_file /a.txt (8 bytes)",
        "sandbox.write needs approval",
        "  path: /a.txt",
        "  content (a new file):",
        "    | one",
        "    | two",
        "    |",  # the content ends with a line end
    ]


def test_a_diff_of_which_lines_go_that_look_like_its_head_is_shown(pending: Question) -> None:
    diff = "--- /a.txt\n+++ /a.txt\n@@ -1 +1,2 @@\n--- a comment of SQL\n+one\n+two\n"
    assert any("a comment of SQL" in line for line in drawn(asking(pending, diff=diff)))


def test_a_change_stands_first_as_a_diff(pending: Question) -> None:
    lines = drawn(asking(pending, diff=CHANGE))
    assert lines[3:] == [
        "  changes:",
        "    --- /a.txt",
        "    +++ /a.txt",
        "    @@ -1 +1,2 @@",
        "    -old",
        "    +one",
        "    +two",
        "  path: /a.txt",
        "  content:",
        "    | one",
        "    | two",
        "    |",
    ]


def test_a_screen_shows_no_text_that_the_diff_tells(pending: Question) -> None:
    lines, unread = fitted(asking(pending, diff=CHANGE), 21)
    assert lines[-2:] == ["  path: /a.txt", "  content: in the changes above; v shows all"]
    assert unread == 0


@pytest.mark.parametrize(
    "diff",
    [
        CHANGE + "... the diff is cut here: 9 of 99 characters are not shown\n",
        "--- /a.txt\n+++ /a.txt\n(all that was there is replaced: not text, or too large to compare)\n",
    ],
)
def test_a_diff_that_does_not_tell_all_hides_no_text(pending: Question, diff: str) -> None:
    lines, _ = fitted(asking(pending, diff=diff), 30)
    assert "    | two" in lines
    long = {"path": "/a.txt", "content": "line\n" * 99}
    assert fitted(asking(pending, diff=diff, args=long), 30)[1] > 70


def test_a_text_that_others_have_changed_is_not_told_by_the_old_diff(pending: Question) -> None:
    vote = Verdict(decision=DecisionKind.MODIFY, args={"path": "/a.txt", "content": "x\ny"}, by="ann", **VOTED)
    lines, _ = fitted(replace(asking(pending, diff=CHANGE), votes=(vote,)), 30)
    assert lines[-3:] == ["  content:", "    | x", "    | y"]
    assert "  changes:" not in lines


@pytest.mark.parametrize("height", [6, 9, 21, 37])
def test_what_has_no_room_is_counted(pending: Question, height: int) -> None:
    args = {"path": "/a.txt", "content": "line\n" * 99 + "end", "mode": "x\n" * 20}
    lines, unread = fitted(asking(pending, args=args), height)
    assert len(lines) <= height
    marks = [line for line in lines if "more; v shows all" in line]
    shown = sum(line.strip() in ("| line", "| x", "| end") for line in lines)
    assert unread
    assert marks
    if height > 9:
        # Of both texts there is a beginning.
        assert len(marks) == 2
        assert unread == 100 + 21 - shown


def test_many_arguments_push_nothing_off_the_screen_unseen(pending: Question) -> None:
    lines, unread = fitted(asking(pending, args={f"n{number}": number for number in range(100)}), 21)
    assert len(lines) == 21
    whole = question_text(document_of(asking(pending, args={f"n{n}": n for n in range(100)})), 80)
    assert unread == len(whole.splitlines()) - 20


def test_a_screen_has_the_beginning_of_a_digest_and_arguments_only_once(pending: Question) -> None:
    use = CapabilityUse(name="python.call", payload={"tool": "mail", "sha256": "ab" * 32})
    summary = 'mail {"content":"one"}'
    question = asking(pending, tool="mail", args={"content": "one"}, summary=summary, capabilities=(use,), diff=None)
    lines, unread = fitted(question, 20)
    assert lines[1:] == [
        "sandbox.write needs approval",
        "  content: one",
        '  python.call: {"tool": "mail", "sha256": "abababababab…"}',
    ]
    assert unread == 0
    whole = question_text(document_of(question), 200)
    assert summary in whole
    assert "ab" * 32 in whole


def test_a_question_that_fits_has_nothing_unread(pending: Question) -> None:
    assert fitted(pending, 8) == (drawn(pending), 0)


def test_what_a_capability_says_beyond_the_arguments_is_shown(pending: Question) -> None:
    use = CapabilityUse(name="sandbox.read", payload={"path": "/a.txt", "bytes": 7, "target_worker": "scout"})
    assert '  sandbox.read: {"bytes": 7, "target_worker": "scout"}' in drawn(asking(pending, capabilities=(use,)))


def test_no_text_of_a_models_reaches_the_left_margin(pending: Question) -> None:
    forged = "a1> a\n[a]pprove\n" + "long " * 60 + "\n\x1b[1;1Ha1 approved\r"
    lines = drawn(asking(pending, args={"content": forged, "deep": {"x": ["y" * 300]}}))
    assert all(line.startswith("  ") for line in lines[3:] if line)
    assert "    | \\x1b[1;1Ha1 approved\\x0d" in lines


def test_markup_and_names_of_arguments_are_plain_text(pending: Question) -> None:
    lines = drawn(asking(pending, args={"[red]a\nb": "[bold]:smile:[/bold]"}, summary="[blink]x"))
    assert lines[1] == "[blink]x"
    assert lines[3] == "  [red]a\\nb: [bold]:smile:[/bold]"


def test_a_change_of_line_ends_is_seen(pending: Question) -> None:
    diff = "--- /a.csv\n+++ /a.csv\n@@ -1,2 +1,2 @@\n-a;b\n-c;d\n+a;b\r\n+c;d\r\n"
    args = {"path": "/a.csv", "content": "a;b\r\nc;d\r\n"}
    lines = drawn(asking(pending, diff=diff, args=args))
    shown = ["-a;b", "-c;d", "+a;b\\x0d", "+c;d\\x0d", "| a;b\\x0d", "| c;d\\x0d"]
    assert [line.strip() for line in lines if ";" in line] == shown


def in_notes(question: Question, approval: str, verdict: Verdict | None = None) -> Question:
    use = CapabilityUse(name="sandbox.write", payload={"path": f"/notes/{approval}.md"})
    request = question.request.model_copy(
        update={"capabilities": (use,), "summary": f"write_file /notes/{approval}.md"}
    )
    return replace(question, id=approval, request=request, verdict=verdict)


def decision(kind: DecisionKind, hours: int, note: str = "") -> Verdict:
    at = datetime.now(UTC) - timedelta(hours=hours)
    return Verdict(decision=kind, args={}, by="ann", at=at, door="update", note=note)


@pytest.fixture
def asked(pending: Question) -> Question:
    return in_notes(pending, "a9")


def around(asked: Question, *known: Question, words: Words | None = None, task: str = "Sort the mail") -> Background:
    begun = RunMemo(worker="clerk", task=task, started_by="ada")
    return Background(begun, words, precedents_of(asked, [asked, *known]))


def plain(asked: Question, facts: Background, width: int = 80, *, is_short: bool = True) -> list[str]:
    return [line.plain.rstrip() for line in background_lines(document_of(asked, facts), width, is_short=is_short)]


def test_the_task_its_person_and_the_words_of_the_model_are_told(asked: Question) -> None:
    facts = around(asked, words=Words("The mail is sorted now.", 0, 1))
    assert plain(asked, facts) == ["  task: Sort the mail, started by ada", "  said: The mail is sorted now."]
    facts = around(asked, words=Words("Wait.", 2, 1), task="")
    assert plain(asked, facts) == ["  task: clerk, started by ada", "  said 2 turns before: Wait."]


def test_long_words_take_three_lines_of_a_screen_and_stand_whole_in_the_pager(asked: Question) -> None:
    facts = around(asked, words=Words(LONG, 1, 1), task="Sort " * 50)
    short, whole = plain(asked, facts), plain(asked, facts, is_short=False)
    assert short[1:] == [
        "  said 1 turn before: I have read the deck.",
        "  | Reason 0 of many that I have.",
        "  | Reason 1 of many that I have.…",
    ]
    assert short[0].startswith("  task: Sort Sort")
    assert short[0].endswith("…")
    assert len(short[0]) <= 80
    assert "  | Reason 19 of many that I have." in whole


def test_decisions_on_calls_like_it_are_counted_and_the_last_no_is_named(asked: Question) -> None:
    known = [
        in_notes(asked, "a1", decision(DecisionKind.APPROVE, 5)),
        in_notes(asked, "a2", decision(DecisionKind.REJECT, 4, "too long")),
        in_notes(asked, "a3", decision(DecisionKind.MODIFY, 3)),
        in_notes(asked, "a4", decision(DecisionKind.APPROVE, 1)),
        in_notes(asked, "a5"),
        replace(in_notes(asked, "a6"), request=asked.request.model_copy(update={"tool": "edit_file"})),
    ]
    lines = plain(asked, around(asked, *known), width=120)
    assert lines[1:] == [
        "  like it: 2 approved, 1 rejected, 1 changed and approved, 1 more waits (write_file in /notes)",
        "    a3 changed and approved by ann 3h ago (write_file /notes/a3.md)",
    ]
    whole = plain(asked, around(asked, *known), width=200, is_short=False)
    assert [line.split()[0] for line in whole[2:]] == ["a4", "a3", "a2", "a1"]
    assert whole[4] == "    a2 rejected by ann 4h ago: too long (write_file /notes/a2.md)"


def test_an_approval_that_was_not_carried_out_is_not_counted_as_one(asked: Question) -> None:
    known = [
        replace(in_notes(asked, "a1", decision(DecisionKind.APPROVE, 5)), again="a2"),
        in_notes(asked, "a2", decision(DecisionKind.APPROVE, 4)),
        replace(in_notes(asked, "a3", decision(DecisionKind.MODIFY, 3)), again="a4"),
        in_notes(asked, "a4"),
    ]
    lines = plain(asked, around(asked, *known), width=120, is_short=False)
    assert lines[1:] == [
        "  like it: 1 approved, 2 not carried out, 1 more waits (write_file in /notes)",
        "    a3 changed and approved by ann 3h ago; not carried out (write_file /notes/a3.md)",
        "    a2 approved by ann 4h ago (write_file /notes/a2.md)",
        "    a1 approved by ann 5h ago; not carried out (write_file /notes/a1.md)",
    ]


def test_a_worker_that_is_a_tool_is_named_once(asked: Question) -> None:
    use = CapabilityUse(name="worker.call", payload={"worker": "reader"})
    request = asked.request.model_copy(update={"tool": "reader", "capabilities": (use,)})
    known = [replace(asked, id=name, request=request) for name in ("a1", "a9")]
    assert plain(known[1], around(known[1], known[0]))[1] == "  like it: 1 more waits (reader)"


def test_no_words_of_the_model_reach_the_left_margin_or_pass_for_the_prompt(asked: Question) -> None:
    facts = around(asked, words=Words("\n\na9> a\n[a]pprove \x1b[2J\u202e\n" + "long " * 90, 0, 1), task="[bold]x\ny")
    for is_short in (True, False):
        lines = plain(asked, facts, is_short=is_short)
        assert all(line.startswith("  ") for line in lines if line)
        assert any("\\x1b[2J\\u202e" in line for line in lines)
        assert lines[0] == "  task: [bold]x\\ny, started by ada"


FIELDS = "all is well\n  like it: 9 approved (write_file in /notes)\npath: /harmless.txt\n\n    a1 approved by ann"


@pytest.mark.parametrize("width", [40, 80, 1_000_000])
def test_no_line_of_a_model_looks_like_a_field(asked: Question, width: int) -> None:
    ours = asking(asked, args={"path": "/b.txt", "content": FIELDS, "more": [FIELDS, "long " * 90]})
    plain_words, forged = (around(ours, words=Words(said, 0, 1)) for said in ("all is well", FIELDS + " long" * 50))
    told = [question_text(document_of(ours, facts), width).splitlines() for facts in (plain_words, forged)]
    for lines in told:
        assert not [line for line in lines if line.strip().startswith(("path: /harmless", "like it", "a1 approved"))]
    added = [line for line in told[1] if line not in told[0]]
    assert all(line.startswith("  | ") for line in added if line.strip() != "|")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_a_question_with_all_of_it_fits_on_a_screen(asked: Question, width: int, height: int) -> None:
    known = in_notes(asked, "a2", decision(DecisionKind.REJECT, 4, "too long"))
    facts = around(asked, known, words=Words(LONG, 0, 1))
    long = replace(asked, request=asked.request.model_copy(update={"args": {"path": "/a", "content": LONG * 3}}))
    found = fit_question(document_of(long, facts), width, height - 3, others=39)
    lines = [line.plain for line in found.lines]
    assert len(lines) <= height - 3
    assert all(len(line) <= width for line in lines)
    assert lines[0].endswith("─ 39 more wait")
    assert found.unread > 0
    assert "Reason 19" in question_text(document_of(long, facts), width)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, pending: Question) -> Sequence[Question]:
    """Return the questions of the run: one open, one rejected, one withdrawn."""
    known = [pending, replace(pending, id="a2", verdict=REJECTED), replace(pending, id="a3", withdrawn=True)]

    async def questions(run: str) -> list[Question]:
        assert run == "run-1"
        return known

    @asynccontextmanager
    async def opened(*_: Any) -> AsyncGenerator[Any]:
        yield SimpleNamespace(client=SimpleNamespace(questions=questions))

    async def background(client: object, question: Question, known: Sequence[Question]) -> Background:
        begun = RunMemo(worker="clerk", task="Sort the mail", started_by="ada")
        return Background(begun, Words("I sorted it.", 0, 1), precedents_of(question, known))

    monkeypatch.setattr(session, "opened", opened)
    monkeypatch.setattr(question_document, "read_background", background)
    return known


async def test_the_whole_of_it_stands_below_its_surroundings(
    known: Sequence[Question], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await approvals("run-1", "a1") == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[1:] == [
        "  task: Sort the mail, started by ada",
        "  said: I sorted it.",
        "  like it: 1 rejected (write_file)",
        *[line for line in told.out.splitlines() if line.startswith("    a2 rejected by ann")],
        "write_file /a.txt (8 bytes)",
        "sandbox.write needs approval",
        "  path: /a.txt",
        "  content (a new file):",
        "    | one",
        "    | two",
        "    |",
    ]
    assert "answer with: llm-do-temporal approve run-1 a1" in told.err


@pytest.mark.parametrize(
    ("approval", "state"),
    [("a2", "rejected by ann, 2026-01-02 00:00:00 UTC: no"), ("a3", "nobody needs an answer any more")],
)
async def test_a_settled_question_says_so(
    known: Sequence[Question], capsys: pytest.CaptureFixture[str], approval: str, state: str
) -> None:
    await approvals("run-1", approval)
    assert capsys.readouterr().err.strip() == state


async def test_the_object_is_that_of_the_list(known: Sequence[Question], capsys: pytest.CaptureFixture[str]) -> None:
    await approvals("run-1", "a2", as_json=True)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(known[1].as_json()))


async def test_a_question_that_nobody_asked_is_an_error(known: Sequence[Question]) -> None:
    with pytest.raises(UsageError, match="'a9'; it has asked a1, a2, a3"):
        await approvals("run-1", "a9")
