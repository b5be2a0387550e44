"""Questions that wait for people in all open runs: the inbox, whole questions, or groups of equal ones.

All come from one listing of the server. A question that the list has no room for is read from the history of its run
when a whole group is wanted, so that all of a group is all. A run whose memo is encrypted with a key that is missing
here is listed as locked, and does not hide the others. The server lists the newest runs first, but counts quickly: of
very many, the time is searched by counting up to which some hundred of the oldest began.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connections import refuses_attributes, translated
from llm_do_temporal.client.decisions import FrozenQuestion
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.server_list import (
    ANSWERED_RUNS,
    KnownMemos,
    RunListing,
    asked_in_all,
    every_part,
    read_listing,
    stamp,
    started_at,
)
from llm_do_temporal.client.views.tree import quoted
from llm_do_temporal.errors import KeyMismatch, UsageError
from llm_do_temporal.extension import QuestionView, view_of_tool
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, RUN_WORKFLOW
from llm_do_temporal.messages.runs import PendingApprovalMemo
from llm_do_temporal.policy.groups import CallGroup

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient


MOST_RUNS = 300
"""Most runs in such a list: more questions than people answer before they look again."""
FEWEST_RUNS = MOST_RUNS // 4
"""Fewest runs in such a list, where there are more."""
Count: TypeAlias = Callable[[datetime], Awaitable[int]]
"""Counts the runs that wait and began after a time that the list begins with, and up to the given one."""
_SPANS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=30), timedelta(days=10_000))
_SKEW = timedelta(days=1)
_MOMENT = timedelta(milliseconds=1)
"""Runs that began so close to one another are not told apart."""
_OPEN = f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus = 'Running'"
_WAITING = f"{_OPEN} AND ({PENDING_ATTRIBUTE} > 0 OR {PENDING_ATTRIBUTE} IS NULL)"
"""A run has no such attribute if it was loaded before the namespace knew it; its memo tells."""


class _End(NamedTuple):
    """Time with which a list ends, and whether more runs than wanted began in the moment before it."""

    until: datetime
    is_crowded: bool


class OldestRuns:
    """The oldest waiting runs. Remembers from one reading to the next up to when they began."""

    def __init__(self) -> None:
        self._ends: dict[int, _End] = {}
        self._turn = asyncio.Lock()

    async def find(self, count: Count, now: datetime, *, most: int, after: datetime | None = None) -> datetime:
        """Return a time up to which at most so many runs began, and a quarter of that at least.

        Where more began at one moment, the time is the end of that moment. There are more than `most` in all. The count
        is of those that began after the time `after`; None: of all.
        """
        wanted = range(max(most // 4, 1), most + 1)
        async with self._turn:
            end = self._ends.get(most)
            if end is not None and (after is None or end.until > after):
                found = await count(end.until)
                if found in wanted or (end.is_crowded and found >= wanted.stop):
                    return end.until
            self._ends[most] = await _search(count, now, after, wanted)
            return self._ends[most].until


async def _search(count: Count, now: datetime, after: datetime | None, wanted: range) -> _End:
    # The clock of the server is not the one here.
    late, early = now + _SKEW, now
    for span in _SPANS:
        early = now - span
        if after is not None and early <= after:
            early = after
            break
        found = await count(early)
        if found in wanted:
            return _End(early, is_crowded=False)
        if found < wanted.start:
            break
        late = early
    while late - early > _MOMENT:
        middle = early + (late - early) / 2
        found = await count(middle)
        if found in wanted:
            return _End(middle, is_crowded=False)
        if found < wanted.start:
            early = middle
        else:
            late = middle
    return _End(late, is_crowded=True)


@dataclass(frozen=True)
class InboxEntry:
    """Question that waits for a person, as the memo of its run tells it."""

    run: str
    run_worker: str
    started_by: str
    id: str
    worker: str
    path: str
    tool: str
    summary: str
    asked_at: datetime
    deadline: datetime | None
    """Time at which the question is decided without a person; None: never."""
    votes: int
    """Number of people who have agreed so far, of `quorum`."""
    quorum: int
    approvers: tuple[str, ...]
    """People who may decide; empty for everybody."""
    task: str = ""
    """Words for what the run, or the item of a batch, is about, see `StartRunInput.task`; empty where nothing tells."""
    digest: str = ""
    """Digest of the question; empty if it has none."""
    group: CallGroup | None = None
    """Group of questions that can be decided together; None for a question at a limit."""
    item: str = ""
    """Name of the batch's item that is worked on; empty in any other run."""

    @classmethod
    def of(cls, asked: PendingApprovalMemo | RequestApprovalInput, **more: Any) -> InboxEntry:
        """Return the entry of a question: its own facts are those of `asked`, all others are in `more`."""
        kind, names = type(asked), [one.name for one in fields(cls)]
        own = [name for name in names if name in kind.model_fields or hasattr(kind, name)]
        return cls(**{name: getattr(asked, name) for name in own} | more)

    @property
    def view(self) -> QuestionView | None:
        """View of it, where a capability asks it: it is answered by itself. None for any other question."""
        return view_of_tool(self.tool)


