"""Beginnings of invocations: the event of a workflow's history with which its invocation begins, and its start.

Owns the difference between the entry invocation, which runs in the workflow of its run and begins once its worker is
loaded, and every other one, which begins with its workflow. Readers of histories see the same start either way: the
input of `LlmDoWorker`, as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from temporalio.api.common.v1 import Memo, Payload
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.local_activities import local_effect
from llm_do_temporal.client.history.payloads import as_object, decode_json, first_object
from llm_do_temporal.desk.entry import entry_invocation
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.activities import LOAD_RUN
from llm_do_temporal.messages.base import INVOCATION_MEMO, RUN_WORKFLOW
from llm_do_temporal.messages.effects import LoadedRun
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.storage.external_storage import is_kept_outside


@dataclass(frozen=True)
class Beginning:
    """Beginning of an invocation, or of a later run of its workflow."""

    given: dict[str, Any]
    """The invocation's start, an InvokeWorkerInput as JSON; the facts of its memo where that is out of reach."""
    before: str | None = None
    """The run of the workflow that is continued; None where the invocation is new."""
    is_outside: bool = False
    """Whether the start is kept outside of the history, and not at hand."""

    @property
    def continued(self) -> dict[str, Any]:
        """The state that the invocation goes on from, as JSON; empty for a new one."""
        return as_object(self.given.get("continued"))


class Beginnings:
    """Finds the beginnings in the events of one workflow, given in their order."""

    def __init__(self) -> None:
        self.is_entry = False
        """Whether it is the workflow of a run, whose invocation, if it has one, is the entry invocation."""
        self._loading: HistoryEvent | None = None
        """The start of a run whose entry worker is not loaded yet."""
        self._loads: set[int] = set()

    def take(self, event: HistoryEvent) -> Beginning | None:
        """Return the beginning that the next event makes; None for other events."""
        if event.HasField("workflow_execution_started_event_attributes"):
            return self._started(event)
        if self._loading is None:
            return None
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_type.name == LOAD_RUN.name:
            self._loads.add(event.event_id)
        loaded = self._loaded(event)
        if loaded is not None and not any(map(is_kept_outside, (*loaded, *_input(self._loading)))):
            return self._entered(self._loading, decode_json(loaded[0]) if loaded else None)
        told = told_in(event.workflow_properties_modified_event_attributes.upserted_memo)
        if not told:
            return None
        self._loading = None
        return Beginning(told, is_outside=True)

    def _started(self, event: HistoryEvent) -> Beginning | None:
        started = event.workflow_execution_started_event_attributes
        self.is_entry = started.workflow_type.name == RUN_WORKFLOW
        self._loading, self._loads = None, set()
        given, before = first_object(started.input.payloads), started.continued_execution_run_id or None
        if self.is_entry and (before is None or (given and not given.get("continued"))):
            # A run that has read what it is given goes on as new, and loads its worker again.
            self._loading = event
            return None
        if self.is_entry:
            continued = as_object(given.get("continued"))
            if given and (continued.get("batch") or not continued):
                return None
            given = as_object(continued.get("entry"))
        is_outside = any(map(is_kept_outside, started.input.payloads))
        return Beginning(given or told_in(started.memo), before, is_outside)

    def _loaded(self, event: HistoryEvent) -> Sequence[Payload] | None:
        """Return the result of the loading of the entry worker, where this event has it."""
        local = local_effect(event)
        if local is not None and local.activity == LOAD_RUN.name and local.failure is None:
            return local.result
        completed = event.activity_task_completed_event_attributes
        return completed.result.payloads if completed.scheduled_event_id in self._loads else None

    def _entered(self, started: HistoryEvent, loaded: Any) -> Beginning | None:
        """Return the beginning of the entry invocation; None for a batch, and where the run is refused."""
        self._loading = None
        run, at = started.workflow_execution_started_event_attributes.workflow_id, _moment(started)
        try:
            start = StartRunInput.model_validate(decode_json(_input(started)[0]))
            if start.batch is not None or start.reads is not None:
                return None
            entry = entry_invocation(run, start, LoadedRun.model_validate(loaded), started_at=at)
        except (LlmDoError, ValidationError, IndexError):
            return None
        return Beginning(entry.model_dump(mode="json"))


def told_in(memo: Memo) -> dict[str, Any]:
    """Return the memo's facts of an invocation; empty where it has none."""
    return first_object([memo.fields[INVOCATION_MEMO]]) if INVOCATION_MEMO in memo.fields else {}


def _input(started: HistoryEvent) -> Sequence[Payload]:
    return started.workflow_execution_started_event_attributes.input.payloads


def _moment(event: HistoryEvent) -> datetime:
    return event.event_time.ToDatetime(UTC)
