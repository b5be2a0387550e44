"""Entries put into a `workshop.yaml`: its comments, order and style stay, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from llm_do_temporal.definitions.workshop import with_allow_entries
from llm_do_temporal.errors import UsageError

ENTRY: dict[str, Any] = {"tool": "write_file", "below": "/notes", "match": ["/notes/a.md", "/notes/b.md"]}
OTHER: dict[str, Any] = {"command": "git log -n {number}", "why": "asked 9 times: in 3 runs"}


def added_lines(before: str, after: str) -> list[str]:
    """The lines that are new, where all of the others are as they were and in the same order."""
    old, new = before.splitlines(), after.splitlines()
    added: list[str] = []
    for line in new:
        if old and old[0] == line:
            old.pop(0)
        else:
            added.append(line)
    assert old == []
    return added


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing but words\n",
        "sandbox: {root: .}\n",
        "sandbox: {root: .}",  # no line end
        "sandbox:\n  root: .  # ours\n\n# the end\n",
        "---\nsandbox: {root: .}\n...\n",
        "approvals:\n  mode: interactive\n",
        "approvals:   # who decides\n  mode: strict   # for now\n  # rules: …\n\nmodel: offline:notes\n",
        "approvals:\n    rules:\n        worker.call: pre_approved\n    mode: strict\nmodel: a:b\n",
        "approvals:\n\nmodel: a:b\n",  # no value
        "approvals: {}  # later\nmodel: a:b\n",
        "approvals: null\nmodel: a:b\n",
        "approvals: {mode: strict, default: blocked}\nmodel: a:b\n",
        "approvals:\n  allow: []\n  mode: strict\n",
        "approvals:\n  allow:\n  mode: strict\n",
        "approvals:\n  allow:\n    - {tool: edit_file}\n    # the last one\n  mode: strict\n",
        "approvals:\n  allow:\n  - tool: edit_file\n    why: >\n      folded\n      text\n\n  mode: strict\n",
        "approvals:\n  allow: [{tool: edit_file}]\n  mode: strict\n",
        "approvals: {allow: [], mode: strict}\n",
        "approvals: {allow: [{tool: edit_file}], mode: strict}\n",
        "{sandbox: {root: .}}\n",
        "name: käse 🧀\napprovals:\n  mode: strict\n",
    ],
)
def test_the_entries_stand_at_the_end_of_allow_and_nothing_else_has_changed(text: str) -> None:
    after = with_allow_entries(text, [ENTRY, OTHER])
    before_value: dict[str, Any] = yaml.safe_load(text) or {}
    value = yaml.safe_load(after)
    approvals: dict[str, Any] = before_value.get("approvals") or {}
    allow: list[Any] = [*(approvals.get("allow") or []), ENTRY, OTHER]
    assert value == {**before_value, "approvals": {**approvals, "allow": allow}}
    comments = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
    assert [line.partition("#")[2] for line in after.splitlines() if "#" in line] == comments


@pytest.mark.parametrize(
    "text",
    [
        "sandbox: {root: .}\n",
        "approvals:   # who decides\n  mode: strict   # for now\n  # rules: …\n\nmodel: offline:notes\n",
        "approvals:\n  allow:\n    - {tool: edit_file}\n    # the last one\n  mode: strict\n",
        "approvals:\r\n  mode: strict\r\nmodel: a:b\r\n",
    ],
)
def test_lines_that_stood_there_stand_there_still(text: str) -> None:
    assert added_lines(text, with_allow_entries(text, [ENTRY]))[-3:] != []


def test_line_ends_of_windows_stay() -> None:
    after = with_allow_entries("approvals:\r\n  mode: strict\r\nmodel: a:b\r\n", [ENTRY])
    assert after.count("\n") == after.count("\r\n") == len(after.splitlines())


def test_what_stands_below_a_comment_of_the_block_stays_below_it() -> None:
    text = "approvals:\n  allow:\n    - {tool: edit_file}\n    # the last one\n  mode: strict\n"
    lines = with_allow_entries(text, [OTHER]).splitlines()
    assert lines.index("    # the last one") < lines.index("    - command: git log -n {number}")


def test_hidden_characters_are_written_as_escapes() -> None:
    after = with_allow_entries("", [{"tool": "edit_file", "match": ["/notes/\u202egpj.md"]}])
    assert "\u202e" not in after
    assert yaml.safe_load(after)["approvals"]["allow"][0]["match"] == ["/notes/\u202egpj.md"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x: &it {mode: strict}\napprovals: *it\n", "no place"),
        ("approvals: strict\n", "no place"),
        ("approvals: {mode: strict,}\n", "no place"),
        ("approvals:\n  allow: everything\n", "no place"),
        ("- a list\n", "no place"),
        ("approvals: [\n", "not valid YAML"),
        ("a: 1\na: 2\n", "duplicate key"),
    ],
)
def test_a_text_with_no_place_for_them_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        with_allow_entries(text, [ENTRY])
