"""Plain tables on stdout: aligned on a terminal, whole in a pipe."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TextIO

from llm_do_temporal.cli.text import value_line, visible_line

if TYPE_CHECKING:
    from llm_do_temporal.client.decisions import OfferedKind
    from llm_do_temporal.client.history.questions import Question
    from llm_do_temporal.client.open_questions import LockedRun

_GAP = "  "
TASK_CHARS = 32
"""Beginning of a run's task in a table: enough to know the run by."""


def width_of(stream: TextIO) -> int | None:
    """Return the width of the terminal that the stream writes to, in columns; None where it is no terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, a row a line; on a terminal lines are cut at its width."""
    print("\n".join(format_table(header, rows, width_of(sys.stdout))), flush=True)


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return the lines of a table, cut at `width` characters; None leaves them whole."""
    table = [[visible_line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = [_GAP.join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in table]
    return lines if width is None else [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]


def questions_table(questions: list[Question], *, has_tasks: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table; deadlines and votes have a column where there are any.

    `has_tasks`: so have tasks.
    """
    columns = {
        "ID": [one.id for one in questions],
        "RUN": [one.run for one in questions],
    }
    if has_tasks and any(one.task for one in questions):
        columns["TASK"] = [visible_line(one.task, TASK_CHARS) for one in questions]
    columns |= {
        "PATH": [one.request.place for one in questions],
        "TOOL": [one.request.tool for one in questions],
        "ASKED": [ago(one.asked_at) for one in questions],
    }
    if any(one.deadline for one in questions):
        columns["DEADLINE"] = [ahead(one.deadline) if one.deadline else "" for one in questions]
    if any(one.request.quorum > 1 for one in questions):
        columns["VOTES"] = [f"{len(one.votes)} of {one.request.quorum}" for one in questions]
    columns["SUMMARY"] = [one.request.summary for one in questions]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def kind_lines(offers: Iterable[OfferedKind]) -> list[str]:
    """Return numbered lines for the kinds, with the calls that each would have covered."""
    lines: list[str] = []
    for number, offer in enumerate(offers, 1):
        lines.append(f"{number}  {value_line(offer.kind.sentence)}: {offer.so_far}")
        for one in offer.covered:
            state = "waits" if one.verdict is None else one.verdict.decision.done
            lines.append(f"     {one.id}  {state}  {value_line(one.request.summary, 200)}")
    return lines


def locked_line(locked: LockedRun) -> str:
    """Return the line for a run that cannot be read, since its encryption key is missing here."""
    waits = "may wait" if locked.waiting is None else f"waits for approval ({locked.waiting})"
    return visible_line(f"run {locked.run} {waits}, and cannot be read: its key '{locked.missing_key}' is missing here")


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Return the rough time since `moment`, like `5m ago`."""
    return f"{rough((now or datetime.now(UTC)) - moment)} ago"


def ahead(moment: datetime, now: datetime | None = None) -> str:
    """Return the rough time until `moment`, like `in 5m`."""
    return f"in {rough(moment - (now or datetime.now(UTC)))}"


def clock(seconds: float) -> str:
    """Return a length of time as a clock shows it: `1:05` for 65 seconds, with hours where there are any."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def rough(time: timedelta) -> str:
    """Return a length of time in its largest unit, like `5m`."""
    seconds = max(0, int(time.total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
