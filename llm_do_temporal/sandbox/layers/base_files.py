"""Base of a layer: the real files of a workshop, looked at without following any link or leaving their file system."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.policy.layers.nodes import (
    FOREIGN,
    FileBase,
    LayerNode,
    NodeKind,
    file_node,
    folder_node,
    link_node,
)
from llm_do_temporal.policy.layers.paths import checked_path, name_of, parent_of, shown
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.safe_open import OpenBelow, best_way_to_open, check_regular

SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Errors for a path where nothing is, or that lies behind a link."""
_CHUNK_BYTES = 1 << 20
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
        kept_bytes: int = 0,
        open_below: OpenBelow | None = None,
    ) -> None:
        """`contents` takes in what is kept: with `look`, files of up to `kept_bytes`, so that they can be compared
        later, wherever that is.
        """
        self.descriptor = descriptor
        self._contents = contents
        self._kept_bytes = kept_bytes
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
        return self._node(path, self._kept_bytes)

    def kept(self, path: str) -> LayerNode | None:
        """See FileBase."""
        return self._node(path, None)

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

    def _node(self, path: str, kept_bytes: int | None) -> LayerNode | None:
        """Return the node at the path, its bytes kept where it has at most so many; None: always."""
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
            if self._contents is not None and (kept_bytes is None or facts.st_size <= kept_bytes):
                kept = self._contents.keep_open(descriptor, path)
                return file_node(kept.sha256, kept.bytes, blob=kept.blob, mode=mode)
            sha256, size = digest_of_open(descriptor)
            return file_node(sha256, size, blob=None, mode=mode)
        finally:
            os.close(descriptor)


class TolerantFiles:
    """Files of a base, where what no layer can hold is a node like no other, and no refusal."""

    def __init__(self, base: FileBase) -> None:
        self._base = base

    def kind(self, path: str) -> NodeKind | None:
        """See FileBase."""
        try:
            return self._base.kind(path)
        except SandboxRefusal:
            return FOREIGN.kind

    def look(self, path: str) -> LayerNode | None:
        """See FileBase."""
        try:
            return self._base.look(path)
        except SandboxRefusal:
            return FOREIGN

    def kept(self, path: str) -> LayerNode | None:
        """See FileBase."""
        try:
            return self._base.kept(path)
        except SandboxRefusal:
            return FOREIGN

    def names(self, path: str) -> tuple[str, ...]:
        """See FileBase."""
        return self._base.names(path)


@contextmanager
def base_files(
    workshop: Path,
    *,
    contents: LayerContents | None = None,
    kept_bytes: int = 0,
    open_below: OpenBelow | None = None,
) -> Generator[BaseFiles]:
    """Open the files of a workshop as the base of layers."""
    descriptor = os.open(workshop, SEARCH | os.O_CLOEXEC)
    try:
        yield BaseFiles(descriptor, contents=contents, kept_bytes=kept_bytes, open_below=open_below)
    finally:
        os.close(descriptor)


def folds_names(base: BaseFiles) -> bool:
    """Return whether the file system takes names in other capitals for the same."""
    with suppress(OSError):
        os.stat(STATE_FOLDER.upper(), dir_fd=base.descriptor, follow_symlinks=False)
        return True
    return False


def digest_of_open(descriptor: int) -> tuple[str, int]:
    """Return the digest and the size in bytes of all that an open file has."""
    hasher = hashlib.sha256()
    size = 0
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        hasher.update(chunk)
        size += len(chunk)
    return hasher.hexdigest(), size


def _kind_of(facts: os.stat_result, path: str) -> NodeKind:
    kind = _KINDS.get(stat.S_IFMT(facts.st_mode))
    if kind is None:
        raise SandboxRefusal(f"'{shown(path)}' is neither a file nor a link nor a folder, and can be in no layer")
    return kind
