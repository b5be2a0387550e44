"""Reading of what two runs have done, from their histories alone, so that they can be compared.

Needs no worker service. Files are those in the layer of a run whose changes stay aside, in commits of reviews, and of
file tools; what commands write without a layer is in no history. Files of layers are read from the blob store, where
that is at hand.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.differences.comparison import (
    FileAccount,
    FilePair,
    InvocationAccount,
    RunAccount,
    RunDifference,
    compare,
    given_of,
    turns_of,
)
from llm_do_temporal.client.history.events import ENDS, ending, read_message
from llm_do_temporal.client.record.facts import FileCommit, FileWrite, Story
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.client.views.run_view import Node, RunView
from llm_do_temporal.client.views.transcripts import Entry, Transcriber
from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.messages.effects import WriteFileInput
from llm_do_temporal.policy.files.sandbox import Place
from llm_do_temporal.policy.layers.layer import CarriedLayer, Layer, LayerNode, NodeKind, file_node
from llm_do_temporal.policy.layers.patch import Hunk, file_hunks
from llm_do_temporal.policy.layers.paths import path_of
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of

MAX_COMPARED_BYTES = 1024 * 1024
"""Largest file whose lines are compared."""
NOT_AT_HAND = "the changes are in the blob store of the workshop, which is not at hand here"
MOST_FILES = 50
"""Files whose lines are compared; of others it is told that they differ."""


def files_of(
    steps: Sequence[FileWrite | FileCommit], layer: CarriedLayer | None, blobs: BlobStore | None
) -> tuple[tuple[FileAccount, ...], str]:
    """Return the files of a run by path, and the reason why they are not all told; empty: they are. Blocks.

    `layer` has all changes of a run whose changes stay aside; None: it is no such run, or changed nothing.
    """
    found: dict[str, FileAccount] = {}
    problem = ""
    for step in sorted(steps, key=lambda one: one.at):
        if isinstance(step, FileWrite):
            path = _path_of(step.place)
            if path:
                found[path] = _after(found.get(path), path, step)
        elif step.manifest and step.made.committed:
            changes, reason = _layer_files(blobs, CarriedLayer(manifest=step.manifest), step.by)
            found |= {one.path: one for one in changes}
            problem = problem or reason
    if layer is not None:
        changes, reason = _layer_files(blobs, layer, "")
        found |= {one.path: one for one in changes}
        problem = problem or reason
    return tuple(found[path] for path in sorted(found)), problem


def _path_of(place: Place) -> str:
    """Return the path below the workshop; empty where no layer can name it."""
    try:
        return path_of(place)
    except SandboxRefusal:
        return ""


def lines_between(pair: FilePair, blobs: BlobStore | None) -> tuple[tuple[Hunk, ...], str]:
    """Return the lines in which the two files differ, and the reason why there are none to show; empty: they are all.

    Where one run has not touched the file, the other one's is held against what was there before. Blocks.
    """
    sides = (pair.first or pair.second, pair.second or pair.first)
    use_base = (pair.first is None, pair.second is None)
    texts: list[bytes] = []
    for account, is_base in zip(sides, use_base, strict=True):
        assert account is not None
        node = account.base if is_base else account.now
        if node is not None and node.kind is not NodeKind.FILE:
            return (), f"a {node.kind} has no lines"
        if node is not None and node.bytes > MAX_COMPARED_BYTES:
            return (), f"larger than the {MAX_COMPARED_BYTES} bytes that are compared"
        data = b"" if node is None else _bytes(account, node, blobs, is_base=is_base)
        if data is None:
            return (), "its bytes before the change are not kept" if is_base else "its bytes are not at hand"
        texts.append(data)
    hunks = file_hunks(*texts)
    if hunks is None:
        return (), "" if texts[0] == texts[1] else "not text"
    return hunks.hunks, ""


def _bytes(account: FileAccount, node: LayerNode, blobs: BlobStore | None, *, is_base: bool) -> bytes | None:
    if account.text is not None and not is_base:
        return account.text.encode()
    if blobs is None or node.blob is None:
        return None
    try:
        return LayerContents(blobs).read(node, account.path)
    except EffectFailed:
        return None


def _after(before: FileAccount | None, path: str, write: FileWrite) -> FileAccount:
    """Return the file after a file tool has written it."""
    request, change, seen, by = write.request, write.change, write.change.seen, write.by
    base = None if before is None else before.base
    if before is None and seen.sha256 is not None:
        base = file_node(seen.sha256, 0, blob=None, mode=0)
    text = before.text if before is not None else None
    if isinstance(request, WriteFileInput):
        text = request.content
    elif text is not None:
        text = text.replace(request.old_text, request.new_text, 1)
    if text is None:
        # Of an edit of a file that the run has not written, the history has the lines alone.
        node = LayerNode(kind=NodeKind.FILE, sha256=seen.after or "", bytes=change.bytes)
        return FileAccount(path, by, node, base)
    data = text.encode(errors="surrogatepass")
    return FileAccount(path, by, file_node(hashlib.sha256(data).hexdigest(), len(data), blob=None, mode=0), base, text)


def _layer_files(blobs: BlobStore | None, carried: CarriedLayer, by: str) -> tuple[list[FileAccount], str]:
    try:
        layer = _whole(blobs, carried)
    except (EffectFailed, ValidationError) as error:
        return [], error.message if isinstance(error, EffectFailed) else "the record of the changes is damaged"
    if layer is None:
        return [], NOT_AT_HAND
    return list(_accounts(layer, by)), ""


def _whole(blobs: BlobStore | None, carried: CarriedLayer) -> Layer | None:
    if carried.manifest is None:
        return carried.recent
    return None if blobs is None else LayerContents(blobs).whole(carried)


def _accounts(layer: Layer, by: str) -> Iterator[FileAccount]:
    for path, entry in sorted(layer.entries.items()):
        sides = [side for side in (entry.now, entry.base) if side is not None]
        if all(side.kind is NodeKind.FOLDER for side in sides):
            continue  # folders follow from what is in them
        yield FileAccount(path, by or entry.author.invocation, entry.now, entry.base)


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
        view = await Follower(client, run, wait=False, tap=gathering.take).read()
    facts = gathering.story.facts
    files, problem = await asyncio.to_thread(
        files_of, gathering.story.steps, gathering.layer, blobs_of(client.data_converter)
    )
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
        self.layer: CarriedLayer | None = None
        """All changes of a run whose changes stay aside; None: it has none."""
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
        if event.event_type in ENDS and "/" not in path and (end := ending(event)) is not None:
            self.layer = read_message(CarriedLayer, end.told.get("layer")) or self.layer

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
