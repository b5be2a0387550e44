"""Staying with a run until it ends, waits for a person, or is left: the common part of `start`, `watch` and `result`.

Owns reconnecting and the three ways to stay: with a live screen, without a terminal, and waiting to the end. A run that
no screen shows has lines on stderr about its progress, and a table of the items of a batch at the end. Watching never
harms a run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NoReturn, TypeVar

from temporalio.client import WorkflowFailureError
from temporalio.service import RPCError

from llm_do_temporal.callers import PASSING_STATUSES
from llm_do_temporal.cli.options import Location, OutputFormat
from llm_do_temporal.cli.output import WAITING, EventLines, ItemLines, RunOutcome, failure, report, seen_of
from llm_do_temporal.cli.session import Session, opened
from llm_do_temporal.cli.tables import format_table, width_of
from llm_do_temporal.cli.terminal.last_shown import ShownQuestion, note_shown
from llm_do_temporal.cli.terminal.prompts import Interrupt, leaving_on_signals, stop
from llm_do_temporal.cli.terminal.recorder import NOTHING, Recorder, Recording
from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.client.client import Question
from llm_do_temporal.client.connections import is_missing
from llm_do_temporal.client.embedded.server import host_failure, running_host
from llm_do_temporal.client.views.follower import EventSequence, Follower
from llm_do_temporal.client.views.pending_work import note_troubles
from llm_do_temporal.client.views.run_view import (
    COLUMNS,
    RunView,
    ViewEvent,
    failed_items,
    item_rows,
    progress_of,
    with_counts,
)
from llm_do_temporal.errors import ConnectionFailed, ItemsFailed, LlmDoError, UsageError
from llm_do_temporal.extension import view_of

DEFAULT_ADDRESS = "127.0.0.1:7233"
TIMED_OUT = 6
SIGNALLED = 128
"""Added to the number of a signal to get the exit code, as shells do."""
_RETRY_SECONDS = 1.0
_GUARD_SECONDS = 1.0
_TROUBLE_SECONDS = 3.0
_TELL_SECONDS = 0.1
_NAMED_ITEMS = 10
"""Failed items that an error names at most."""
SETTLE_SECONDS = 2.0
"""Longest wait for the other questions of a turn, or for the last news of children, before going on without."""
T = TypeVar("T")
Stay = Literal["live", "until_question", "until_end"]
EVERY_SECONDS = 10
"""Shortest time between two lines about progress."""
_ERROR_CHARS = 200
_WORK_CHARS = 100
_MOST_BUSY = 3
"""Invocations that a line names at most."""


@dataclass(frozen=True)
class AttendOptions:
    """Options of a stay with a run."""

    stay: Stay
    output: OutputFormat = "text"
    timeout: float | None = None
    recording: Recording = NOTHING
    from_seq: int = 1
    """Number of the first event that is printed, if events are."""


class ConnectionLost(Exception):
    """Loss of the server while a run was followed; the message says how."""


def choose_stay(output: OutputFormat, recording: Recording = NOTHING) -> Stay:
    """Return `live` if a person at a terminal reads stderr and can be asked; else a way to stay that never asks."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "until_question"
    # Lines of events on the same terminal would run through the screen.
    if recording.log_events or (output == "jsonl" and sys.stdout.isatty()):
        return "until_question"
    # A background job that reads the terminal is stopped by it.
    return "live" if os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp() else "until_question"


