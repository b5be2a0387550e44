"""Story of a run, taken while its histories are read for something else: what it was given, its end, its files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.desk_news import news_at_desk
from llm_do_temporal.client.history.events import ENDS
from llm_do_temporal.client.record.facts import RunFacts, facts_at_end, facts_at_start
from llm_do_temporal.client.record.files import FileReader, WrittenFile, last_written
from llm_do_temporal.messages.approvals import Verdict
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.messages.effects import HoldNews, UndoNews


@dataclass(frozen=True)
class TakenBack:
    """Decision that was taken back before it took effect."""

    id: str
    """Id of the approval."""
    decision: str
    by: str
    at: datetime
    """Time at which it was taken back."""


class Story:
    """Takes the events of a run and of its invocations, as a tap of a follower does."""

    def __init__(self, run: str) -> None:
        self.facts = RunFacts()
        self.taken_back: list[TakenBack] = []
        self._held: dict[str, Verdict] = {}
        """Decisions that were held last, by the id of the approval."""
        self._run = run
        self._files: dict[str, FileReader] = {}

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        """The files that all invocations have written so far."""
        return last_written([file for reader in self._files.values() for file in reader.found])

    @property
    def more_files(self) -> int:
        """Number of files that reviews have made besides these, and that the histories do not name."""
        return sum(reader.more for reader in self._files.values())

    def take(self, workflow_id: str, event: HistoryEvent) -> None:
        """Take in the next event of the workflow with this id."""
        path = workflow_id.removeprefix(f"{self._run}/") if workflow_id != self._run else ENTRY_PATH
        self._files.setdefault(workflow_id, FileReader(path)).take(event)
        if workflow_id != self._run:
            return
        if event.HasField("workflow_execution_started_event_attributes"):
            self.facts = facts_at_start(event)
        elif event.event_type in ENDS:
            self.facts = facts_at_end(self.facts, event)
        else:
            self._take_news(event)

    def _take_news(self, event: HistoryEvent) -> None:
        news = news_at_desk(event)
        if news is None or news.is_outside or news.kind not in ("held", "undone"):
            return
        try:
            if news.kind == "held":
                hold = HoldNews.model_validate(news.value)
                self._held[hold.id] = hold.held.vote
                return
            undo = UndoNews.model_validate(news.value)
        except ValidationError:
            return
        vote = self._held.pop(undo.id, None)
        if vote is not None:
            self.taken_back.append(TakenBack(undo.id, vote.decision.value, vote.by, undo.at))
