"""Contents of files in layers: bytes that go into the blob store and come back, checked by their digest."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import lru_cache, partial
from io import BytesIO

from llm_do_temporal.errors import DecisionRefused, EffectFailed, SandboxRefusal
from llm_do_temporal.policy.layers.carried import CarriedLayer, LayerUpdate
from llm_do_temporal.policy.layers.draft import Kept
from llm_do_temporal.policy.layers.hunks import FileHunks, file_hunks
from llm_do_temporal.policy.layers.layer import Layer, layer_of
from llm_do_temporal.policy.layers.nodes import FileBase, LayerNode, NodeKind, alike, file_node
from llm_do_temporal.storage.blobs import BlobStore, BlobTooLarge, Readable

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Largest file of a layer where its mount allows more: a blob is read as a whole."""
KEPT_TOGETHER = 16
"""Files that go into the blob store at a time: most of that is waiting for the disk."""
REMEMBERED_MANIFESTS = 8
"""Layers that are kept in memory as they were read: calls of one turn begin from the same one."""


class LayerContents:
    """Contents of files, kept in a blob store."""

    def __init__(self, blobs: BlobStore, max_file_bytes: int | None = None) -> None:
        """`max_file_bytes` is the limit of the worker's files; None: there is none but that of all layers."""
        self._blobs = blobs
        self._layer_of = lru_cache(REMEMBERED_MANIFESTS)(self._read_layer)
        self.max_file_bytes = _limit(max_file_bytes)

    def limited_to(self, max_file_bytes: int | None) -> LayerContents:
        """Return the same contents with the limit of a worker's files; None: there is none but that of all layers."""
        limited = copy(self)
        limited.max_file_bytes = _limit(max_file_bytes)
        return limited

    def keep(self, data: bytes, path: str) -> Kept:
        """Keep the bytes of the file at `path`. Raises SandboxRefusal for too many."""
        return self._kept(BytesIO(data), path) if len(data) > self.max_file_bytes else _kept_bytes(self._blobs, data)

    def keep_open(self, descriptor: int, path: str) -> Kept:
        """Keep all that the open file has, piece by piece. Raises SandboxRefusal for too much."""
        if os.fstat(descriptor).st_size > self.max_file_bytes:
            raise self._too_large(path)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return self._kept(file, path)

    def read(self, node: LayerNode, path: str) -> bytes:
        """Return the bytes of a file. Raises EffectFailed where they are not there, or are not those of the file."""
        if node.kind is not NodeKind.FILE or node.blob is None:
            raise EffectFailed(f"the bytes of '{path}' are not in the blob store")
        try:
            data = self._blobs.read(node.blob)
        except EffectFailed as error:
            raise EffectFailed(
                f"the bytes of '{path}' cannot be read: {error.message}", next_step=error.next_step
            ) from error
        if hashlib.sha256(data).hexdigest() != node.sha256:
            raise EffectFailed(f"the bytes kept for '{path}' are not those that its digest names")
        return data

    def manifest_of(self, layer: Layer) -> str:
        """Keep the layer itself, and return the name of the blob."""
        return self._blobs.put_bytes(layer.model_dump_json().encode())

    def whole(self, carried: CarriedLayer) -> Layer:
        """Return the layer that has travelled here. Raises EffectFailed where its manifest is not there."""
        if carried.manifest is None:
            return carried.recent
        return self._layer_of(carried.manifest).with_updates(carried.recent)

    def update_of(self, travelled: CarriedLayer, before: Layer, after: Layer) -> LayerUpdate:
        """Return what has become of a layer that travelled here as `travelled`, and was `before` when it was whole.

        Where too much would be beside its manifest, a new one is kept.
        """
        update = LayerUpdate(entries=after.updates_since(before))
        if not travelled.updated(update).is_long:
            return update
        return LayerUpdate(manifest=self.manifest_of(after))

    def hunks(self, path: str, old: LayerNode | None, new: LayerNode | None) -> FileHunks | None:
        """Return the hunks of a file's change; None where it is no change of text in one file, or has no two sides."""
        nodes = [node for node in (old, new) if node is not None and node.kind is NodeKind.FILE]
        if len(nodes) < 2 or any(node.blob is None for node in nodes):
            return None
        before, after = (self.read(node, path) for node in nodes)
        return file_hunks(before, after)

    def with_hunks(self, path: str, old: LayerNode, new: LayerNode, ids: frozenset[str]) -> LayerNode:
        """Return the file with these hunks of its change and no others. Raises DecisionRefused for ids that are stale.

        Permissions are those of the new file.
        """
        hunks = self.hunks(path, old, new)
        if hunks is None:
            raise DecisionRefused(f"'{path}' cannot be accepted in parts; it is accepted as a whole, or not at all")
        return self.edited(path, new, hunks.applied(ids).encode())

    def with_bases(self, layer: Layer, base: FileBase) -> Layer:
        """Return the layer with the bytes kept that its files had before, so that they can be compared anywhere.

        A file that has changed since stays without: it is a conflict. Done once, before a review.
        """
        wanted = [
            path
            for path, entry in layer.changes.items()
            if entry.base is not None and entry.base.kind is NodeKind.FILE and entry.base.blob is None
        ]
        with ThreadPoolExecutor(KEPT_TOGETHER) as pool:
            found = dict(zip(wanted, pool.map(partial(_kept_base, base), wanted), strict=True))
        entries = {
            path: entry.model_copy(update={"base": found[path]})
            if path in found and alike(found[path], entry.base)
            else entry
            for path, entry in layer.entries.items()
        }
        return layer_of(entries)

    def edited(self, path: str, node: LayerNode, data: bytes) -> LayerNode:
        """Return a file with other bytes, as a person has edited it."""
        kept = self.keep(data, path)
        return file_node(kept.sha256, kept.bytes, blob=kept.blob, mode=node.mode)

    def _read_layer(self, manifest: str) -> Layer:
        return Layer.model_validate_json(self._blobs.read(manifest))

    def _kept(self, reader: Readable, path: str) -> Kept:
        hashed = _Hashed(reader)
        try:
            blob, size = self._blobs.put_stream(hashed, self.max_file_bytes)
        except BlobTooLarge as error:
            raise self._too_large(path) from error
        return Kept(sha256=hashed.sha256.hexdigest(), bytes=size, blob=blob)

    def _too_large(self, path: str) -> SandboxRefusal:
        return SandboxRefusal(f"'{path}' has more than the {self.max_file_bytes} bytes that a file of a layer may have")


def _limit(max_file_bytes: int | None) -> int:
    return MAX_FILE_BYTES if max_file_bytes is None else min(MAX_FILE_BYTES, max_file_bytes)


def _kept_bytes(blobs: BlobStore, data: bytes) -> Kept:
    return Kept(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), blob=blobs.put_bytes(data))


def _kept_base(base: FileBase, path: str) -> LayerNode | None:
    try:
        return base.kept(path)
    except (OSError, SandboxRefusal):
        return None  # no longer a file that can be read, or too large to be shown


class _Hashed:
    """Reader that takes the digest of all that passes: the name of a blob is another one where blobs are sealed."""

    def __init__(self, reader: Readable) -> None:
        self._reader = reader
        self.sha256 = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        data = self._reader.read(size)
        self.sha256.update(data)
        return data
