"""Progress of a batch: how many items have ended, how fast they end, and how long the rest may take.

Pure: computed from the view of a run and the time. Shown by the terminal while a run is watched and once it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from llm_do_temporal.client.views.items import Item
from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.messages.batches import ItemCounts, item_of

MOST_ROWS = 30
"""Items that a summary lists; of more, those with no result."""


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


@dataclass(frozen=True)
class ItemRow:
    """Item of a batch as a summary lists it, in words."""

    name: str
    state: str
    took: str
    turns: str
    tokens: str
    cost: str
    error: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table with the columns COLUMNS."""
        return (self.name, self.state, self.took, self.turns, self.tokens, self.cost, self.error)


COLUMNS = ("ITEM", "STATE", "TIME", "TURNS", "TOKENS", "COST", "ERROR")


def progress_of(view: RunView, now: datetime) -> BatchProgress | None:
    """Return the progress of a batch; None for any other run. `now` is UTC without a zone, as in histories."""
    if view.counts is None:
        return None
    ended = sum(not item.is_open for item in view.items.values())
    elapsed = timedelta() if view.started_at is None else (view.ended_at or now) - view.started_at
    waiting = len({item_of(question.path) for question in view.pending})
    return BatchProgress(view.counts, ended, elapsed, view.usage.cost_usd, view.status == "running", waiting)


def item_rows(view: RunView) -> tuple[list[ItemRow], int]:
    """Return the rows of a summary, and how many items are in none: of more than MOST_ROWS, those that completed."""
    everything = list(view.items.items())
    wanted = [(workflow_id, item) for workflow_id, item in everything if item.status != "completed"]
    shown = everything if len(everything) <= MOST_ROWS else wanted[:MOST_ROWS]
    return list(_rows(view, shown)), len(everything) - len(shown)


def _rows(view: RunView, shown: list[tuple[str, Item]]) -> Iterator[ItemRow]:
    for workflow_id, item in shown:
        node = view.nodes.get(workflow_id)
        begun, ended = (None, None) if node is None else (node.started_at, node.ended_at)
        usage = item.usage if node is None else view.total_of(node)
        tokens = usage.input_tokens + usage.output_tokens
        yield ItemRow(
            name=item.name,
            state=item.status,
            took="" if begun is None or ended is None else _rough(ended - begun),
            turns=str(usage.requests) if usage.requests else "",
            tokens=f"{tokens:,}" if tokens else "",
            cost="" if usage.cost_usd is None else _money(usage.cost_usd),
            error="" if item.error is None else str(item.error["message"]),
        )


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