async def attend(location: Location, run: str, options: AttendOptions) -> int:
    """Stay with the run as `options` say, print its outcome, and return the exit code."""
    interrupt = Interrupt()
    session = _RunSession(location, run, options, interrupt)
    async with leaving_on_signals(interrupt) as leaving:
        following = asyncio.create_task(session.follow())
        try:
            await asyncio.wait({following, leaving}, timeout=options.timeout, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                outcome = following.result()
            else:
                await stop(following)
                outcome = session.left(timed_out=not interrupt.happened.is_set())
        except LlmDoError as error:
            outcome = failure(error, run=run)
        finally:
            session.recorder.close()
    return report(outcome, options.output)


class _RunSession:
    """Stay with a run over as many connections as it takes."""

    def __init__(self, location: Location, run: str, options: AttendOptions, interrupt: Interrupt) -> None:
        self._location = location
        self._run = run
        self._options = options
        self._interrupt = interrupt
        self._lines = EventLines(enabled=options.output == "jsonl", from_seq=options.from_seq)
        self._items = ItemLines(enabled=options.output == "text")
        self._progress = ProgressLines(enabled=options.stay != "live")
        is_piped = options.stay == "until_question" and options.output == "text"
        self._work = WorkLines(enabled=is_piped and not options.recording.log_events)
        self.recorder = Recorder(options.recording, run, location)
        self._both = [lines for lines in (self._lines, self.recorder.lines) if lines.enabled]
        self._view: RunView | None = None

    async def follow(self) -> RunOutcome:
        """Follow the run to its outcome, connecting again whenever the connection is lost."""
        reason = ""
        while True:
            try:
                async with opened(self._location, "decision") as session:
                    await session.client.status(self._run)
                    if reason:
                        say("connected again")
                        reason = ""
                    return await self._over(session)
            except (ConnectionLost, ConnectionFailed) as lost:
                if self._view is None:
                    raise
                if not reason:
                    reason = visible_line(str(lost), 200)
                    say(f"the connection was lost ({reason}); the run goes on, connecting again …")
            await asyncio.sleep(_RETRY_SECONDS)

    def left(self, *, timed_out: bool) -> RunOutcome:
        """Return the outcome of a stay that ends before the run, and print the command to come back."""
        again = self._location.command(f"watch {self._run}")
        if timed_out:
            say(f"no result after {self._options.timeout:g} s; run {self._run} goes on; {again}")
            code = TIMED_OUT
        else:
            say(f"run {self._run} goes on; {again}")
            number = self._interrupt.number
            at_terminal = self._options.stay == "live" and number is signal.SIGINT
            code = 0 if at_terminal else SIGNALLED + number
        return RunOutcome(self._run, "running", exit_code=code, **seen_of(self._view))

    async def _over(self, session: Session) -> RunOutcome:
        """Follow the run over one connection. Raises ConnectionLost."""
        self.recorder.begin(session)
        follower = Follower(session.client.temporal, self._run, wait=True, tap=self.recorder.take)
        self._view = follower.view
        news, sequence = asyncio.Event(), EventSequence(session.client.temporal, follower)
        pump = asyncio.create_task(self._pump(follower, sequence, news))
        front = asyncio.create_task(self._front(session, follower.view, news))
        troubles = asyncio.create_task(self._note_troubles(session, follower.view))
        telling = asyncio.create_task(self._keep_telling(sequence))
        tasks: set[asyncio.Task[Any]] = {pump, front, troubles, telling, asyncio.create_task(_guard(session))}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if front in done:
                await stop(telling)
                self._tell(await sequence.settled())
                return front.result()
            for task in done:
                task.result()
        except RPCError as error:
            raise explained(error, self._run) from error
        finally:
            await stop(*tasks)
        self._tell(sequence.rest())
        if follower.view.status != "running":
            # The last news of children may not have been waited for.
            await self.recorder.catch_up(session)
        return await self._ended(session, follower.view)

    async def _pump(self, follower: Follower, sequence: EventSequence, news: asyncio.Event) -> None:
        events = follower.events()
        while True:
            patience = None if follower.view.status == "running" else SETTLE_SECONDS
            try:
                async with asyncio.timeout(patience):
                    event = await anext(events)
            except (StopAsyncIteration, TimeoutError):
                return
            if self._both:
                sequence.take(event)
            if event.type.startswith("item.") and self._options.stay != "live":
                self._items.tell(follower.view)
                self._progress.tell(follower.view)
            self._work.tell(follower.view)
            news.set()

    async def _keep_telling(self, sequence: EventSequence) -> None:
        for lines in self._both:
            lines.begin_reading()
        while True:
            self._tell(await sequence.settled())
            await asyncio.sleep(_TELL_SECONDS)

    def _tell(self, events: list[ViewEvent]) -> None:
        for event in events:
            for lines in self._both:
                lines.tell(event)

    def _front(self, session: Session, view: RunView, news: asyncio.Event) -> Coroutine[Any, Any, RunOutcome]:
        if self._options.stay == "live":
            from llm_do_temporal.cli.terminal.screen import Screen

            return Screen(session.client, view, news, self._interrupt).show()
        if self._options.stay == "until_end":
            return self._note_questions(view, news)
        return self._until_question(session, view, news)

    async def _until_question(self, session: Session, view: RunView, news: asyncio.Event) -> RunOutcome:
        """Wait for the first questions, print how to answer them, and leave."""
        pending = await first_questions(view, news, partial(session.client.approvals, self._run))
        _say_questions(pending, self._location, session)
        shown = tuple(one.as_json() for one in pending)
        return RunOutcome(self._run, "waiting", exit_code=WAITING, pending=shown, **seen_of(view))

    async def _note_questions(self, view: RunView, news: asyncio.Event) -> RunOutcome:
        """Mention new questions, and never leave."""
        noted: set[str] = set()
        while True:
            await news.wait()
            news.clear()
            for one in view.pending:
                if one.id not in noted:
                    noted.add(one.id)
                    note_shown(self._run, [ShownQuestion(each.id, each.digest) for each in view.pending], on=sys.stderr)
                    say(f"waits for approval {one.id}: {visible_line(one.summary)}")

    async def _note_troubles(self, session: Session, view: RunView) -> None:
        """Keep asking which activities are tried again, for the screen; without a screen, print each failure once."""
        reported: set[tuple[str, str]] = set()
        while True:
            noted = await note_troubles(session.client.temporal, view, served_since=session.served_since)
            for path, trouble in noted:
                if self._options.stay != "live" and (path, trouble.failure) not in reported:
                    reported.add((path, trouble.failure))
                    say(f"{path} waits: {visible_line(trouble.shown(), 400)}")
            self._work.tell(view)
            await asyncio.sleep(_TROUBLE_SECONDS)

    async def _ended(self, session: Session, view: RunView) -> RunOutcome:
        if view.status == "completed" and any(item.is_open for item in view.items.values()):
            view = await session.client.view(self._run)
        self._items.tell(view)
        if self._options.output == "text":
            say_summary(view)
        try:
            result = await session.client.result(self._run)
        except LlmDoError as error:
            if not isinstance(error.__cause__, WorkflowFailureError):
                raise
            return failure(error, run=self._run, view=view)
        seen = RunOutcome(self._run, "completed", output=result.output, truncated=result.truncated, **seen_of(view))
        seen = replace(seen, usage=result.usage)
        failed = failed_items(view.items.values())
        if not failed:
            return seen
        again = f"Do those again with: {self._location.command(f'start --retry-failed {self._run}')}"
        error = ItemsFailed(f"{with_counts('completed', view.counts)}: {_some_of(failed)}", next_step=again)
        return replace(seen, error=error, exit_code=error.exit_code)


def _some_of(names: list[str]) -> str:
    shown = ", ".join(visible_line(name, 100) for name in names[:_NAMED_ITEMS])
    more = len(names) - _NAMED_ITEMS
    return f"{shown} and {more} more" if more > 0 else shown


async def first_questions(
    view: RunView, news: asyncio.Event, read: Callable[[], Awaitable[list[Question]]]
) -> list[Question]:
    """Return what `read` finds, once that is any question; it is called only when the run's history has an open one.

    A question may be answered already, and the run not have noted it: where its service has ended in between, until
    there is another. Then `read` is called again at the next news, and without any after SETTLE_SECONDS.
    """
    while True:
        while not view.pending:
            await news.wait()
            news.clear()
        await _settle(view, news)
        found = await read()
        if found:
            return found
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await news.wait()
        news.clear()


async def _settle(view: RunView, news: asyncio.Event) -> None:
    """Wait for the rest of the questions of the same turn, which reach the desk one by one."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_SECONDS):
            while len(view.pending) < sum(len(node.waiting) for node in view.nodes.values()):
                await news.wait()
                news.clear()


def _say_questions(pending: list[Question], location: Location, session: Session) -> None:
    run = pending[0].run
    note_shown(run, [ShownQuestion(one.id, one.request.digest) for one in pending], on=sys.stderr)
    say(f"run {run} waits for approval:")
    for one in pending:
        request = one.request
        say(f"  {one.id}  {visible_line(request.place, 200)}  {visible_line(request.summary, 200)}")
        view = view_of(request)
        if view is not None:
            say(f"      {location.command(view.command(run, one.id))}")
        say(f"      {location.command(f'approve {run} {one.id}')}")
        say(f"      {_signal_command(one, session)}")
    say(f"reject with a reason: {location.command(f'reject {run} {pending[0].id} --reason WHY')}")
    say(f"then go on with: {location.command(f'watch {run}')}")


def _signal_command(question: Question, session: Session) -> str:
    where = "" if session.address == DEFAULT_ADDRESS else f" --address {session.address}"
    namespace = session.client.temporal.namespace
    if namespace != "default":
        where += f" --namespace {namespace}"
    by = ',"by":"YOUR NAME"' if question.request.names_people else ""
    payload = f'{{"id":"{question.id}","decision":"approve"{by}}}'
    return f"temporal workflow signal -w {question.run} --name decide --input '{payload}'{where}"


async def while_served(session: Session, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which goes on as long as the server is there. Raises ConnectionLost."""
    working, guarding = asyncio.create_task(work), asyncio.create_task(_guard(session))
    try:
        done, _ = await asyncio.wait({working, guarding}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working in done else guarding.result()
    finally:
        await stop(working, guarding)


async def _guard(session: Session) -> NoReturn:
    """Notice that the embedded server is gone: a long poll would wait for it in vain.

    Raises ConnectionLost, and UsageError where it has ended because the workshop cannot be served.
    """
    workshop = session.workshop
    while session.embedded and workshop is not None:
        host = running_host(workshop)
        if host is None or host.address != session.address:
            raise host_failure(workshop) or ConnectionLost("the embedded server has stopped")
        await asyncio.sleep(_GUARD_SECONDS)
    while True:
        await asyncio.Event().wait()


def explained(error: RPCError, run: str) -> Exception:
    """Return the error of the server that ends the attendance of a run, translated."""
    if is_missing(error):
        return UsageError(f"run '{run}' is no longer on the server")
    if error.status in PASSING_STATUSES:
        return ConnectionLost(error.message)
    return ConnectionFailed(f"the Temporal server refused: {error.message}")


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
    cells = [(*row[:-1], visible_line(row[-1], _ERROR_CHARS)) for row in rows]
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
