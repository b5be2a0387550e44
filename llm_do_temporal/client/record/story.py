"""Story of a run, taken while its histories are read for something else: what it was given, its end, its files."""

from __future__ import annotations

from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.events import ENDS
from llm_do_temporal.client.record.facts import RunFacts, facts_at_end, facts_at_start
from llm_do_temporal.client.record.files import FileReader, WrittenFile, last_written
from llm_do_temporal.messages.base import ENTRY_PATH


class Story:
    """Takes the events of a run and of its invocations, as a tap of a follower does."""

    def __init__(self, run: str) -> None:
        self.facts = RunFacts()
        self._run = run
        self._files: dict[str, FileReader] = {}

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        """The files that all invocations have written so far."""
        return last_written([file for reader in self._files.values() for file in reader.found])

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
