"""Entries of a conversation that belong together: calls with their results, questions with their decisions. Pure.

A model may give two calls the same id. A result then belongs to the last such call before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.client.views.transcripts import Entry

_FIRST = {"result": "call", "decision": "question"}


class EntryPairs:
    """EntryPairs among the entries of a page."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._second: dict[int, Entry] = {}
        self._first: dict[int, Entry] = {}
        last: dict[tuple[str, str], Entry] = {}
        for entry in entries:
            if entry.kind in _FIRST.values():
                last[entry.kind, entry.call] = entry
            elif entry.kind in _FIRST:
                first = last.pop((_FIRST[entry.kind], entry.call), None)
                if first is not None:
                    self._second[id(first)], self._first[id(entry)] = entry, first

    def second(self, entry: Entry) -> Entry | None:
        """Return the result of a call, or the decision on a question; None where it is not on the page."""
        return self._second.get(id(entry))

    def first(self, entry: Entry) -> Entry | None:
        """Return the call of a result, or the question of a decision, which shows it; None: it stands by itself."""
        return self._first.get(id(entry))