@dataclass(frozen=True)
class LockedRun:
    """An open run that waits for a person, or may, and cannot be read here: the key it is encrypted with is missing."""

    run: str
    worker: str
    """Name of the entry worker; empty where nothing tells."""
    waiting: int | None
    """Number of questions that wait; None where nothing tells."""
    started_at: datetime
    missing_key: str

    @classmethod
    def of(cls, info: WorkflowExecutionInfo, listed: RunListing) -> LockedRun:
        """Return the facts that are known of the run without its key."""
        run, began = info.execution.workflow_id, started_at(info, listed)
        return cls(run, listed.begun.worker, listed.waiting, began, listed.missing_key)


@dataclass(frozen=True)
class InboxContents:
    """Questions that wait in all open runs."""

    entries: list[InboxEntry]
    """Questions, oldest first; of each run those that its memo has room for."""
    locked: list[LockedRun]
    further: int = 0
    """Number of other runs that wait for people, or may, and were not read."""
    crowded: dict[str, int] = field(default_factory=dict[str, int])
    """Runs that ask more than their memo has room for, each with the number of questions that are left out."""


@dataclass(frozen=True)
class OpenQuestions:
    """Questions that wait for people, as the histories of their runs tell them."""

    questions: list[Question]
    locked: list[LockedRun]
    further_questions: int
    """Number of questions that were left out, as far as the runs that were looked at tell."""
    further_runs: int
    """Number of other runs that wait for people, or may, and were not looked at."""


