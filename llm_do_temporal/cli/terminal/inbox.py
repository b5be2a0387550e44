"""The inbox on the terminal: open questions of all runs, kept up to date and answered on the spot."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.session import opened
from llm_do_temporal.cli.tables import ago, locked_line
from llm_do_temporal.cli.terminal.ask import Asker, LeaveKey, Parting
from llm_do_temporal.cli.terminal.attend import SIGNALLED, ConnectionLost, while_served
from llm_do_temporal.cli.terminal.prompts import Interrupt, KeyReader, leaving_on_signals, stop
from llm_do_temporal.cli.text import PROGRAM, say, visible_line
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.open_questions import InboxEntry, LockedRun
from llm_do_temporal.environment import undo_seconds
from llm_do_temporal.errors import ConnectionFailed, KeyMismatch, UsageError

REFRESH_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_DRAW_SECONDS = 0.25
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


class Selection:
    """The chosen entry of the list; stays the same while others come and go."""

    def __init__(self) -> None:
        self.row = 0
        self._chosen: tuple[str, str] | None = None
        self._number = 0

    def follow(self, entries: Sequence[InboxEntry]) -> None:
        """Take in the entries as they are now."""
        names = [(entry.run, entry.id) for entry in entries]
        if self._chosen in names:
            self.row = names.index(self._chosen)
        self._choose(min(self.row, len(names) - 1), entries)

    def press(self, key: str, entries: Sequence[InboxEntry]) -> bool:
        """Take in a key; return whether the chosen entry is to be opened."""
        if not entries:
            return False
        number, self._number = self._number, 0
        if key in ("j", "down"):
            self._choose(min(self.row + 1, len(entries) - 1), entries)
        elif key in ("k", "up"):
            self._choose(max(self.row - 1, 0), entries)
        elif len(key) == 1 and key in "0123456789":
            typed = number * 10 + int(key)
            if not 1 <= typed <= len(entries):
                return False
            self._choose(typed - 1, entries)
            self._number = typed
            return typed * 10 > len(entries)
        return key == "enter"

    def _choose(self, row: int, entries: Sequence[InboxEntry]) -> None:
        self.row = max(row, 0)
        self._chosen = (entries[self.row].run, entries[self.row].id) if entries else None


class _Choice(NamedTuple):
    """Entry that a person has chosen, alone or with all that are equal to it."""

    entry: InboxEntry
    is_group: bool = False


class Inbox:
    """Shows the open questions on stderr until the person leaves."""

    def __init__(
        self,
        client: LlmDoClient,
        run: str | None,
        console: Console,
        interrupt: Interrupt,
        *,
        undo_seconds: int = 0,
    ) -> None:
        """Show the questions of `run` only; None shows those of all runs. Answers are held for `undo_seconds`."""
        self._client = client
        self._run = run
        self._console = console
        leave_key = LeaveKey("b", "[b]ack", skips=True)
        self._asker = Asker(client, console, interrupt, leave_key, self._votes_of, self._count, undo_seconds)
        self._explains = False
        self._all: list[InboxEntry] = []
        self._locked: list[LockedRun] = []
        self._further = 0
        self._selection = Selection()

    @property
    def _entries(self) -> list[InboxEntry]:
        return [one for one in self._all if self._asker.wants(one.run, one.id)]

    def _votes_of(self, question: Question) -> int | None:
        return next((one.votes for one in self._all if (one.run, one.id) == (question.run, question.id)), None)

    async def show(self) -> None:
        """Show the list and the questions that are opened. Raises ConnectionFailed."""
        await self.refresh()
        refreshing = asyncio.create_task(self._keep_refreshing())
        showing = asyncio.create_task(self._show())
        try:
            await asyncio.wait({refreshing, showing}, return_when=asyncio.FIRST_COMPLETED)
            for task in (showing, refreshing):
                if task.done():
                    task.result()
        finally:
            await stop(refreshing, showing)

    async def _show(self) -> None:
        chosen = await self._choose()
        while chosen is not None:
            parting = await (self._ask_group(chosen.entry) if chosen.is_group else self._ask(chosen.entry))
            following = None if parting is Parting.LEFT else self._following(is_skipped=parting is Parting.SKIPPED)
            chosen = await self._choose() if following is None else _Choice(following)

    async def _ask(self, entry: InboxEntry) -> Parting:
        """Ask about one question; the next one follows unless it is left for the list."""
        try:
            known = await self._client.questions(entry.run)
        except (UsageError, KeyMismatch) as error:
            self._tell(f"{error.message} {error.next_step or ''}")
            known = []
        else:
            if not any(one.id == entry.id and one.is_open for one in known):
                self._tell(f"{entry.id} of run {entry.run} needs no answer any more")
        question = next((one for one in known if one.id == entry.id and one.is_open), None)
        if question is None:
            self._asker.answered.add((entry.run, entry.id))
            return Parting.SETTLED
        return await self._asker.ask(question, known, others=len(self._entries) - 1)

    async def _ask_group(self, entry: InboxEntry) -> Parting:
        if entry.group is not None:
            await self._asker.ask_group(entry.group.key)
        return Parting.LEFT

    def _following(self, *, is_skipped: bool) -> InboxEntry | None:
        """Return the question after one that was skipped, or in the place of one that was answered; None: no more."""
        entries = self._entries
        self._selection.follow(entries)
        if is_skipped and self._selection.row == len(entries) - 1:
            return None
        if is_skipped:
            self._selection.press("j", entries)
        return entries[self._selection.row] if entries else None

    def _count(self, key: str) -> int:
        return sum(entry.group is not None and entry.group.key == key for entry in self._entries)

    def _tell(self, text: str) -> None:
        self._console.print(Text(visible_line(text)))

    async def _choose(self) -> _Choice | None:
        """Return the entry that the person opens; None if the person leaves."""
        with KeyReader() as keys, Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                entries = self._entries
                self._selection.follow(entries)
                live.update(self.drawn(), refresh=True)
                key = await keys.next(_DRAW_SECONDS)
                if key in ("q", "end"):
                    return None
                if key == "u" and self._asker.undo_offer:
                    await self._asker.take_back(self._tell)
                if key:
                    self._explains = key == "?" and not self._explains
                is_opened = bool(key) and self._selection.press(key, entries)
                if is_opened or (key == "g" and entries):
                    chosen = entries[self._selection.row]
                    return _Choice(chosen, is_group=not is_opened and chosen.group is not None)

    def drawn(self) -> RenderableType:
        """Return the list as it was read last."""
        row, height = self._selection.row, self._console.height
        if self._explains:
            return render_keys()
        locked, further, offer = self._locked, self._further, self._asker.undo_offer
        size = (self._console.width, height - bool(offer))
        drawn = render_inbox(self._entries, row, datetime.now(UTC), size, locked=locked, further=further)
        return Group(drawn, Text(offer, style="dim")) if offer else drawn

    async def _keep_refreshing(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            await self.refresh()

    async def refresh(self) -> None:
        """Read the inbox again. Raises ConnectionFailed."""
        found = await self._client.inbox(self._run)
        self._all, self._locked, self._further = found.entries, found.locked, found.further


def check_terminal(run: str | None) -> None:
    """Raise UsageError if no person at a terminal can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
        words = " ".join(["approvals", *([] if run is None else [run]), "--json"])
        raise UsageError("approvals watch needs a terminal", next_step=f"`{PROGRAM} {words}` lists what waits.")


async def watch_inbox(location: Location, run: str | None) -> int:
    """Show the inbox until the person leaves, and return the exit code."""
    interrupt = Interrupt()
    async with leaving_on_signals(interrupt) as leaving:
        showing = asyncio.create_task(_stay(location, run, interrupt))
        try:
            await asyncio.wait({showing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if showing.done():
                showing.result()
                return 0
            return 0 if interrupt.number is signal.SIGINT else SIGNALLED + interrupt.number
        finally:
            await stop(showing)


async def _stay(location: Location, run: str | None, interrupt: Interrupt) -> None:
    """Show the inbox, connecting again whenever the connection is lost; the first attempt must succeed."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    undo = undo_seconds(os.environ)
    connected = False
    while True:
        try:
            async with opened(location, "decision") as session:
                if run is not None and not connected:
                    await session.client.status(run)
                if connected:
                    say("connected again")
                connected = True
                inbox = Inbox(session.client, run, console, interrupt, undo_seconds=undo)
                await while_served(session, inbox.show())
                return
        except (ConnectionLost, ConnectionFailed) as lost:
            if not connected:
                raise
            say(f"the connection was lost ({visible_line(str(lost), 200)}), connecting again …")
        await asyncio.sleep(_RETRY_SECONDS)


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
