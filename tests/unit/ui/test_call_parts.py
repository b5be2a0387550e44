"""What a person is shown of a call: all of it, once, and what differs between two sets of arguments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from llm_do_temporal.client import Question
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.ui.content.call_parts import LONG_CHARS, difference, parts_of
from llm_do_temporal.ui.content.renderer import visible, visible_line


def question(args: dict[str, Any], *uses: CapabilityUse, diff: str | None = None) -> Question:
    request = RequestApprovalInput(
        invocation="r/main",
        key="1",
        worker="w",
        path="main",
        tool="tool",
        args=args,
        capabilities=uses,
        summary="s",
        diff=diff,
    )
    return Question("a1", "r", request, datetime(2026, 1, 2, tzinfo=UTC))


def shown(of: Question) -> list[tuple[str, str, str]]:
    return [(part.label, part.kind, part.text or " ".join(part.words)) for part in parts_of(of)]


def test_a_command_is_shown_word_by_word_with_its_folder() -> None:
    use = CapabilityUse(name="proc.exec", payload={"argv": ["rm", "-r", "a b"], "cwd": "/x"})
    (part, *rest) = parts_of(question({"command": "rm -r 'a b'"}, use))
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
    ],
)
def test_the_difference_of_arguments(before: dict[str, Any], after: dict[str, Any], lines: list[str]) -> None:
    assert [line for part in difference(before, after) for _, line in part.lines] == lines


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
