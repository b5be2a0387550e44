"""Questions that wait in all runs: whole, or in groups of equal ones, from one listing of the server.

A question that the list has no room for is read from the history of its run when a whole group is wanted, so that all
of a group is all.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.decisions import FrozenQuestion
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.inbox import FEWEST_RUNS, InboxEntry, LockedRun, OpenQuestions
from llm_do_temporal.client.views.server_list import read_listing
from llm_do_temporal.errors import KeyMismatch, UsageError

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient

_AT_ONCE = 16
"""Histories read side by side."""
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
    """Runs that cannot be read here."""
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