class InboxReader:
    """Reads the inbox. Remembers what it has read, so that the next reading is quick."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known = KnownMemos()
        self._oldest = OldestRuns()

    async def read(self, run: str | None = None, *, whole: bool = False) -> InboxContents:
        """Return the questions that wait in all open runs, or in one. Raises RPCError.

        Where more than MOST_RUNS are open, only the questions of the oldest, unless the `whole` is wanted. A run
        that was continued counts from then.
        """
        if run is not None:
            return (await self._everything(f"{_OPEN} AND WorkflowId = '{quoted(run)}'")).contents()
        if (await self._client.count_workflows(_OPEN)).count <= MOST_RUNS:
            reading = await self._everything(_OPEN)
        else:
            try:
                waiting = await self._count(None, None)
            except RPCError as error:
                if not refuses_attributes(error):
                    raise
                reading = await self._everything(_OPEN)
            else:
                reading = await (self._everything(_WAITING) if whole else self._oldest_of(waiting))
        self._known.keep(reading.taken)
        return reading.contents()

    async def _everything(self, query: str) -> _Reading:
        reading = _Reading()
        async for part in every_part(self._client, query):
            for info in part.found:
                reading.take(info, await self._known.read(info, self._client.data_converter))
        return reading

    async def _oldest_of(self, waiting: int) -> _Reading:
        """Read the oldest of so many runs, up to MOST_RUNS that ask something that can be read here.

        Runs that cannot be read here, or ask nothing, hide no younger ones: while FEWEST_RUNS have not been found, the
        list goes on, each time by twice as many.
        """
        reading, most, after = _Reading(), MOST_RUNS, None
        while reading.asking < FEWEST_RUNS:
            until = None
            if waiting - len(reading.taken) > most:
                count = partial(self._count, after)
                until = await self._oldest.find(count, datetime.now(UTC), most=most, after=after)
            parts = every_part(self._client, _waiting(after, until), first=min(most, ANSWERED_RUNS))
            for info in reversed([info async for part in parts for info in part.found]):
                if reading.asking == MOST_RUNS:
                    break
                reading.take(info, await self._known.read(info, self._client.data_converter))
            if until is None:
                break
            most, after = 2 * most, until
        reading.further = max(waiting - len(reading.taken), 0)
        return reading

    async def _count(self, after: datetime | None, until: datetime | None) -> int:
        return (await self._client.count_workflows(_waiting(after, until))).count


class _Reading:
    """Inbox as it is being read."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.asking = 0
        self.further = 0
        self._crowded: dict[str, int] = {}
        self._entries: list[InboxEntry] = []
        self._locked: list[LockedRun] = []

    def take(self, info: WorkflowExecutionInfo, listed: RunListing) -> None:
        """Add what a run asks."""
        run = info.execution.workflow_id
        self.taken.add(info.execution.run_id)
        self.asking += bool(listed.pending)
        if listed.missing_key and listed.waiting != 0:
            self._locked.append(LockedRun.of(info, listed))
        begun = listed.begun
        facts = {"run": run, "run_worker": begun.worker, "started_by": begun.started_by}
        self._entries += [InboxEntry.of(one, task=one.task or begun.task, **facts) for one in listed.pending]
        left_out = asked_in_all(info, listed) - len(listed.pending)
        if listed.pending and left_out > 0:
            self._crowded[run] = left_out

    def contents(self) -> InboxContents:
        """Return the questions, the oldest first."""
        entries = sorted(self._entries, key=lambda one: one.asked_at)
        return InboxContents(entries, self._locked, self.further, self._crowded)


def _waiting(after: datetime | None, until: datetime | None) -> str:
    """Return the query of the runs that wait and began after one time, and up to another, in UTC; None: no bound."""
    bounds = ((">", after), ("<=", until))
    return _WAITING + "".join(f" AND StartTime {sign} '{stamp(time)}'" for sign, time in bounds if time is not None)


_AT_ONCE = 16
FEWEST_KEY_DIGITS = 4
"""Shortest beginning of a group's key that may stand for the whole of it."""
_LEFT_OUT = "…"
"""Cell of an argument that a memo had no room for: an empty one would say that it is empty."""


async def read_open_questions(client: LlmDoClient, limit: int | None) -> OpenQuestions:
    """Return the questions that wait in all runs, oldest first; at most `limit`, None for all."""
    contents = await client.inbox(whole=limit is None or limit > FEWEST_RUNS)
    turn = asyncio.Semaphore(_AT_ONCE)
    try:
        async with asyncio.TaskGroup() as group:
            runs = dict.fromkeys(entry.run for entry in contents.entries[:limit])
            reading = {run: group.create_task(_questions_of(client, run, turn)) for run in runs}
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    read = [task.result() for task in reading.values()]
    # A start that is kept outside of its history tells nothing there.
    tasks = {(entry.run, entry.id): entry.task for entry in contents.entries}
    asked = [one for each in read if isinstance(each, list) for one in each]
    questions = [replace(one, task=one.task or tasks.get((one.run, one.id), "")) for one in asked]
    questions.sort(key=lambda one: one.asked_at)
    unread = sum(entry.run not in reading for entry in contents.entries)
    return OpenQuestions(
        questions=questions[:limit],
        locked=[*contents.locked, *(each for each in read if isinstance(each, LockedRun))],
        further_questions=len(questions) - len(questions[:limit]) + unread,
        further_runs=contents.further,
    )


