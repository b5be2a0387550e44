"""Contents of files in layers, kept in the blob store; and the real files of a workshop as the base of layers.

Bytes are checked by their digest when they come back. Real files are looked at without following any link or leaving
their file system.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import copy
from functools import lru_cache, partial
from pathlib import Path

from llm_do_temporal.errors import DecisionRefused, EffectFailed, SandboxRefusal
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.policy.layers.layer import (
    CarriedLayer,
    FileBase,
    Layer,
    LayerNode,
    LayerUpdate,
    NodeKind,
    alike,
    checked_path,
    file_node,
    folder_node,
    is_file,
    layer_of,
    link_node,
    name_of,
    parent_of,
    shown,
)
from llm_do_temporal.policy.layers.patch import FileHunks, file_hunks
from llm_do_temporal.sandbox.safe_open import OpenBelow, best_way_to_open, check_regular
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

    def keep(self, data: bytes, path: str) -> LayerNode:
        """Keep the bytes of the file at `path`; return a new file with them. Raises SandboxRefusal for too many."""
        if len(data) > self.max_file_bytes:
            raise self._too_large(path)
        return file_node(hashlib.sha256(data).hexdigest(), len(data), blob=self._blobs.put_bytes(data))

    def keep_open(self, descriptor: int, path: str) -> LayerNode:
        """Keep all that the open file has, piece by piece; return a new file with that. Raises SandboxRefusal for too
        much."""
        if os.fstat(descriptor).st_size > self.max_file_bytes:
            raise self._too_large(path)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            hashed = _Hashed(file)
            try:
                blob, size = self._blobs.put_stream(hashed, self.max_file_bytes)
            except BlobTooLarge as error:
                raise self._too_large(path) from error
        return file_node(hashed.sha256.hexdigest(), size, blob=blob)

    def read(self, node: LayerNode, path: str) -> bytes:
        """Return the bytes of a file. Raises EffectFailed where they are not there, or are not those of the file."""
        if not is_file(node) or node.blob is None:
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
        if not (is_file(old) and is_file(new)) or None in (old.blob, new.blob):
            return None
        return file_hunks(self.read(old, path), self.read(new, path))

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
        wanted = without_bases(layer)
        with ThreadPoolExecutor(KEPT_TOGETHER) as pool:
            found = dict(zip(wanted, pool.map(partial(_kept_base, base), wanted), strict=True))
        entries = dict(layer.entries)
        for path, node in found.items():
            if alike(node, entries[path].base):
                entries[path] = entries[path].model_copy(update={"base": node})
        return layer_of(entries)

    def edited(self, path: str, node: LayerNode, data: bytes) -> LayerNode:
        """Return a file with other bytes, as a person has edited it."""
        return self.keep(data, path).with_mode(node.mode)

    def _read_layer(self, manifest: str) -> Layer:
        return Layer.model_validate_json(self._blobs.read(manifest))

    def _too_large(self, path: str) -> SandboxRefusal:
        return SandboxRefusal(f"'{path}' has more than the {self.max_file_bytes} bytes that a file of a layer may have")


def _limit(max_file_bytes: int | None) -> int:
    return MAX_FILE_BYTES if max_file_bytes is None else min(MAX_FILE_BYTES, max_file_bytes)


def without_bases(layer: Layer) -> list[str]:
    """Return the paths of changed files of which the bytes before the change are not kept."""
    return [path for path, one in layer.changes.items() if is_file(one.base) and one.base.blob is None]


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


SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Errors for a path where nothing is, or that lies behind a link."""
_KINDS = {stat.S_IFREG: NodeKind.FILE, stat.S_IFLNK: NodeKind.LINK, stat.S_IFDIR: NodeKind.FOLDER}


class BaseFiles:
    """Files below an open folder, as they are at each moment.

    Methods raise SandboxRefusal for what no layer can hold, and OSError where files cannot be looked at.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        contents: LayerContents | None = None,
        open_below: OpenBelow | None = None,
    ) -> None:
        """`contents` takes in what is kept."""
        self.descriptor = descriptor
        self._contents = contents
        self._open_below = open_below or best_way_to_open()
        self._device = os.fstat(descriptor).st_dev

    @contextmanager
    def folder(self, path: str, flags: int = SEARCH) -> Generator[int]:
        """Open the folder at the path; the top's is empty. Raises OSError, EXDEV for one on another file system."""
        descriptor = self._open_below(self.descriptor, path or ".", flags)
        try:
            if os.fstat(descriptor).st_dev != self._device:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            yield descriptor
        finally:
            os.close(descriptor)

    def kind(self, path: str) -> NodeKind | None:
        """See FileBase."""
        facts = self._facts(path)
        return None if facts is None else _kind_of(facts, path)

    def look(self, path: str) -> LayerNode | None:
        """See FileBase."""
        return self._node(path, None)

    def kept(self, path: str) -> LayerNode | None:
        """See FileBase."""
        return self._node(path, self._contents)

    def names(self, path: str) -> tuple[str, ...]:
        """See FileBase."""
        try:
            with self.folder(path, _FOLDER) as descriptor, os.scandir(descriptor) as entries:
                return tuple(sorted(entry.name for entry in entries))
        except OSError as error:
            if error.errno in _NOT_THERE:
                return ()
            raise

    def _facts(self, path: str) -> os.stat_result | None:
        checked_path(path)
        try:
            with self.folder(parent_of(path)) as folder:
                facts = os.stat(name_of(path), dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise
        if facts.st_dev != self._device:
            raise SandboxRefusal(
                f"'{path}' lies on another file system than the workshop, where no change is committed"
            )
        return facts

    def _node(self, path: str, contents: LayerContents | None) -> LayerNode | None:
        """Return the node at the path, the bytes of a file kept in `contents`; None: they are not."""
        facts = self._facts(path)
        if facts is None:
            return None
        kind = _kind_of(facts, path)
        if kind is NodeKind.FOLDER:
            # What a folder hands on to new files is its own, and stays as it is.
            return folder_node(facts.st_mode & 0o777)
        try:
            if kind is NodeKind.LINK:
                with self.folder(parent_of(path)) as folder:
                    return link_node(os.readlink(name_of(path), dir_fd=folder), path)
            descriptor = self._open_below(self.descriptor, path, _FILE)
        except FileNotFoundError:
            return None
        try:
            facts = check_regular(descriptor)
            mode = stat.S_IMODE(facts.st_mode)
            if contents is not None:
                return contents.keep_open(descriptor, path).with_mode(mode)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
                return file_node(sha256, file.tell(), blob=None, mode=mode)
        finally:
            os.close(descriptor)


@contextmanager
def base_files(
    workshop: Path,
    *,
    contents: LayerContents | None = None,
    open_below: OpenBelow | None = None,
) -> Generator[BaseFiles]:
    """Open the files of a workshop as the base of layers."""
    descriptor = os.open(workshop, SEARCH | os.O_CLOEXEC)
    try:
        yield BaseFiles(descriptor, contents=contents, open_below=open_below)
    finally:
        os.close(descriptor)


def folds_names(base: BaseFiles) -> bool:
    """Return whether the file system takes names in other capitals for the same."""
    with suppress(OSError):
        os.stat(STATE_FOLDER.upper(), dir_fd=base.descriptor, follow_symlinks=False)
        return True
    return False


def _kind_of(facts: os.stat_result, path: str) -> NodeKind:
    kind = _KINDS.get(stat.S_IFMT(facts.st_mode))
    if kind is None:
        raise SandboxRefusal(f"'{shown(path)}' is neither a file nor a link nor a folder, and can be in no layer")
    return kind
