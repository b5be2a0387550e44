"""Items of a batch: their outcomes, as the histories of its run tell them, and how fast they end."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.events import ending, read_start
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.runs import BatchItem, ItemCounts, ItemResult, item_of, item_path
from llm_do_temporal.policy.models import cut_reason

if TYPE_CHECKING:
    from llm_do_temporal.client.views.run_view import RunView

_OPEN = "not done"
_RESULTS = TypeAdapter(tuple[ItemResult, ...])
MOST_ROWS = 30
"""Items that a summary lists; of more, those with no result."""


@dataclass
class Item:
    """Item of a batch, as far as the histories tell."""

    name: str
    path: str
    status: str = _OPEN
    """`completed`, `failed`, `cancelled`, or `not done`."""
    output: Any = None
    error: dict[str, Any] | None = None
    """`code`, `message` and `next`, like the error of a run."""
    truncated: str | None = None
    """Reason why its answer was cut; None: it was not."""
    usage: Usage = field(default_factory=Usage)
    """Usage of the item's worker and everything below it."""

    @classmethod
    def of(cls, given: BatchItem, number: int) -> Item:
        """Return the item with this number, from 1, as it begins; one that cannot be used has failed."""
        item = cls(given.name, item_path(number))
        if given.unusable:
            item.fail(UsageError.__name__, given.unusable)
        return item

    @property
    def is_open(self) -> bool:
        """Whether the item has no outcome yet."""
        return self.status == _OPEN

    def take_end(self, event: HistoryEvent) -> bool:
        """Take in how the item's workflow ended, by its own last event or by that of the run; False for any other."""
        end = ending(event)
        if end is None:
            return False
        if end.status == "failed":
            code = end.failure.application_failure_info.type or "RunFailed"
            self.fail(code, end.failure.message, end.told.get("next_step"))
        elif end.status in ("completed", "cancelled"):
            self.status = end.status
        else:
            self.fail("RunFailed", "it was terminated")
        self.output, self.truncated = end.output, cut_reason(end.told.get("truncated"))
        self.usage = end.usage or Usage()
        return True

    def take_result(self, result: ItemResult) -> bool:
        """Take in the run's result for an item that never became a workflow; False where there is nothing new."""
        if not self.is_open or result.status != "failed":
            return False
        self.fail(result.code or "RunFailed", result.message or "")
        return True

    def as_json(self) -> dict[str, Any]:
        """Return the object that stands for the item in results."""
        counts = {"requests", "tool_calls", "input_tokens", "output_tokens"}
        guess = {"estimated_requests": self.usage.estimated} if self.usage.estimated else {}
        cost = None if self.usage.cost_usd is None else float(self.usage.cost_usd)
        return {
            "item": self.name,
            "path": self.path,
            "status": self.status,
            "output": self.output,
            **({} if self.truncated is None else {"truncated": self.truncated}),
            "error": self.error,
            "usage": self.usage.model_dump(include=counts) | guess,
            "cost_usd": cost,
            "unpriced_models": list(self.usage.unpriced),
        }

    def fail(self, code: str, message: str, next_step: Any = None) -> None:
        """Note that it failed."""
        self.status, self.error = "failed", {"code": code, "message": message, "next": next_step}


def counts_of(items: Collection[Item], status: str) -> ItemCounts | None:
    """Return the counts of a batch's items; None without any, as in any other run.

    Once the run itself has completed, as its `status` says, whatever has no result counts as failed.
    """
    if not items:
        return None
    statuses = [item.status for item in items]
    completed, failed = statuses.count("completed"), statuses.count("failed")
    if status == "completed":
        failed = len(statuses) - completed
    return ItemCounts(total=len(statuses), completed=completed, failed=failed)


def with_counts(status: str, counts: ItemCounts | None) -> str:
    """Return the status of a run; of a batch with its counts, like `completed, 1 of 4 failed`."""
    return status if counts is None else counts.with_state(status)


def failed_items(items: Iterable[Item]) -> list[str]:
    """Return the names of a completed batch's items that have no result, in their order."""
    return [item.name for item in items if item.status != "completed"]