async def read_readable(client: LlmDoClient, runs: Iterable[str]) -> dict[str, list[Question]]:
    """Return what each of these runs asks; nothing of one that was deleted meanwhile, or cannot be read here.

    Raises ConnectionFailed: questions that were not read are not taken for none.
    """
    wanted, turn = list(runs), asyncio.Semaphore(_AT_ONCE)
    read = await asyncio.gather(*(_questions_of(client, run, turn) for run in wanted))
    return {run: each if isinstance(each, list) else [] for run, each in zip(wanted, read, strict=True)}


async def _questions_of(client: LlmDoClient, run: str, turn: asyncio.Semaphore) -> list[Question] | LockedRun:
    """Return what the run asks: nothing, where it was deleted meanwhile."""
    async with turn:
        try:
            try:
                return await client.approvals(run)
            except KeyMismatch as error:
                async with translated(run):
                    info = (await client.temporal.get_workflow_handle(run).describe()).raw_info
                    listed = await read_listing(info, client.temporal.data_converter)
                    return LockedRun.of(info, replace(listed, missing_key=error.key))
        except UsageError:
            return []


@dataclass(frozen=True)
class QuestionGroup:
    """Similar questions of all runs."""

    key: str
    """Key of the group; empty for a question that is alone for want of one."""
    title: str
    entries: tuple[InboxEntry, ...]
    """Questions, oldest first."""

    @property
    def oldest(self) -> datetime:
        """Time at which the first of them was asked."""
        return self.entries[0].asked_at

    @property
    def runs(self) -> int:
        """Number of runs that ask."""
        return len({entry.run for entry in self.entries})

    @property
    def task(self) -> str:
        """Words that people call the run of all of them by, or their item; empty where that is not one, or unknown."""
        tasks = {entry.task for entry in self.entries}
        return tasks.pop() if self.runs == len(tasks) == 1 else ""

    @cached_property
    def common(self) -> dict[str, str]:
        """Arguments in short that are the same in all of them, by name; none where there is one question alone."""
        first, *others = [_cells(entry) for entry in self.entries]
        same = {name: text for name, text in first.items() if all(other.get(name) == text for other in others)}
        return same if others else {}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the arguments that differ, for one question alone of all."""
        names = dict.fromkeys(name for entry in self.entries for name in _cells(entry))
        return tuple(name for name in names if name not in self.common)

    @cached_property
    def values(self) -> dict[str, int]:
        """Number of different values of each argument that differs, by name."""
        told = [_cells(entry) for entry in self.entries]
        return {name: len({cells[name] for cells in told if name in cells}) for name in self.columns}

    @property
    def differences(self) -> str:
        """Words for what differs, like `path (5 values) and content (3 values)`; empty: every argument is the same.

        An argument that a list has no room for counts as one that may differ.
        """
        if len(self.entries) == 1:
            return ""
        told = [_cells(entry) for entry in self.entries]
        words = [
            f"{name} ({count:,}{'' if all(name in cells for cells in told) else ' or more'} values)"
            for name, count in self.values.items()
        ]
        left_out = max(entry.group.left_out if entry.group is not None else 0 for entry in self.entries)
        if left_out:
            are = "argument that is" if left_out == 1 else "arguments that are"
            words.append(f"perhaps {left_out} {are} not listed")
        return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)

    @property
    def tells_workers(self) -> bool:
        """Whether different workers ask."""
        return len({entry.worker for entry in self.entries}) > 1

    @property
    def in_part(self) -> int:
        """Number of questions with arguments that the table does not show whole."""
        return sum(entry.group is not None and not entry.group.is_whole for entry in self.entries)

    def cells(self, entry: InboxEntry) -> list[str]:
        """Return the values of one question, one for each column; `…` for one that there was no room for."""
        told = _cells(entry)
        is_cut = entry.group is not None and not entry.group.is_whole
        return [told.get(name, _LEFT_OUT if is_cut else "") for name in self.columns]

    def frozen(self) -> list[FrozenQuestion]:
        """Return the questions as they are shown now."""
        return frozen(self.entries)


@dataclass(frozen=True)
class GroupedQuestions:
    """All questions that wait, in groups; the group with the oldest question first."""

    groups: list[QuestionGroup]
    locked: list[LockedRun]
    unlisted: int
    """Number of questions that are in no group: the memos of their runs have no room for them."""


def frozen(entries: Iterable[InboxEntry]) -> list[FrozenQuestion]:
    """Return the questions of these entries as they are shown now."""
    return [FrozenQuestion(entry.run, entry.id, entry.digest) for entry in entries]


def grouped(entries: Iterable[InboxEntry]) -> list[QuestionGroup]:
    """Return the entries in groups, the oldest question first.

    One that has no key is a group of its own, and so is one that a capability asks: two of them never ask for the same.
    """
    by_key: dict[object, list[InboxEntry]] = defaultdict(list)
    for entry in entries:
        has_key = entry.group is not None and entry.digest and entry.view is None
        by_key[entry.group.key if has_key and entry.group else (entry.run, entry.id)].append(entry)
    groups: list[QuestionGroup] = []
    for found in by_key.values():
        first, *others = sorted(found, key=lambda one: one.asked_at)
        told = first.group if first.digest and first.view is None else None
        key, title = (told.key, told.title) if told else ("", first.summary)
        groups.append(QuestionGroup(key, title, (first, *others)))
    return sorted(groups, key=lambda group: group.oldest)


def alone(entry: InboxEntry) -> QuestionGroup:
    """Return a question as a group of its own."""
    return QuestionGroup("", entry.summary, (entry,))


async def read_groups(client: LlmDoClient) -> GroupedQuestions:
    """Return all questions that wait, in groups. Reads no history."""
    contents = await client.inbox(whole=True)
    return GroupedQuestions(grouped(contents.entries), contents.locked, sum(contents.crowded.values()))


async def read_group(client: LlmDoClient, key: str) -> QuestionGroup | None:
    """Return all questions of one group as they are now; None where nothing of it waits any more.

    A beginning of the key is enough. Raises UsageError where it is too short, or that of several groups.
    """
    if len(key) < FEWEST_KEY_DIGITS:
        raise UsageError(f"'{key}' is too short for the key of a group; {FEWEST_KEY_DIGITS} digits are needed")
    contents = await client.inbox(whole=True)
    entries = contents.entries
    if contents.crowded:  # the memos of some runs have no room for all that they ask
        models = {entry.run: entry for entry in entries}
        asked = await read_readable(client, contents.crowded)
        read = [_entry(question, models[run]) for run, questions in asked.items() for question in questions]
        entries = sorted([*(one for one in entries if not asked.get(one.run)), *read], key=lambda one: one.asked_at)
    found = [group for group in grouped(entries) if group.key and group.key.startswith(key)]
    if len(found) > 1:
        keys = ", ".join(group.key for group in found)
        raise UsageError(f"'{key}' is the beginning of several groups: {keys}; give more digits")
    return found[0] if found else None


async def read_run(client: LlmDoClient, run: str) -> GroupedQuestions:
    """Return all questions of one run, in groups, from its history. Raises UsageError, KeyMismatch."""
    listed = {entry.id: entry for entry in (await client.inbox(run)).entries}
    asked = await client.approvals(run)
    model = next(iter(listed.values()), None)
    return GroupedQuestions(grouped(_entry(question, model) for question in asked), [], 0)


def _entry(question: Question, model: InboxEntry | None) -> InboxEntry:
    """Return the entry of a question that was read from a history; the facts about its run are those of `model`."""
    request = question.request
    return InboxEntry.of(
        request,
        run=question.run,
        run_worker="" if model is None else model.run_worker,
        started_by="" if model is None else model.started_by,
        id=question.id,
        asked_at=question.asked_at,
        votes=len(question.votes),
        task=question.task or ("" if model is None or request.item else model.task),
    )


def _cells(entry: InboxEntry) -> dict[str, str]:
    return entry.group.cells if entry.group is not None else {}
