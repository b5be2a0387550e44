"""Files as a run has left them: in the layer of a run whose changes stay aside, by commits of reviews, by file tools.

What commands write without a layer is in no history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.differences.account import FileAccount
from llm_do_temporal.client.differences.comparison import FilePair
from llm_do_temporal.client.history.payloads import first_object, read_message
from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.messages.activities import COMMIT_CHANGES, EDIT_FILE, WRITE_FILE
from llm_do_temporal.messages.effects import EditFileInput, FileChange, WriteFileInput
from llm_do_temporal.policy.files.sandbox import Place
from llm_do_temporal.policy.layers.layer import CarriedLayer, Layer, LayerNode, NodeKind, file_node
from llm_do_temporal.policy.layers.patch import Hunk, file_hunks
from llm_do_temporal.policy.layers.paths import path_of
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.storage.blobs import BlobStore

MAX_COMPARED_BYTES = 1024 * 1024
"""Largest file whose lines are compared."""
NOT_AT_HAND = "the changes are in the blob store of the workshop, which is not at hand here"
_WRITES: dict[str, type[WriteFileInput | EditFileInput]] = {
    WRITE_FILE.name: WriteFileInput,
    EDIT_FILE.name: EditFileInput,
}


@dataclass(frozen=True)
class _Write:
    request: WriteFileInput | EditFileInput
    change: FileChange

    @property
    def path(self) -> str:
        """The path below the workshop; empty where no layer can name it."""
        request = self.request
        try:
            return path_of(Place(mount=request.mount, relative=request.relative, path=request.path))
        except SandboxRefusal:
            return ""


class FileChanges:
    """Takes the events of all workflows of one run, as a tap of a follower does, and tells its files."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int], WriteFileInput | EditFileInput | str] = {}
        """Writes, and manifests of commits, that have not ended: by workflow and event."""
        self._steps: list[tuple[int, str, _Write | str]] = []
        """Changes that have ended: time in nanoseconds, place in the tree, and the write or the manifest of a commit.
        """
        self._layer: CarriedLayer | None = None

    def take(self, workflow_id: str, path: str, event: HistoryEvent) -> None:
        """Take in the next event of the workflow in which the invocation at `path` runs."""
        if event.HasField("workflow_execution_started_event_attributes"):
            self._under_way = {key: one for key, one in self._under_way.items() if key[0] != workflow_id}
        scheduled = event.activity_task_scheduled_event_attributes
        name = scheduled.activity_type.name
        if name == COMMIT_CHANGES.name:
            manifest = first_object(scheduled.input.payloads).get("manifest")
            self._under_way[workflow_id, event.event_id] = str(manifest or "")
        elif name in _WRITES:
            request = read_message(_WRITES[name], first_object(scheduled.input.payloads))
            # What goes into a layer is no file yet.
            if request is not None and request.layer is None:
                self._under_way[workflow_id, event.event_id] = request
        completed = event.activity_task_completed_event_attributes
        begun = self._under_way.pop((workflow_id, completed.scheduled_event_id), None)
        if begun is not None:
            self._ended(begun, path, event)
        result = event.workflow_execution_completed_event_attributes.result.payloads
        if result and "/" not in path:
            self.keep_layer(read_message(CarriedLayer, first_object(result).get("layer")))

    def keep_layer(self, layer: CarriedLayer | None) -> None:
        """Take in all changes of a run that stay aside; None: it has none."""
        self._layer = layer or self._layer

    def files(self, blobs: BlobStore | None) -> tuple[tuple[FileAccount, ...], str]:
        """Return the files by path, and the reason why they are not all told; empty: they are. Blocks."""
        found: dict[str, FileAccount] = {}
        problem = ""
        for _, by, step in sorted(self._steps, key=lambda one: one[0]):
            if isinstance(step, _Write):
                path = step.path
                if path:
                    found[path] = _after(found.get(path), path, step, by)
                continue
            changes, reason = _layer_files(blobs, CarriedLayer(manifest=step), by)
            found |= {one.path: one for one in changes}
            problem = problem or reason
        if self._layer is not None:
            changes, reason = _layer_files(blobs, self._layer, "")
            found |= {one.path: one for one in changes}
            problem = problem or reason
        return tuple(found[path] for path in sorted(found)), problem

    def _ended(self, begun: WriteFileInput | EditFileInput | str, path: str, event: HistoryEvent) -> None:
        result = first_object(event.activity_task_completed_event_attributes.result.payloads)
        at = event.event_time.ToNanoseconds()
        if isinstance(begun, str):
            if begun and result.get("committed"):
                self._steps.append((at, path, begun))
            return
        change = read_message(FileChange, result)
        if change is not None:
            self._steps.append((at, path, _Write(begun, change)))


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


def _after(before: FileAccount | None, path: str, write: _Write, by: str) -> FileAccount:
    """Return the file after a file tool has written it."""
    request, change = write.request, write.change
    seen = change.seen
    base = None if before is None else before.base
    if before is None and seen is not None and seen.sha256 is not None:
        base = file_node(seen.sha256, 0, blob=None, mode=0)
    text = before.text if before is not None else None
    if isinstance(request, WriteFileInput):
        text = request.content
    elif text is not None:
        text = text.replace(request.old_text, request.new_text, 1)
    if text is None:
        # Of an edit of a file that the run has not written, the history has the lines alone.
        digest = seen.after if seen is not None and seen.after is not None else ""
        return FileAccount(path, by, LayerNode(kind=NodeKind.FILE, sha256=digest, bytes=change.bytes), base)
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
