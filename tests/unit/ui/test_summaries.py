"""Summaries of calls and results on one line."""

from __future__ import annotations

from llm_do_temporal.ui.content.runs.summaries import MAX_CHARS, call_line, result_line


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
