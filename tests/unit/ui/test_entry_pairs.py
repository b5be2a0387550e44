"""Entries of a conversation that are shown together."""

from __future__ import annotations

from datetime import UTC, datetime

from llm_do_temporal.client.views.transcripts import Entry, EntryKind
from llm_do_temporal.ui.content.runs.entry_pairs import EntryPairs


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
