"""Background of a question: the task of its run, the place in the tree, and the words of the model before the call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from temporalio.client import Client

from llm_do_temporal.client import LlmDoClient, Question
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.views.server_list import read_begun
from llm_do_temporal.client.views.transcripts import Entry, read_newest
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.runs import RunMemo
from llm_do_temporal.ui.content.urls import invocation_address

SHORT_CHARS = 600
"""Longest words of a model that are shown without being unfolded."""


@dataclass(frozen=True)
class Words:
    """Text that a model wrote before its call."""

    text: str
    turns_before: int
    """0 for the turn that made the call."""
    address: str
    """Place of that turn in the conversation."""

    @property
    def is_long(self) -> bool:
        """Whether it is folded."""
        return len(self.text) > SHORT_CHARS


@dataclass(frozen=True)
class Background:
    """Facts about a question that its call does not tell."""

    begun: RunMemo
    """Task of the run, its worker, and the person who started it; empty where nothing tells."""
    crumbs: list[tuple[str, str]]
    """Name and address of each invocation on the way to the asking one."""
    words: Words | None
    """None where the model wrote nothing but calls, or the text cannot be read any more."""


async def read_background(client: LlmDoClient, question: Question) -> Background:
    """Return the background of a question, as far as it can be read."""
    begun, words = await asyncio.gather(_begun(client.temporal, question.run), _words(client.temporal, question))
    return Background(begun, crumbs_of(question.run, question.request.path), words)


def crumbs_of(run: str, path: str) -> list[tuple[str, str]]:
    """Return the invocations from the entry worker to `path`, each as its name and its address."""
    names = path.split("/")
    return [(name, invocation_address(run, "/".join(names[: number + 1]))) for number, name in enumerate(names)]


def words_before(entries: Sequence[Entry], question: Question) -> Words | None:
    """Return the last text of the model before its call, among the entries of the conversation."""
    key = question.request.key
    turn = next((entry.turn for entry in entries if entry.kind == "question" and entry.call == key), None)
    if turn is None:
        return None
    texts = [entry for entry in entries if entry.kind == "text" and entry.turn <= turn]
    # An entry of an answer bears the number of the turn that it is.
    last = max((entry.turn for entry in texts), default=None)
    if last is None:
        return None
    text = "\n\n".join(entry.text for entry in texts if entry.turn == last)
    place = invocation_address(question.run, question.request.path)
    return Words(text, turn - last, f"{place}?{urlencode({'turn': last})}")


async def _begun(client: Client, run: str) -> RunMemo:
    try:
        async with translated(run):
            return await read_begun((await client.get_workflow_handle(run).describe()).raw_info, client.data_converter)
    except LlmDoError:
        return RunMemo(worker="")


async def _words(client: Client, question: Question) -> Words | None:
    invocation = question.request.invocation
    try:
        async with translated(invocation):
            return words_before((await read_newest(client, invocation, turns=1)).entries, question)
    except LlmDoError:
        return None
