"""Questions that wait: entries of an inbox, and a client that has nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from llm_do_temporal.client import InboxEntry, Question
from llm_do_temporal.client.open_questions import InboxContents, LockedRun

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def waiting_entry(**facts: Any) -> InboxEntry:
    """Return an entry with these facts, and others that do not matter."""
    usual: dict[str, Any] = {"run": "r", "run_worker": "boss", "started_by": "ann", "id": "a1", "worker": "boss"}
    usual |= {"path": "main", "tool": "write_file", "summary": "write_file a.md", "asked_at": NOW, "deadline": None}
    usual |= {"votes": 0, "quorum": 1, "approvers": ()}
    return InboxEntry(**usual | facts)


def entry_of(question: Question, **facts: Any) -> InboxEntry:
    asked = question.request
    same = {
        name: getattr(asked, name) for name in ("worker", "path", "tool", "summary", "approvers", "digest", "group")
    }
    names = {"run": question.run, "run_worker": asked.worker, "id": question.id, "asked_at": question.asked_at}
    return waiting_entry(**same | names | facts)


@dataclass
class Waiting:
    """A client whose inbox has this in it."""

    entries: list[InboxEntry]
    locked: list[LockedRun] = field(default_factory=list[LockedRun])
    further: int = 0
    unread: list[InboxEntry] = field(default_factory=list[InboxEntry])
    """Questions of further runs."""

    async def inbox(self, run: str | None = None, *, whole: bool = False) -> InboxContents:
        if run is None:
            return InboxContents(list(self.entries), list(self.locked), self.further)
        found = [one for one in (*self.entries, *self.unread) if one.run == run]
        return InboxContents(found, [one for one in self.locked if one.run == run])
