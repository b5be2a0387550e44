"""Files as a layer changes them: opened, listed and written like a workshop's own, with nothing of it real.

Owns the way from a judged place to a file that may be in the layer, in the workshop, or behind links in either. Called
by the activities whose call works on a layer. What is in the layer is a copy in memory, of the bytes in the blob store;
what is not is opened by `safe_open`'s ways, without a link. Judges as `WorkshopFolder` does, by the same functions.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import BinaryIO

from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.files.sandbox import Place, join
from llm_do_temporal.policy.layers.layer import (
    FileBase,
    LayerEntry,
    LayerNode,
    LayerUpdate,
    NodeKind,
    above,
    below,
    checked_path,
    is_file,
    is_folder,
)
from llm_do_temporal.policy.layers.view import LayerDraft, LayerView
from llm_do_temporal.sandbox.changes import OldFile, SandboxFiles, WorkshopFiles, old_of
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files
from llm_do_temporal.sandbox.os_errors import is_passing, naming
from llm_do_temporal.sandbox.safe_open import (
    FolderEntry,
    OpenBelow,
    best_way_to_open,
    check_regular,
    read_link,
    real_path,
    root_path,
    writing_no_link,
)

_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_IN_THE_WAY = {NodeKind.LINK: errno.ELOOP, NodeKind.FILE: errno.ENOTDIR}


def files_of(
    workshop: Path, work: LayerWork | None, contents: LayerContents, open_below: OpenBelow | None = None
) -> WorkshopFiles | LayeredFiles:
    """Return the files that a call works on: those of a layer, or, where it has none, the workshop's own."""
    if work is None:
        return WorkshopFiles(workshop, open_below)
    return LayeredFiles(workshop, work, contents, open_below)


def update_of(files: SandboxFiles) -> LayerUpdate | None:
    """Return what a call has changed in the layer that it worked on; None: it worked on none."""
    return files.update() if isinstance(files, LayeredFiles) else None


