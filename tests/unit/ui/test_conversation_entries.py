"""Conversations on the page: entries that belong together, and lines for what is folded."""

from __future__ import annotations

from datetime import UTC, datetime

from llm_do_temporal.client.views.transcripts import Entry, EntryKind
from llm_do_temporal.ui.pages.run import MAX_CHARS, EntryPairs, call_line, result_line


def entry(kind: EntryKind, call: str, text: str = "") -> Entry:
    return Entry(kind, datetime(2026, 1, 2, tzinfo=UTC), 1, 1, text, call=call)


def test_a_result_stands_with_its_call_and_a_decision_with_its_question() -> None:
    call, question = entry("call", "1"), entry("question", "1")
    result, decision = entry("result", "1"), entry("decision", "1")
    pairs = EntryPairs([call, question, decision, result])
    assert (pairs.second(call), pairs.first(result)) == (result, call)
    assert (pairs.second(question), pairs.first(decision)) == (decision, question)


def test_an_id_that_a_model_gives_twice_pairs_each_result_with_the_call_before_it() -> None:
    entries = [entry("call", "x", "one"), entry("result", "x", "first"), entry("call", "x", "two")]
    last = entry("result", "x", "second")
    pairs = EntryPairs([*entries, last, entry("result", "x", "third")])
    assert pairs.second(entries[0]) is entries[1]
    assert pairs.second(entries[2]) is last


def test_what_is_alone_on_a_page_stands_by_itself() -> None:
    result, call = entry("result", "1"), entry("call", "2")
    pairs = EntryPairs([result, call])
    assert pairs.first(result) is None
    assert pairs.second(call) is None


def test_a_call_is_told_by_its_arguments() -> None:
    assert call_line({"path": "/a.md", "content": "# Title\n\nmore"}) == "path: /a.md · content: # Title …"
    assert call_line({"count": 3, "deep": {"a": [1]}}) == 'count: 3 · deep: {"a": [1]}'
    assert call_line(None) == ""
    assert call_line("no JSON") == "no JSON"


def test_a_result_is_told_by_its_first_line() -> None:
    assert result_line("Wrote /a.md (3 bytes).") == "Wrote /a.md (3 bytes)."
    assert result_line("\n one\ntwo") == "one …"
    assert result_line({"total": 3}) == '{"total": 3}'
    assert result_line("") == ""


def test_long_ones_are_cut() -> None:
    assert len(result_line("x" * 500)) == MAX_CHARS
    assert len(call_line({str(number): "y" * 100 for number in range(20)})) == MAX_CHARS
