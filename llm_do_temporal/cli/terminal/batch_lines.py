"""Lines on stderr about a run that no screen shows: its progress, and a table of a batch's items at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from llm_do_temporal.cli.tables import format_table, width_of
from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.client.views.items import COLUMNS, item_rows, progress_of
from llm_do_temporal.client.views.run_view import RunView

EVERY_SECONDS = 10
"""Shortest time between two lines about progress."""
_ERROR_CHARS = 200
_WORK_CHARS = 100
_MOST_BUSY = 3
"""Invocations that a line names at most."""


class ProgressLines:
    """Prints a line when items have ended, and not more often than every EVERY_SECONDS."""

    def __init__(self, *, enabled: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._enabled = enabled
        self._clock = clock
        self._printed_at = clock()

    def tell(self, view: RunView) -> None:
        """Print the progress of a batch that is under way, if it is time to."""
        if not self._enabled or self._clock() < self._printed_at + EVERY_SECONDS:
            return
        progress = progress_of(view, datetime.now(UTC).replace(tzinfo=None))
        if progress is not None and progress.is_open:
            self._printed_at = self._clock()
            say(progress.line)


class WorkLines:
    """Prints a line about the work of a run that is no batch when that changes, at most every EVERY_SECONDS."""

    def __init__(self, *, enabled: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._enabled = enabled
        self._clock = clock
        self._printed_at = clock() - EVERY_SECONDS
        self._printed = ""

    def tell(self, view: RunView) -> None:
        """Print the work that is under way, if it is another than before and it is time to."""
        if not self._enabled or view.counts is not None or view.status != "running":
            return
        line, now = _work_line(view), self._clock()
        if line and line != self._printed and now >= self._printed_at + EVERY_SECONDS:
            self._printed, self._printed_at = line, now
            say(line)


def _work_line(view: RunView) -> str:
    """Return the work of the invocations that do something now; empty where none does."""
    busy = [node for node in view.ordered if node.status == "running" and node.doing]
    parts = [
        f"{visible_line(node.path, _WORK_CHARS)}: turn {node.turns + node.is_thinking}, "
        + visible_line(next(iter(node.doing.values())), _WORK_CHARS)
        for node in busy[:_MOST_BUSY]
    ]
    more = len(busy) - len(parts)
    return " · ".join([*parts, *([f"and {more} more"] if more else [])])


def summary_lines(view: RunView, width: int | None) -> list[str]:
    """Return the table of a batch's items, cut at `width` characters; None leaves it whole. Nothing for other runs."""
    if not view.items:
        return []
    rows, left_out = item_rows(view)
    cells = [(*row.cells[:-1], visible_line(row.error, _ERROR_CHARS)) for row in rows]
    lines = format_table(COLUMNS, cells, width) if cells else []
    if left_out:
        what = "items" if left_out != 1 else "item"
        lines.append(f"and {left_out:,} more {what}: `show` has them all")
    return lines


def say_summary(view: RunView) -> None:
    """Print the table on stderr, with the progress of the whole below it."""
    for line in summary_lines(view, width_of(sys.stderr)):
        say(line)
    progress = progress_of(view, datetime.now(UTC).replace(tzinfo=None))
    if progress is not None:
        say(progress.line)
