"""Reading of what two runs have done, from their histories alone, so that they can be compared.

Needs no worker service. Files of layers are read from the blob store, where that is at hand.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.differences.account import InvocationAccount, RunAccount, given_of, turns_of
from llm_do_temporal.client.differences.comparison import FilePair, RunDifference, compare
from llm_do_temporal.client.differences.files import FileChanges, lines_between
from llm_do_temporal.client.record.story import Story
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.client.views.run_view import Node, RunView
from llm_do_temporal.client.views.transcripts import Entry, Transcriber
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.policy.layers.patch import Hunk
from llm_do_temporal.storage.external_storage import blobs_of

MOST_FILES = 50
"""Files whose lines are compared; of others it is told that they differ."""


@dataclass(frozen=True)
class ComparedFile:
    """File that the runs have left in two states, with the lines that differ."""

    pair: FilePair
    lines: tuple[Hunk, ...] = ()
    problem: str = ""
    """Reason why there are no lines to show; empty: they are all there."""


@dataclass(frozen=True)
class ReadDifference:
    """Difference of two runs, with the lines of their files."""

    difference: RunDifference
    files: tuple[ComparedFile, ...]


async def read_difference(client: Client, run: str, other: str) -> ReadDifference:
    """Return what differs between two runs. Raises UsageError for a run that does not exist, ConnectionFailed."""
    first, second = await asyncio.gather(read_account(client, run), read_account(client, other))
    # Conversations of thousands of turns are compared, too, and other visitors wait meanwhile.
    found = await asyncio.to_thread(compare, first, second)
    blobs = blobs_of(client.data_converter)

    def compared(number: int, pair: FilePair) -> ComparedFile:
        if number >= MOST_FILES:
            return ComparedFile(pair, problem=f"only the lines of the first {MOST_FILES} files are compared")
        return ComparedFile(pair, *lines_between(pair, blobs))

    files = await asyncio.to_thread(lambda: tuple(compared(*one) for one in enumerate(found.files)))
    return ReadDifference(found, files)


async def read_account(client: Client, run: str) -> RunAccount:
    """Return what a run has done so far. Raises UsageError for a run that does not exist, ConnectionFailed."""
    gathering = _Gathering(run)
    async with translated(run):
        listed = await read_run(client, run)
        follower = Follower(client, run, wait=False, tap=gathering.take)
        async for _ in follower.events():
            pass
    view, facts = follower.view, gathering.story.facts
    files, problem = await asyncio.to_thread(gathering.files.files, blobs_of(client.data_converter))
    return RunAccount(
        run=run,
        worker=listed.worker,
        task=facts.task,
        status=view.status,
        output=facts.output,
        error=view.error,
        usage=view.usage,
        questions=gathering.questions,
        seconds=_seconds(view),
        roots=tuple(gathering.account(view, node) for node in view.ordered if node.is_root),
        files=files,
        problem=problem,
    )


class _Gathering:
    """Takes every event of a run once, for all that is told of it."""

    def __init__(self, run: str) -> None:
        self.story = Story(run)
        self.files = FileChanges()
        self.questions = 0
        self._run = run
        self._transcribers: dict[str, Transcriber] = {}
        self._entries: dict[str, list[Entry]] = {}
        self._begun_in: dict[str, int] = {}
        """Turn of its caller that an invocation was begun in, by its workflow's id."""

    def take(self, workflow_id: str, event: HistoryEvent) -> None:
        path = ENTRY_PATH if workflow_id == self._run else workflow_id.removeprefix(f"{self._run}/")
        transcriber = self._transcribers.setdefault(workflow_id, Transcriber())
        said = transcriber.apply(event)
        self.questions += sum(entry.kind == "question" for entry in said)
        self._entries.setdefault(workflow_id, []).extend(said)
        child = event.start_child_workflow_execution_initiated_event_attributes.workflow_id
        if child:
            self._begun_in.setdefault(child, transcriber.turn)
        self.story.take(workflow_id, event)
        self.files.take(workflow_id, path, event)

    def account(self, view: RunView, node: Node) -> InvocationAccount:
        """Return the account of an invocation and of all below it."""
        entries = self._entries.get(node.workflow_id, [])
        given, instructions = given_of(entries)
        outputs = [entry.value for entry in entries if entry.kind == "end"]
        below = (view.nodes[child] for child in node.children if child in view.nodes)
        return InvocationAccount(
            path=node.path,
            definition=node.definition,
            model=node.model,
            given=given,
            instructions=instructions,
            turns=turns_of(entries),
            status=node.status,
            output=outputs[-1] if outputs else None,
            error=node.error,
            usage=node.usage,
            item=node.item,
            begun_in=self._begun_in.get(node.workflow_id, 0),
            children=tuple(self.account(view, child) for child in below if child.path),
        )


def _seconds(view: RunView) -> float | None:
    if view.started_at is None:
        return None
    until = view.ended_at or datetime.now(UTC).replace(tzinfo=None)
    return max(0.0, (until - view.started_at).total_seconds())
