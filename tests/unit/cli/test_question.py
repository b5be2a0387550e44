from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from llm_do_temporal.cli.terminal.pictures.question import fit_question, question_lines, question_text
from llm_do_temporal.cli.terminal.pictures.text_lines import joined
from llm_do_temporal.client.client import Question
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.policy.values import CapabilityUse

VOTED: Any = {"at": datetime(2026, 1, 2, tzinfo=UTC), "door": "update"}
CHANGE = "--- /a.txt\n+++ /a.txt\n@@ -1 +1,2 @@\n-old\n+one\n+two\n"


def drawn(pending: Question, width: int = 80) -> list[str]:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(joined(question_lines(pending, None, width)))
    return [line.rstrip() for line in capture.get().splitlines()]


def fitted(pending: Question, height: int, width: int = 80) -> tuple[list[str], int]:
    found = fit_question(pending, None, width, height)
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
        "    one",
        "    two",
        "",  # the content ends with a line end
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
        "    one",
        "    two",
        "",
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
    assert "    two" in lines
    long = {"path": "/a.txt", "content": "line\n" * 99}
    assert fitted(asking(pending, diff=diff, args=long), 30)[1] > 70


def test_a_text_that_others_have_changed_is_not_told_by_the_old_diff(pending: Question) -> None:
    vote = Verdict(decision=DecisionKind.MODIFY, args={"path": "/a.txt", "content": "x\ny"}, by="ann", **VOTED)
    lines, _ = fitted(replace(asking(pending, diff=CHANGE), votes=(vote,)), 30)
    assert lines[-3:] == ["  content:", "    x", "    y"]
    assert "  changes:" not in lines


@pytest.mark.parametrize("height", [6, 9, 21, 37])
def test_what_has_no_room_is_counted(pending: Question, height: int) -> None:
    args = {"path": "/a.txt", "content": "line\n" * 99 + "end", "mode": "x\n" * 20}
    lines, unread = fitted(asking(pending, args=args), height)
    assert len(lines) <= height
    marks = [line for line in lines if "more; v shows all" in line]
    shown = sum(line.strip() in ("line", "x", "end") for line in lines)
    assert unread
    assert marks
    if height > 9:
        # Of both texts there is a beginning.
        assert len(marks) == 2
        assert unread == 100 + 21 - shown


def test_many_arguments_push_nothing_off_the_screen_unseen(pending: Question) -> None:
    lines, unread = fitted(asking(pending, args={f"n{number}": number for number in range(100)}), 21)
    assert len(lines) == 21
    assert (
        unread == len(question_text(asking(pending, args={f"n{n}": n for n in range(100)}), None, 80).splitlines()) - 20
    )


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
    whole = question_text(question, None, 200)
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
    assert "    \\x1b[1;1Ha1 approved\\x0d" in lines


def test_markup_and_names_of_arguments_are_plain_text(pending: Question) -> None:
    lines = drawn(asking(pending, args={"[red]a\nb": "[bold]:smile:[/bold]"}, summary="[blink]x"))
    assert lines[1] == "[blink]x"
    assert lines[3] == "  [red]a\\nb: [bold]:smile:[/bold]"


def test_a_change_of_line_ends_is_seen(pending: Question) -> None:
    diff = "--- /a.csv\n+++ /a.csv\n@@ -1,2 +1,2 @@\n-a;b\n-c;d\n+a;b\r\n+c;d\r\n"
    args = {"path": "/a.csv", "content": "a;b\r\nc;d\r\n"}
    lines = drawn(asking(pending, diff=diff, args=args))
    shown = ["-a;b", "-c;d", "+a;b\\x0d", "+c;d\\x0d", "a;b\\x0d", "c;d\\x0d"]
    assert [line.strip() for line in lines if ";" in line] == shown
