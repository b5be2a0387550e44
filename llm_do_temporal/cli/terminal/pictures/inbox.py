"""Picture of the inbox on the terminal: the list of what waits, in as many lines and columns as there are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from llm_do_temporal.cli.tables import ago, locked_line
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.client.views.inbox import InboxEntry, LockedRun

_FRAME_LINES = 4
"""Lines around the list: its head, the keys, an empty one, and the cursor's own."""
_MOST_LOCKED = 5
_KEYS = "j/k or arrows: move   Enter or a number: open   g: group   ?: keys   q: leave"
_MEANINGS = (
    ("j k, arrows", "next, previous"),
    ("Enter, 1 2 …", "open the question; after your answer the next one follows"),
    ("u", "take your last answer back, while it has not taken effect"),
    ("g", "decide all questions that are similar to the chosen one, in all runs, after a look at their table"),
    ("?", "this list, away again with any key"),
    ("q", "leave; what waits goes on waiting"),
)
_ALWAYS = ("#", "RUN", "FROM", "ASKED", "UNTIL", "ABOUT")
"""Columns that stand there even where they are empty."""
_SPARE = ("FROM", "ASKED", "TASK", "UNTIL", "RUN")
"""Columns that go where a line is short, the first one first; tasks get shorter, and a run without one keeps its id."""
_ABOUT_CHARS = 34
"""Room for the words about a call before other columns get any."""
_SHORT_TASK_CHARS = 20
_GAP = 2
_TASK_CHARS = 30
"""Beginning of a run's task in the list: enough to know the run by."""


def render_inbox(
    entries: Sequence[InboxEntry],
    row: int,
    now: datetime,
    size: tuple[int, int],
    *,
    locked: Sequence[LockedRun] = (),
    further: int = 0,
) -> RenderableType:
    """Return the list with the entry in `row` chosen, on a screen with a `size` of so many columns and lines.

    Columns that a line has no room for are left out. Tells of `further` runs that wait and were not read.
    """
    width, height = size
    beside = [Text(locked_line(one), no_wrap=True, overflow="ellipsis") for one in locked[:_MOST_LOCKED]]
    if further:
        wait = "run waits" if further == 1 else "runs wait"
        beside.append(Text(f"{further:,} more {wait}; the oldest come first", no_wrap=True, overflow="ellipsis"))
    if not entries:
        return Group(*(beside or [Text("nothing waits for approval")]), Text("q: leave", style="dim"))
    room = max(1, height - _FRAME_LINES - len(beside))
    first = max(0, min(row - room // 2, len(entries) - room))
    similar = Counter(entry.group.key for entry in entries if entry.group is not None)
    rows = [_cells(number, entry, now, similar) for number, entry in enumerate(entries, 1)][first : first + room]
    heads = _fitting(rows, width)
    table = Table.grid(padding=(0, _GAP))
    for head in heads:
        table.add_column(no_wrap=True, overflow="ellipsis", justify="right" if head in ("#", "SIMILAR") else "left")
    table.add_row(*(Text(head, style="bold") for head in heads))
    used = sum(_natural(rows, head) + _GAP for head in heads[:-1])
    for number, cells in enumerate(rows, first):
        cells["ABOUT"] = visible_line(cells["ABOUT"], max(width - used, 1))
        table.add_row(*(Text(cells[head]) for head in heads), style="reverse" if number == row else "")
    hidden = len(entries) - min(room, len(entries))
    more = f"   ({hidden} more)" if hidden else ""
    return Group(table, *beside, Text(f"\n{_KEYS}{more}", style="dim"))


def _fitting(rows: Sequence[dict[str, str]], width: int) -> list[str]:
    """Return the columns that a line of `width` has room for beside the words about each call."""
    heads = [head for head in rows[0] if head in _ALWAYS or any(row[head] for row in rows)]
    for spare in _SPARE:
        used = sum(_natural(rows, head) + _GAP for head in heads[:-1])
        if used + min(_natural(rows, heads[-1]), _ABOUT_CHARS) <= width:
            break
        if spare == "TASK":
            for row in rows:
                row["TASK"] = visible_line(row["TASK"], _SHORT_TASK_CHARS)
        elif any(row["TASK"] for row in rows) or spare != "RUN":
            heads = [head for head in heads if head != spare]
    return heads


def _natural(rows: Sequence[dict[str, str]], head: str) -> int:
    """Return the width of a column that is not cut."""
    return max(cell_len(head), *(cell_len(row[head]) for row in rows))


def render_keys() -> RenderableType:
    """Return the keys of the list and what they do."""
    table = Table.grid(padding=(0, 2))
    for key, meaning in _MEANINGS:
        table.add_row(Text(key, style="bold"), Text(meaning))
    return table


def _cells(number: int, entry: InboxEntry, now: datetime, similar: Mapping[str, int]) -> dict[str, str]:
    agreed = f"{entry.votes} of {entry.quorum} agreed: " if entry.quorum > 1 else ""
    like_it = 0 if entry.group is None else similar[entry.group.key]
    return {
        "#": str(number),
        "RUN": visible_line(f"{entry.run} {entry.id}"),
        "TASK": visible_line(entry.task, _TASK_CHARS),
        "FROM": visible_line(entry.path),
        "ASKED": ago(entry.asked_at, now),
        "UNTIL": "" if entry.deadline is None else _left(entry.deadline, now),
        "SIMILAR": str(like_it) if like_it > 1 else "",
        "ABOUT": visible_line(f"{agreed}{entry.summary}", 400),
    }


def _left(deadline: datetime, now: datetime) -> str:
    """Return the rough time until the deadline; `now` once it has passed."""
    return "now" if deadline <= now else f"in {ago(now, deadline).removesuffix(' ago')}"
