"""Documents of questions: titles, calls in parts, differences, and calls like one that is asked about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from llm_do_temporal.client import Question
from llm_do_temporal.client.question_document import (
    MOST_SHOWN,
    TITLE_CHARS,
    group_title,
    place_of,
    precedents_of,
    request_title,
    tells_more,
)
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.ui.content.question_parts import LONG_CHARS, difference, parts_of, shown_parts
from llm_do_temporal.ui.content.questions import answered, with_asked_again, with_one_less, with_one_more
from llm_do_temporal.ui.content.renderer import visible, visible_line
from tests.support.workflow.desk_questions import request

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def question(args: dict[str, Any], *uses: CapabilityUse, diff: str | None = None) -> Question:
    return Question("a1", "r", request(tool="tool", args=args, capabilities=uses, summary="s", diff=diff), NOW)


def shown(of: Question) -> list[tuple[str, str, str]]:
    return [(part.label, part.kind, part.text or " ".join(part.words)) for part in parts_of(of)]


def test_a_command_is_shown_word_by_word_with_its_folder() -> None:
    use = CapabilityUse(name="proc.exec", payload={"argv": ["rm", "-r", "a b"], "cwd": "/x"})
    asked = question({"command": "rm -r 'a b'"}, use)
    (part, *rest) = [one.part for one in shown_parts(parts_of(asked), asked.request)]
    assert (part.kind, part.words) == ("argv", ("rm", "-r", "a b"))
    assert [(one.label, one.text) for one in rest] == [("command", "rm -r 'a b'"), ("proc.exec: cwd", "/x")]


def test_a_change_is_shown_before_the_new_text_and_a_new_file_only_once() -> None:
    changing = question({"content": "b\n"}, diff="--- /a\n+++ /a\n@@ -1 +1 @@\n-a\n+b\n")
    assert [kind for _, kind, _ in shown(changing)] == ["diff", "text"]
    removing = question({"content": "b\n"}, diff="--- /a\n+++ /a\n@@ -1 +1 @@\n--- a comment of SQL\n+b\n")
    assert [kind for _, kind, _ in shown(removing)] == ["diff", "text"]
    creating = question({"content": "b\n"}, diff="--- /dev/null\n+++ /a\n@@ -0,0 +1 @@\n+b\n")
    assert [kind for _, kind, _ in shown(creating)] == ["text"]


def test_what_a_capability_tells_besides_the_arguments_is_shown_once() -> None:
    use = CapabilityUse(name="worker.call", payload={"worker": "w", "input": "go", "attachments": ["/a.pdf"]})
    labels = [label for label, _, _ in shown(question({"input": "go"}, use))]
    assert labels == ["input", "worker.call: worker", "worker.call: attachments"]


def test_what_is_no_change_of_a_file_is_shown_once_and_as_text() -> None:
    use = CapabilityUse(name="worker.create", payload={"definition": "name: w\n- x\n"})
    asked = question({"name": "w"}, use, diff="name: w\n- x\n")
    assert shown(asked) == [("name", "text", "w"), ("worker.create: definition", "text", "name: w\n- x\n")]


def test_nothing_is_cut_and_what_is_long_can_be_folded() -> None:
    long = "x" * 1_000_000
    (part,) = parts_of(question({"content": long}))
    assert part.text == long
    assert part.is_long
    assert not parts_of(question({"content": "x" * LONG_CHARS}))[0].is_long


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({"a": "x"}, {"a": "x"}, []),
        ({"a": "x"}, {"a": "y"}, ["@@ -1 +1 @@", "-x", "+y"]),
        ({"a": 1}, {"a": 1, "b": 2}, ["+2"]),
        ({"a": 1, "b": 2}, {"a": 1}, ["-2", " (left out)"]),
        # an empty text is not a missing one
        ({"a": ""}, {"a": "x"}, ["@@ -1 +1 @@", "-", "+x"]),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, []),
        ({"a": "1"}, {"a": 1}, [' ("1" becomes 1)']),
        # to Python they are equal
        ({"a": 1}, {"a": True}, ["@@ -1 +1 @@", "-1", "+true"]),
        ({"a": [1]}, {"a": [True]}, ["@@ -1,3 +1,3 @@", " [", "-  1", "+  true", " ]"]),
    ],
)
def test_the_difference_of_arguments(before: dict[str, Any], after: dict[str, Any], lines: list[str]) -> None:
    assert [line for part in difference(before, after) for line in part.text.split("\n")] == lines


def test_a_long_text_is_compared_as_one_block() -> None:
    lines = ["same"] * 3_000
    before, after = "\n".join([*lines, "old", *lines]), "\n".join([*lines, "new", "newer", *lines])
    (part,) = difference({"a": before}, {"a": after})
    assert part.text.split("\n") == ["@@ line 3001 @@", "-old", "+new", "+newer"]


def test_text_is_escaped_and_what_hides_in_it_written_out() -> None:
    assert visible("<b>&\u202e\n\tx\r\n") == ('&lt;b&gt;&amp;<span class="hidden-char">\\u202e</span>\n\tx\n')
    assert visible_line("a\nb\tc") == ('a<span class="hidden-char">\\n</span>b<span class="hidden-char">\\t</span>c')
    assert visible("\u3164\u2800\ufe0f🙂") == (
        '<span class="hidden-char">\\u3164</span><span class="hidden-char">\\u2800</span>'
        '<span class="hidden-char">\\ufe0f</span>🙂'
    )


@pytest.mark.parametrize(
    ("tool", "summary", "args", "title"),
    [
        ("write_file", "write_file /a.txt (1 bytes)", {}, "Write the file /a.txt (1 bytes)"),
        ("edit_file", "edit_file /a.txt (1 bytes)", {}, "Change the file /a.txt (1 bytes)"),
        ("shell", "shell git push origin", {}, "Run the command git push origin"),
        ("greeter", "call greeter: hello", {"input": "hello"}, "Call the worker greeter: hello"),
        ("worker_create", "create worker x (its text)", {}, "Create the worker x (its text)"),
        ("worker_call", "share /a.pdf (9 bytes) with reader", {}, "Share the file /a.pdf (9 bytes) with reader"),
        ("submit", "review 2: 1 change (1 added)", {}, "Review 2: 1 change (1 added)"),
        ("limit", "main has spent 2 turns; go on?", {}, "main has spent 2 turns; go on?"),
        ("shell", "may have happened: shell make", {}, "Repeat what may have happened: shell make"),
        ("send_mail", "send_mail {}", {"to": "ann@x.org", "subject": "Hi"}, "Send mail to ann@x.org, subject: Hi"),
        ("create-issue", "create-issue of hub", {"title": "x", "in": "y"}, "Create issue (title: x, in y)"),
        ("pay", "pay", {}, "Pay"),
        # Tools that are called like a verb of ours are not taken for it.
        ("shell", 'shell {"a":1}', {"a": "1"}, "Shell (a: 1)"),
        ("call", 'call {"who":"x"}', {"who": "x"}, "Call (who: x)"),
        ("write_file", "write_file of disk", {"path": "/x"}, "Write file (path: /x)"),
        ("share", "share of disk", {"path": "/x"}, "Share (path: /x)"),
    ],
)
def test_a_title_says_what_is_wanted(tool: str, summary: str, args: dict[str, str], title: str) -> None:
    assert request_title(tool, summary, args) == title


def test_a_title_does_not_hide_that_there_is_more() -> None:
    """Attack: the argument that matters is the fourth one, stands behind a long one, or there was no room for it."""
    many = {"a": "x", "b": "x", "c": "x", "to": "x"}
    assert request_title("send", "send {}", many) == "Send (a: x, b: x, c: x, …)"
    assert request_title("send", "send {}", {"to": "x" * 400}) == f"Send to {'x' * 48}…"
    assert request_title("send", "send {}", {"to": "ann"}, is_whole=False) == "Send to ann, …"
    assert len(request_title("send", "send {}", {"n" * 300: "x" * 300})) == TITLE_CHARS + 1
    assert request_title("_", "_ {}", {"a": ""}) == "_ (a: )"


def test_the_technical_line_is_left_out_only_where_the_title_has_it() -> None:
    assert not tells_more("Write the file /a.txt (1 bytes)", "write_file /a.txt (1 bytes)")
    assert not tells_more("Pay", "pay")
    assert tells_more("Send mail to ann@x.org", 'send_mail {"to":"ann@x.org"}')


def test_a_group_has_a_title_like_its_questions() -> None:
    assert group_title("write_file *.md in /notes") == "Write files: *.md in /notes"
    assert group_title("shell git push") == "Run commands: git push"
    assert group_title("send_mail") == "send_mail"


def asked_about(number: int, tool: str, use: CapabilityUse, decision: DecisionKind | None = None) -> Question:
    at = NOW + timedelta(seconds=number)
    verdict = None if decision is None else Verdict(decision=decision, args={}, at=at, door="update")
    asked = request(key=str(number), tool=tool, args={}, capabilities=(use,), summary="s")
    return Question(f"a{number}", "r", asked, at, verdict=verdict)


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
    assert place_of(asked_about(1, "t", CapabilityUse(name=name, payload=payload)).request) == place


def test_only_other_calls_of_the_same_tool_at_the_same_place_count() -> None:
    here = asked_about(1, "write_file", writing("/n/a"))
    approved = [
        asked_about(n, "write_file", writing(f"/n/{n}"), DecisionKind.APPROVE) for n in range(2, 4 + MOST_SHOWN)
    ]
    others = [
        asked_about(50, "write_file", writing("/n/x"), DecisionKind.REJECT),
        asked_about(51, "write_file", writing("/n/y")),
        asked_about(52, "edit_file", writing("/n/a"), DecisionKind.REJECT),
        asked_about(53, "write_file", writing("/m/a"), DecisionKind.REJECT),
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
