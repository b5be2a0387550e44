"""Background of a question, which its call does not tell: the task, the model's words, decisions on calls like it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from temporalio.client import Client

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.server_list import read_begun
from llm_do_temporal.client.views.transcripts import read_newest
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.approvals import DecisionKind, RequestApprovalInput
from llm_do_temporal.messages.runs import RunMemo

SHORT_CHARS = 600
"""Longest words of a model that are shown without being unfolded."""
MOST_SHOWN = 5


@dataclass(frozen=True)
class Words:
    """Text that a model wrote before its call."""

    text: str
    turns_before: int
    """0 for the turn that made the call."""
    turn: int
    """Number of the turn that it is of."""

    @property
    def is_long(self) -> bool:
        """Whether it is folded."""
        return len(self.text) > SHORT_CHARS


@dataclass(frozen=True)
class Precedents:
    """Calls of the same tool at the same place."""

    place: str
    """Folder, program or worker that they share; empty where it is the tool alone."""
    counts: dict[DecisionKind, int]
    """Decisions by kind, of calls that were not carried out none; kinds that nobody chose are not there."""
    waiting: int
    """Other calls that wait for a decision."""
    newest: list[Question]
    """The newest decided ones, newest first, at most MOST_SHOWN."""
    undone: int = 0
    """Calls that were agreed to, not carried out, and asked about again."""


@dataclass(frozen=True)
class Background:
    """Facts about a question, as far as they could be read."""

    begun: RunMemo
    """Task of the run, its worker, and the person who started it; empty where nothing tells."""
    words: Words | None
    """None where the model wrote nothing but calls, or the text cannot be read any more."""
    precedents: Precedents
    """Decisions of its run on calls like it."""


async def read_background(client: LlmDoClient, question: Question, known: Sequence[Question] = ()) -> Background:
    """Return the background of a question, as far as it can be read; `known` are the questions of its run."""
    begun, words = await asyncio.gather(_begun(client.temporal, question.run), _words(client.temporal, question))
    return Background(begun, words, precedents_of(question, known))


async def _words(client: Client, question: Question) -> Words | None:
    """Return the last text of the model before its call; None where there is none, or it cannot be read."""
    key, invocation = question.request.key, question.request.invocation
    try:
        async with translated(invocation):
            entries = (await read_newest(client, invocation, turns=1)).entries
    except LlmDoError:
        return None
    turn = next((entry.turn for entry in entries if entry.kind == "question" and entry.call == key), None)
    if turn is None:
        return None
    texts = [entry for entry in entries if entry.kind == "text" and entry.turn <= turn]
    # An entry of an answer bears the number of the turn that it is.
    last = max((entry.turn for entry in texts), default=None)
    if last is None:
        return None
    text = "\n\n".join(entry.text for entry in texts if entry.turn == last)
    return Words(text, turn - last, last)


async def _begun(client: Client, run: str) -> RunMemo:
    try:
        async with translated(run):
            return await read_begun((await client.get_workflow_handle(run).describe()).raw_info, client.data_converter)
    except LlmDoError:
        return RunMemo(worker="")


def precedents_of(question: Question, questions: Sequence[Question]) -> Precedents:
    """Return what became of the other calls, among the questions of the run, that are like this one."""
    place = place_of(question.request)
    like = [one for one in questions if one.id != question.id and one.request.tool == question.request.tool]
    like = [one for one in like if place_of(one.request) == place]
    decided = [(one, one.verdict) for one in like if one.verdict is not None]
    counts = Counter(verdict.decision for one, verdict in decided if not one.again)
    newest = sorted(decided, key=lambda pair: pair[1].at, reverse=True)[:MOST_SHOWN]
    return Precedents(
        place=place,
        counts={kind: counts[kind] for kind in DecisionKind if counts[kind]},
        waiting=sum(one.is_open for one in like),
        newest=[one for one, _ in newest],
        undone=sum(bool(one.again) for one, _ in decided),
    )


def place_of(request: RequestApprovalInput) -> str:
    """Return the folder, the program or the worker that a call is about; empty if it is about none of these."""
    for use in request.capabilities:
        payload: dict[str, Any] = dict(use.payload)
        argv = payload.get("argv")
        if isinstance(argv, list | tuple) and argv:
            return str(argv[0])  # pyright: ignore[reportUnknownArgumentType]
        if use.name.startswith("sandbox.") and isinstance(payload.get("path"), str):
            return str(PurePosixPath(payload["path"]).parent)
        if use.name == "worker.call":
            return str(payload.get("worker", ""))
    return ""
