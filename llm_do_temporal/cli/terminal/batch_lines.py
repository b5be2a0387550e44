"""Lines about a batch on stderr: its progress where no screen shows it, and a table of its items at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from llm_do_temporal.cli.tables import format_table, width_of
from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.client.batch_progress import COLUMNS, item_rows, progress_of
from llm_do_temporal.client.views.run_view import RunView

EVERY_SECONDS = 10
"""Shortest time between two lines about progress."""
_ERROR_CHARS = 200


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
