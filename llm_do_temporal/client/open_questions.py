"""Whole questions that wait, in all runs or in some: one list of the server, and the histories of the runs that ask."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.inbox import LockedRun, OpenQuestions
from llm_do_temporal.client.views.memos import read_listing
from llm_do_temporal.client.views.oldest_runs import FEWEST_RUNS
from llm_do_temporal.errors import KeyMismatch, UsageError

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient

_AT_ONCE = 16
"""Histories read side by side."""


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

    async def read(run: str) -> list[Question]:
        async with turn:
            try:
                return await client.approvals(run)
            except (KeyMismatch, UsageError):
                return []

    return dict(zip(wanted, await asyncio.gather(*map(read, wanted)), strict=True))


async def _questions_of(client: LlmDoClient, run: str, turn: asyncio.Semaphore) -> list[Question] | LockedRun:
    """Return what the run asks: nothing, where it was deleted meanwhile."""
    async with turn:
        try:
            try:
                return await client.approvals(run)
            except KeyMismatch as error:
                return await _locked(client, run, error.key)
        except UsageError:
            return []


async def _locked(client: LlmDoClient, run: str, key: str) -> LockedRun:
    async with translated(run):
        description = await client.temporal.get_workflow_handle(run).describe()
        info = description.raw_info
        listed = await read_listing(info, client.temporal.data_converter)
        return LockedRun.of(info, replace(listed, missing_key=key))