class LayeredFiles:
    """Files of a workshop as a layer changes them, for one call. Methods fail as those of WorkshopFiles do."""

    def __init__(
        self, workshop: Path, work: LayerWork, contents: LayerContents, open_below: OpenBelow | None = None
    ) -> None:
        """Raises EffectFailed where the layer is not in the blob store."""
        self._workshop = workshop
        self._work = work
        self._contents = contents
        self._open_below = open_below or best_way_to_open()
        self._before = self.layer = contents.whole(work.carried)

    def update(self) -> LayerUpdate:
        """Return the changes so far, as the workflow takes them."""
        return self._contents.update_of(self._work.carried, self._before, self.layer)

    @contextmanager
    def file(self, place: Place) -> Generator[BinaryIO]:
        """The regular file at `place`, open for reading bytes."""
        with self.found(place) as (file, _):
            yield file

    @contextmanager
    def found(self, place: Place) -> Generator[tuple[BinaryIO, str]]:
        """The regular file at `place`, open for reading bytes, and its path below the workshop, links followed.

        One of the layer is a copy with its permissions.
        """
        with self._reached(place) as (base, path), ExitStack() as opened:
            node = self._file_node(path)
            if node is None:
                descriptor = opened.enter_context(self._opened(base, path, _FILE))
                check_regular(descriptor)
                file: BinaryIO = opened.enter_context(os.fdopen(descriptor, "rb", closefd=False))
            else:
                file = opened.enter_context(_Copy(self._contents.read(node, place.path), node.mode))
            yield file, path

    def size(self, place: Place) -> int:
        """Return the size in bytes of the regular file at `place`, without its bytes."""
        with self._reached(place) as (base, path):
            node = self._file_node(path)
            if node is not None:
                return node.bytes
            with self._opened(base, path, _FILE) as descriptor:
                return check_regular(descriptor).st_size

    @contextmanager
    def folder(self, place: Place) -> Generator[_LayeredFolder]:
        """The folder at `place`."""
        with self._reached(place) as (base, path):
            folder = _LayeredFolder(self, base, LayerView(self.layer, base), "" if path == "." else path)
            with folder.entries():
                pass  # there is such a folder
            yield folder

    @contextmanager
    def spot(
        self, place: Place, *, apply: bool, create: bool, check: Callable[[str], None] | None = None
    ) -> Generator[_LayerSpot]:
        """Open the place of a file to be written, as WorkshopFiles does.

        Calls that change one layer go one after the other, so nothing is locked; folders are made with the file.
        """
        with naming(place.path), base_files(self._workshop, open_below=self._open_below) as base:
            begin = root_path(place, self._links(base))
            if not PurePosixPath(place.relative).name:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            path = join(begin, place.relative)
            if check is not None:
                check(path)
            with writing_no_link(place.path):
                yield _LayerSpot(self, base, path, place)

    def old(self, base: BaseFiles, path: str, place: Place, max_bytes: int) -> OldFile | None:
        """Return the file that is at the path without following a link, as `Spot.old` does."""
        try:
            node = self._file_node(path)
            if node is None:
                with self._opened(base, path, _FILE) as descriptor:
                    return old_of(descriptor, max_bytes)
        except FileNotFoundError:
            return None
        data = self._contents.read(node, place.path)
        return OldFile(data=data[: max_bytes + 1], size=node.bytes, mode=node.mode, sha256=node.sha256)

    def write(self, base: FileBase, path: str, data: bytes, place: Place) -> None:
        """Have the file in the layer, with the folders it needs and the permissions of the one that is there."""
        draft = LayerDraft(self.layer, base, self._work.author)
        draft.write(path, self._contents.limited_to(place.mount.max_file_bytes).keep(data, place.path))
        self.layer = draft.layer()

    def node(self, path: str) -> LayerNode | None:
        """Return the layer's node at the path; None: what the workshop has is seen there.

        Raises OSError as opening it would: ENOENT where nothing is, ELOOP and ENOTDIR where a link or a file of the
        layer is on the way.
        """
        entries = self.layer.entries
        hidden = False
        for folder in reversed(list(above(path))):
            over = entries.get(folder)
            if over is None:
                continue
            if over.now is None or over.now.kind in _IN_THE_WAY:
                raise _error(errno.ENOENT if over.now is None else _IN_THE_WAY[over.now.kind])
            hidden = hidden or not is_folder(over.base)
        entry = entries.get(path)
        if entry is None:
            if hidden:
                raise _error(errno.ENOENT)
            return None
        if entry.now is None:
            raise _error(errno.ENOENT)
        return None if _is_left(entry) else entry.now

    def has(self, path: str) -> bool:
        """Return whether the layer itself has something other than a folder at the path below the workshop."""
        entry = self.layer.entries.get(path)
        return entry is not None and entry.now is not None and not is_folder(entry.now)

    def scanned(self, base: BaseFiles, view: LayerView, path: str, opened: ExitStack) -> Iterator[FolderEntry]:
        """Return what the workshop has in a folder, as far as it is seen through the layer, and as it is now."""
        node = self.node(path) if path else None
        if node is not None and node.kind is not NodeKind.FOLDER:
            raise _error(_IN_THE_WAY[node.kind])
        if not view.shows_base(below(path, "any")):
            return iter(())
        try:
            descriptor = opened.enter_context(self._opened(base, path or ".", _FOLDER))
        except OSError as error:
            if node is None or is_passing(error):
                raise
            return iter(())
        return opened.enter_context(os.scandir(descriptor))

    @contextmanager
    def _opened(self, base: BaseFiles, path: str, flags: int) -> Generator[int]:
        descriptor = self._open_below(base.descriptor, path, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _file_node(self, path: str) -> LayerNode | None:
        """Return the layer's file at the path; None as `node` does. Raises OSError for what is no file."""
        node = self.node(path)
        if node is not None and node.kind is not NodeKind.FILE:
            raise _error(errno.EISDIR if node.kind is NodeKind.FOLDER else errno.ELOOP)
        return node

    @contextmanager
    def _reached(self, place: Place) -> Generator[tuple[BaseFiles, str]]:
        """The workshop's files, and the path of the place below them with links followed."""
        with naming(place.path), base_files(self._workshop, open_below=self._open_below) as base:
            begin = root_path(place, self._links(base))
            yield base, _joined(begin, real_path(place, begin, self._links(base, begin)))

    def _links(self, base: BaseFiles, begin: str = ".") -> Callable[[str, str], str | None]:
        return partial(self._read_link, base, begin)

    def _read_link(self, base: BaseFiles, begin: str, folder: str, name: str) -> str | None:
        """Return the target of a link of the layer, or of the workshop; None where there is none."""
        folder = _joined(begin, folder)
        try:
            node = self.node(_joined(folder, name))
        except (FileNotFoundError, NotADirectoryError):
            return None  # opening the whole path will say so
        if node is not None:
            return node.target if node.kind is NodeKind.LINK else None
        return read_link(base.descriptor, folder, name, self._open_below)


@dataclass(frozen=True)
class _LayeredFolder:
    files: LayeredFiles
    base: BaseFiles
    view: LayerView
    path: str

    @contextmanager
    def entries(self, relative: str = ".") -> Generator[Iterator[FolderEntry]]:
        path = str(PurePosixPath(self.path) / relative) if relative != "." else self.path
        own = self.view.entries_in(path)
        with ExitStack() as opened:
            there = self.files.scanned(self.base, self.view, path, opened)
            kept = (_Entry(name, one.now) for name, one in own.items() if one.now is not None and not _is_left(one))
            others = (one for one in there if one.name not in own or _is_left(own[one.name]))
            yield chain(kept, others)


@dataclass(frozen=True)
class _Entry:
    """Entry of a folder that the layer has; see FolderEntry."""

    name: str
    node: LayerNode

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return self.node.kind is NodeKind.FOLDER

    def is_file(self, *, follow_symlinks: bool) -> bool:
        return self.node.kind is NodeKind.FILE

    def is_symlink(self) -> bool:
        return self.node.kind is NodeKind.LINK

    def stat(self, *, follow_symlinks: bool) -> _Entry:
        return self

    @property
    def st_size(self) -> int:
        return self.node.bytes


@dataclass
class _LayerSpot:
    """File that a call may write to; see Spot."""

    files: LayeredFiles
    base: BaseFiles
    in_workshop: str
    place: Place

    def old(self, max_bytes: int) -> OldFile | None:
        old = self.files.old(self.base, self.in_workshop, self.place, max_bytes)
        # Judged by the virtual path first: the real one is none of a model's business.
        checked_path(self.place.path.lstrip("/"))
        checked_path(self.in_workshop)
        return old

    def replace(self, data: bytes, old: OldFile | None) -> None:
        self.files.write(self.base, self.in_workshop, data, self.place)


def _is_left(entry: LayerEntry) -> bool:
    """Return whether the layer leaves a path as it is, and has no bytes of it: a change that was taken back."""
    return not entry.is_change and is_file(entry.now) and entry.now.blob is None


class _Copy(BytesIO):
    """File of a layer, open for reading, which gets a descriptor when one is asked for: most calls want the bytes.

    The descriptor has no name, the file's bytes and permissions, and no place on a disk where the system can do that.
    """

    def __init__(self, data: bytes, mode: int) -> None:
        super().__init__(data)
        self._mode = mode
        self._real: BinaryIO | None = None

    def fileno(self) -> int:
        if self._real is None:
            if hasattr(os, "memfd_create"):
                self._real = os.fdopen(os.memfd_create("layer", os.MFD_CLOEXEC), "w+b")
            else:
                self._real = TemporaryFile()  # noqa: SIM115 - closed with this file
            self._real.write(self.getbuffer())
            self._real.flush()
            os.fchmod(self._real.fileno(), self._mode)
            self._real.seek(0)
        return self._real.fileno()

    def close(self) -> None:
        if self._real is not None:
            self._real.close()
        super().close()


def _joined(folder: str, relative: str) -> str:
    """Return what `join` does, for paths of which each is normal: reading asks for it some times for every part."""
    return folder if relative == "." else relative if folder == "." else f"{folder}/{relative}"


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
