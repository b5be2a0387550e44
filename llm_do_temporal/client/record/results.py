"""Results of a run as rows: one for each item of a batch, or one for any other run.

They are read from the run's own history, which has the end of each item: no listing is asked, which may be a moment
late, and no history of an item.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.client.history.events import ENDS, read_chain
from llm_do_temporal.client.history.payloads import as_object
from llm_do_temporal.client.record.facts import RunFacts, facts_at_start
from llm_do_temporal.client.record.tables import ResultRow, csv_text
from llm_do_temporal.client.views.items import Item, results_of
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.messages.batches import item_path
from llm_do_temporal.messages.runs import first_line
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE

_NOT_HERE = "what the run was given is kept in the blob store of its workshop, which is not at hand here"


@dataclass
class ShownResult:
    """Result of an item, or of a run without items."""

    item: Item
    files: tuple[str, ...]
    """Names of the files that it was given besides those of a batch; of a run without items, all of its files."""
    given: Any
    """Prompt, or typed input; None without one."""
    started_at: datetime | None = None
    seconds: float | None = None
    """Seconds from its start to its end; None: it has not begun, or has not ended."""

    @property
    def words(self) -> str:
        """The output as text, of a structured one the plain fields, the short ones first; or the error in its place."""
        if self.item.error is not None:
            return str(self.item.error["message"])
        fields = as_object(self.item.output)
        plain = sorted((f"{name}: {_text(one)}" for name, one in fields.items() if _is_plain(one)), key=len)
        return " · ".join(plain) or _text(self.item.output)

    def take(self, event: HistoryEvent) -> None:
        """Take in an event of the item: its start, or its end."""
        at = event.event_time.ToDatetime()
        if self.item.take_end(event):
            self.seconds = None if self.started_at is None else round((at - self.started_at).total_seconds(), 3)
        elif self.started_at is None:
            self.started_at = at

    def as_row(self, run: str) -> ResultRow:
        """Return its row in a table."""
        item, usage = self.item, self.item.usage
        lead = {"item": item.name, "file": "\n".join(self.files), "given": self.given, "status": item.status}
        error = item.error or {}
        tail = {
            "error": ": ".join(str(error[part]) for part in ("code", "message") if error.get(part)),
            "truncated": item.truncated,
            "input_tokens": None if item.is_open else usage.input_tokens,
            "output_tokens": None if item.is_open else usage.output_tokens,
            "cost_usd": None if usage.cost_usd is None else float(usage.cost_usd),
            "seconds": self.seconds,
            "run": run,
            "path": item.path,
        }
        return ResultRow(lead, item.output, {}, tail)


def _is_plain(value: Any) -> bool:
    return value is not None and not isinstance(value, dict | list)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def results_csv(run: str, results: Sequence[ShownResult]) -> str:
    """Return the results as CSV."""
    return csv_text([result.as_row(run) for result in results])


async def read_results(client: Client, run: str) -> list[ShownResult]:
    """Return the results of a run, in the order of its items.

    Raises RPCError, KeyMismatch, and UsageError where the values of the run are kept in a blob store that is not here.
    """
    results: dict[str, ShownResult] = {}
    is_batch = False
    async for event in read_chain(client, run, None, wait=False):
        if event.HasField("workflow_execution_started_event_attributes") and not is_batch:
            facts = facts_at_start(event)
            if facts.prompt == KEPT_OUTSIDE:
                raise UsageError(_NOT_HERE, next_step="Name the workshop with --workshop DIR, where its blob store is.")
            is_batch = bool(facts.items)  # a run that reads its items itself goes on as new with them
            results = _of_items(run, facts) if is_batch else results or _of_run(run, facts)
        found = results.get(_workflow_of(event) or ("" if is_batch else run))
        if found is not None:
            found.take(event)
        if is_batch and event.event_type in ENDS:
            _take_outcomes(list(results.values()), event)
    return list(results.values())


def _of_run(run: str, facts: RunFacts) -> dict[str, ShownResult]:
    files = tuple(file.path for file in facts.attachments)
    return {run: ShownResult(Item(first_line(facts.prompt) or run, ENTRY_PATH), files, facts.prompt or facts.input)}


def _of_items(run: str, facts: RunFacts) -> dict[str, ShownResult]:
    results: dict[str, ShownResult] = {}
    for number, given in enumerate(facts.items, 1):
        item = Item(given.name, item_path(number))
        if given.unusable:
            item.fail("UsageError", given.unusable)
        # Of a file that cannot be used there is no attachment; the item has its name.
        named = [given.name.rpartition("/")[2]] if given.unusable else []
        files = tuple(named or [file.path for file in given.attachments])
        results[f"{run}/{item.path}"] = ShownResult(item, files, given.prompt or given.input)
    return results


def _workflow_of(event: HistoryEvent) -> str:
    """Return the workflow of the callee that an event is about; empty for an event of the run itself."""
    attributes = getattr(event, event.WhichOneof("attributes") or "", None)
    is_child = (event.WhichOneof("attributes") or "").startswith("child_workflow_execution_")
    return str(attributes.workflow_execution.workflow_id) if is_child and attributes is not None else ""


def _take_outcomes(results: Sequence[ShownResult], completed: HistoryEvent) -> None:
    """Take in the end of the run for items that never became workflows, or whose history is no longer kept."""
    for result, outcome in zip(results, results_of(completed), strict=False):
        if result.item.is_open:
            result.item.take_result(outcome)
            result.item.status = outcome.status