def items_of(run: str, started: HistoryEvent) -> dict[str, Item]:
    """The items of a run by the ids of their workflows; none for a run without a batch."""
    batch = read_start(started.workflow_execution_started_event_attributes.input.payloads).batch
    given = () if batch is None else batch.items
    return {f"{run}/{item_path(number)}": Item.of(one, number) for number, one in enumerate(given, 1)}


def results_of(completed: HistoryEvent) -> tuple[ItemResult, ...]:
    """Return the outcomes of the items in the result of a completed run; none where they cannot be read."""
    end = ending(completed)
    try:
        return () if end is None else _RESULTS.validate_python(end.told.get("items") or ())
    except ValidationError:
        return ()


@dataclass(frozen=True)
class BatchProgress:
    """Progress of a batch at one moment."""

    counts: ItemCounts
    ended: int
    """Items with an outcome, whatever it is."""
    elapsed: timedelta
    """Time from the start of the run to its end, or to now."""
    cost_usd: Decimal | None
    is_open: bool
    waiting: int
    """Items whose questions wait for a person."""

    @property
    def per_minute(self) -> float | None:
        """Items that ended in a minute, on average over the run; None before the first has."""
        seconds = self.elapsed.total_seconds()
        return self.ended * 60 / seconds if self.ended and seconds > 0 else None

    @property
    def left(self) -> timedelta | None:
        """Time that the other items take at this rate; None where no rate is known, or the run has ended."""
        if self.per_minute is None or not self.is_open:
            return None
        return timedelta(minutes=(self.counts.total - self.ended) / self.per_minute)

    @property
    def line(self) -> str:
        """The progress in words, on one line."""
        parts = [f"{self.ended}/{self.counts.total} items"]
        if self.counts.failed:
            parts.append(f"{self.counts.failed} failed")
        if self.waiting:
            parts.append(f"{self.waiting} waiting for a person")
        if self.per_minute is not None:
            parts.append(f"{self.per_minute:.1f} a minute")
        if self.left is not None:
            parts.append(f"about {_rough(self.left)} left")
        if self.cost_usd is not None:
            parts.append(_money(self.cost_usd))
        return " · ".join(parts)


COLUMNS = ("ITEM", "STATE", "TIME", "TURNS", "TOKENS", "COST", "ERROR")
"""Titles of the cells of a summary's rows."""


def progress_of(view: RunView, now: datetime) -> BatchProgress | None:
    """Return the progress of a batch; None for any other run. `now` is UTC without a zone, as in histories."""
    if view.counts is None:
        return None
    ended = sum(not item.is_open for item in view.items.values())
    elapsed = timedelta() if view.started_at is None else (view.ended_at or now) - view.started_at
    waiting = len({item_of(question.path) for question in view.pending})
    return BatchProgress(view.counts, ended, elapsed, view.usage.cost_usd, view.status == "running", waiting)


def item_rows(view: RunView) -> tuple[list[tuple[str, ...]], int]:
    """Return the rows of a summary, and how many items are in none: of more than MOST_ROWS, those that completed."""
    everything = list(view.items.items())
    wanted = [(workflow_id, item) for workflow_id, item in everything if item.status != "completed"]
    shown = everything if len(everything) <= MOST_ROWS else wanted[:MOST_ROWS]
    rows: list[tuple[str, ...]] = []
    for workflow_id, item in shown:
        node = view.nodes.get(workflow_id)
        begun, ended = (None, None) if node is None else (node.started_at, node.ended_at)
        usage = item.usage if node is None else view.total_of(node)
        tokens = usage.input_tokens + usage.output_tokens
        took = "" if begun is None or ended is None else _rough(ended - begun)
        turns, spent = str(usage.requests or ""), f"{tokens:,}" if tokens else ""
        cost = "" if usage.cost_usd is None else _money(usage.cost_usd)
        error = "" if item.error is None else str(item.error["message"])
        rows.append((item.name, item.status, took, turns, spent, cost, error))
    return rows, len(everything) - len(shown)


def _money(amount: Decimal) -> str:
    """Return an amount of US dollars; `free` for nothing."""
    return f"${amount:,.4f}" if amount else "free"


def _rough(time: timedelta) -> str:
    """Return a length of time as people say it, like `45 s`, `4 min` or `2 h 10 min`."""
    seconds = max(0, round(time.total_seconds()))
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
