"""Kinds for certain callers, and for the files that lie in one folder itself."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.entries import AllowEntry
from llm_do_temporal.policy.kinds.kind import CallKind
from tests.support.people.asked_calls import command, delegation, python, write

WRITES: dict[str, Any] = {"tool": "write_file", "folder": "/notes", "suffix": ".md"}
COUNTS: dict[str, Any] = {"command": "wc -l {path}", "folder": "/logs", "suffix": ".log"}
READS: dict[str, Any] = {"worker": "reader", "folder": "/decks", "suffix": ".pdf"}


@pytest.mark.parametrize(
    ("keys", "call", "is_covered"),
    [
        (WRITES, write("/notes/a.md"), True),
        (WRITES, write("/notes//./a.md"), True),
        (WRITES, write("/notes/sub/a.md"), False),
        (WRITES, write("/notes2/a.md"), False),
        (WRITES, write("/a.md"), False),
        (WRITES, write("/notes/.md"), False),
        (WRITES, write("/notes/.a.md"), False),
        (WRITES, write("/notes/a.md.sh"), False),
        (WRITES, write("/notes/a.MD"), False),
        (WRITES, write("/NOTES/a.md"), False),
        (WRITES, write("/notes/a.md\u200b"), False),
        (WRITES, write("/notes/a.md", place="files/secret.md"), False),
        (WRITES, write("/notes/a.md", tool="edit_file"), False),
        (COUNTS, command("wc -l logs/a.log"), True),
        (COUNTS, command("wc -l ./logs/a.log"), True),
        (COUNTS, command("wc -l logs/old/a.log"), False),
        (COUNTS, command("wc -l secrets/a.log"), False),
        (COUNTS, command("wc -l logs/a.key"), False),
        (COUNTS, command("wc -l a.log"), False),
        (COUNTS, command("wc -l logs/a.log logs/b.log"), False),
        (COUNTS, command("wc -c logs/a.log"), False),
        (READS, delegation("reader", "/decks/a.pdf"), True),
        (READS, delegation("reader", "/decks/a.pdf", "/decks/b.pdf"), True),
        (READS, delegation("reader", "/decks/board/a.pdf"), False),
        (READS, delegation("reader", "/decks/a.pdf", "/secrets/b.pdf"), False),
        (READS, delegation("reader", "/decks/a.txt"), False),
        (READS, delegation("reader", "/../decks/a.pdf"), False),
        (READS, delegation("reader"), False),  # it is about calls with files
        (READS, delegation("other", "/decks/a.pdf"), False),
    ],
)
def test_only_files_in_the_folder_itself_with_the_suffix(
    keys: dict[str, Any], call: AskedCall, is_covered: bool
) -> None:
    assert CallKind.model_validate(keys).covers(call) is is_covered


@pytest.mark.parametrize(
    ("keys", "call"),
    [
        (WRITES, write("/notes/a.md")),
        (COUNTS, command("wc -l logs/a.log")),
        (READS, delegation("reader", "/decks/a.pdf")),
        ({"tool": "restart", "args": {"service": "web"}, "sha256": "1" * 64}, python("restart", service="web")),
    ],
)
def test_only_calls_of_the_workers_that_are_named(keys: dict[str, Any], call: AskedCall) -> None:
    kind = CallKind.model_validate({**keys, "callers": ("main", "clerk")})
    by = {name: call.model_copy(update={"worker": name}) for name in ("main", "clerk", "other", "Main", "")}
    assert {name for name, made in by.items() if kind.covers(made)} == {"main", "clerk"}
    assert kind.sentence.endswith(", by main or clerk")


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (WRITES, "write_file of .md files in /notes"),
        ({"tool": "write_file", "folder": "/notes"}, "write_file of files in /notes"),
        (COUNTS, "the command `wc -l {path}`, of .log files in /logs"),
        (READS, "calls of reader, with .pdf files in /decks"),
    ],
)
def test_the_sentence_says_where_the_files_lie(keys: dict[str, Any], sentence: str) -> None:
    assert CallKind.model_validate(keys).sentence == sentence


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({**WRITES, "below": "/notes"}, "`below` or `folder`"),
        ({**WRITES, "callers": ()}, "at least 1"),
        ({**WRITES, "folder": "/notes/../x"}, "'..'"),
        ({"command": "git log -n {number}", "folder": "/logs"}, "no word {path}"),
        ({"command": "wc -l {path}", "suffix": ".log"}, "`suffix` goes with `folder`"),
        ({"worker": "reader", "suffix": ".pdf"}, "`suffix` goes with `folder`"),
        ({**READS, "attachments": "/decks"}, "write one of them"),
        ({"tool": "restart", "args": {}, "folder": "/x"}, "does not go with"),
    ],
)
def test_keys_that_do_not_go_together_are_named(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says.replace("{", r"\{")):
        CallKind.model_validate(keys)


def test_examples_of_an_entry_are_calls_of_its_callers() -> None:
    entry = AllowEntry.model_validate(
        {**WRITES, "callers": ("main",), "match": ("/notes/a.md",), "not_match": ("/x.md",)}
    )
    assert list(entry.failed_examples()) == []
    wrong = entry.model_copy(update={"not_match": ("/notes/b.md",)})
    assert [failed.text for failed in wrong.failed_examples()] == ["/notes/b.md"]
