"""Folders of one command over a layer: laid out before it runs, and read back into the layer afterwards.

Owns how the parts of a worker's tree that a command may reach are found in a layer, where a folder may be that is in
the layer alone; and the meaning of what overlayfs leaves in the upper folder: a device 0/0 where something was deleted,
a mark on a folder that has nothing to do with the one below it, a whole copy of each file that was touched. Reads on
descriptors, without following a link, and needs no mount. What no layer can hold is refused by name, and then nothing
of the command counts: half of its work would be worse than none. Called by the activities that run commands. Must not
run any.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from pathlib import Path, PurePosixPath
from threading import BoundedSemaphore

from llm_do_temporal.errors import EffectFailed, LayerUnavailable, SandboxRefusal
from llm_do_temporal.policy.files.sandbox import Place
from llm_do_temporal.policy.layers.layer import (
    FileBase,
    Layer,
    LayerAuthor,
    LayerNode,
    NodeKind,
    alike,
    below,
    check_count,
    checked_path,
    folder_node,
    is_file,
    is_folder,
    lies_below,
    link_node,
    name_of,
    parent_of,
    shown,
)
from llm_do_temporal.policy.layers.view import LayerDraft, LayerView
from llm_do_temporal.sandbox.bubblewrap import IsolatedFolder
from llm_do_temporal.sandbox.layers.contents import KEPT_TOGETHER, BaseFiles, LayerContents
from llm_do_temporal.sandbox.layers.overlay import (
    CopiedFile,
    KeptLowers,
    LayerMount,
    OverlayFolders,
    overlay_folders,
    scratch_folder,
    write_node,
)
from llm_do_temporal.storage.blobs import BlobStore

MAX_NAMED = 5
"""Most files that one refusal names."""
MAX_REFUSED = 100
"""Refused files after which no others are looked at: a command can leave any number behind."""
MAX_DEPTH = 200
"""Most folders within each other: each is open while it is read."""
OPAQUE = frozenset({"user.overlay.opaque", "trusted.overlay.opaque"})
ELSEWHERE = (".overlay.redirect", ".overlay.metacopy", ".overlay.whiteout")
"""Ends of the names of marks that say that the truth is not in this folder; overlays are mounted without them."""
_POWERS = "security.capability"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SET_ID = stat.S_ISUID | stat.S_ISGID


class UpperReader:
    """Reads upper folders into layers."""

    def __init__(self, base: FileBase, contents: LayerContents) -> None:
        self._base = base
        self._contents = contents

    def read(self, upper: Path, layer: Layer, author: LayerAuthor, at: str = "", *, with_mode: bool = False) -> Layer:
        """Return the layer with all that the upper folder changes; `at` is the path that it lay over, empty for the
        top. With `with_mode` its own permissions count, too; those of the top are in no layer.

        Raises SandboxRefusal, which names up to five files, for what no layer can hold.
        """
        draft = LayerDraft(layer, self._base, author)
        with ThreadPoolExecutor(KEPT_TOGETHER) as pool:
            reading = _Reading(draft, self._contents, pool)
            with suppress(_TooManyRefused), _opened(str(upper), None) as descriptor:
                if with_mode and at:
                    _put(at, folder_node(os.fstat(descriptor).st_mode & 0o777), draft)
                reading.read_folder(descriptor, at, 0)
                reading.take_files()
        refused = reading.refused
        if refused:
            count = f"{len(refused) - MAX_NAMED} more" if len(refused) < MAX_REFUSED else "many more"
            more = f", and {count}" if len(refused) > MAX_NAMED else ""
            raise SandboxRefusal(
                f"nothing that the command wrote was taken over: {'; '.join(refused[:MAX_NAMED])}{more}",
                next_step="Run it again in a way that leaves nothing of this behind.",
            )
        return draft.layer()


class _TooManyRefused(Exception):
    """So much is refused that nobody has to know of more."""


@dataclass
class _Reading:
    """Reading of one upper folder: what it makes of the layer, and what is refused."""

    draft: LayerDraft
    contents: LayerContents
    pool: ThreadPoolExecutor
    refused: list[str] = field(default_factory=list[str])
    files: list[tuple[str, int, Future[LayerNode]]] = field(default_factory=list[tuple[str, int, Future[LayerNode]]])
    """Path and permissions of each file, and its bytes on their way into the store."""
    room: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(2 * KEPT_TOGETHER))
    """Files that may be open at a time."""

    def read_folder(self, folder: int, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.refused.append(f"'{path[:80]}…' lies in more than {MAX_DEPTH} folders")
            return
        if not OPAQUE.isdisjoint(self._marks(folder, path)):
            for name in self.draft.names(path):
                with self._refusing(path):
                    self.draft.delete(below(path, name))
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            inner = below(path, name)
            with self._refusing(inner):
                checked_path(inner)
                self._read_entry(folder, name, inner, depth)

    def _read_entry(self, folder: int, name: str, path: str, depth: int) -> None:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind = stat.S_IFMT(facts.st_mode)
        if kind == stat.S_IFCHR and facts.st_rdev == 0:
            if self.draft.kind(path) is not None:
                self.draft.delete(path)
        elif kind == stat.S_IFDIR:
            with _opened(name, folder) as inner:
                _put(path, folder_node(facts.st_mode & 0o777), self.draft)
                self.read_folder(inner, path, depth + 1)
        elif kind == stat.S_IFLNK:
            _put(path, link_node(os.readlink(name, dir_fd=folder), path), self.draft)
        elif kind == stat.S_IFREG:
            self._read_file(folder, name, path)
        else:
            self.refused.append(f"'{path}' is neither a file nor a link nor a folder")

    def _read_file(self, folder: int, name: str, path: str) -> None:
        descriptor = os.open(name, _FILE, dir_fd=folder)
        with ExitStack() as opened:
            opened.callback(os.close, descriptor)
            mode = os.fstat(descriptor).st_mode
            if mode & _SET_ID or _POWERS in self._marks(descriptor, path):
                self.refused.append(f"'{path}' would run with other rights than those of whoever runs it")
                return
            check_count(len(self.files) + 1)
            self.room.acquire()
            self.files.append((path, mode & 0o777, self.pool.submit(self._keep, descriptor, path)))
            opened.pop_all()

    def _keep(self, descriptor: int, path: str) -> LayerNode:
        try:
            return self.contents.keep_open(descriptor, path)
        finally:
            os.close(descriptor)
            self.room.release()

    def take_files(self) -> None:
        """Put the files into the layer, once all else is in it."""
        for path, mode, keeping in self.files:
            with self._refusing(path):
                _put(path, keeping.result().with_mode(mode), self.draft)

    @contextmanager
    def _refusing(self, path: str) -> Generator[None]:
        try:
            yield
        except SandboxRefusal as error:
            self.refused.append(shown(str(error)))
        except PermissionError:
            self.refused.append(f"'{shown(path)}' cannot be read with the permissions that it has")
        if len(self.refused) >= MAX_REFUSED:
            raise _TooManyRefused

    def _marks(self, descriptor: int, path: str) -> Iterable[str]:
        """Return the names of the extended attributes; those that say that the truth is elsewhere are refused."""
        found = marks_of(descriptor)
        if any(name.endswith(ELSEWHERE) for name in found):
            self.refused.append(f"'{path or '.'}' is only a reference to another file")
        return found


def marks_of(file: int | Path) -> Sequence[str]:
    """Return the names of the extended attributes of a file or folder, which is open or has this path; none where the
    file system has none. Raises OSError."""
    if not hasattr(os, "listxattr"):
        return ()
    try:
        return os.listxattr(file)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return ()
        raise


def split_links(upper: Path) -> tuple[str, ...]:
    """Return the paths, sorted, of files that have several names below the folder: a layer takes each for its own."""
    names: dict[int, list[str]] = {}
    for folder, _folders, files in os.walk(upper):
        for name in files:
            facts = (Path(folder) / name).lstat()
            if facts.st_nlink > 1 and stat.S_ISREG(facts.st_mode):
                names.setdefault(facts.st_ino, []).append(shown(str((Path(folder) / name).relative_to(upper))))
    return tuple(sorted(path for paths in names.values() if len(paths) > 1 for path in paths))


def _put(path: str, node: LayerNode, draft: LayerDraft) -> None:
    """Have the node at the path, where it is not already; a folder goes with all that is in it for what is none."""
    if draft.kind(path) is NodeKind.FOLDER and not is_folder(node):
        draft.delete(path)
    if not alike(draft.look(path), node):
        draft.put(path, node)


@contextmanager
def _opened(path: str, folder: int | None) -> Generator[int]:
    descriptor = os.open(path, _FOLDER, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


_ANY_FOLDER = os.O_RDONLY | os.O_DIRECTORY


@dataclass(frozen=True)
class _Part:
    """Folder or file of the command, and where it is in the layer."""

    folder: IsolatedFolder
    at: str
    mount: LayerMount
    contents: LayerContents

    @property
    def is_writable(self) -> bool:
        return not self.folder.place.mount.readonly


@dataclass
class CommandFolders:
    """Folders of a command, laid out."""

    layer: Layer
    base: BaseFiles
    parts: list[_Part] = field(default_factory=list[_Part])

    @property
    def folders(self) -> list[IsolatedFolder]:
        """The folders, with descriptors of those below the layer."""
        return [part.folder for part in self.parts]

    @property
    def mounts(self) -> dict[str, LayerMount]:
        """Mounts by virtual path."""
        return {part.folder.place.path: part.mount for part in self.parts}

    def read_back(self, author: LayerAuthor) -> tuple[Layer, tuple[str, ...]]:
        """Return the layer after the command, and files that have several names, which a layer takes for several files.

        Raises SandboxRefusal where the command left behind what no layer can hold: then nothing of it counts.
        """
        layer = self.layer
        split: list[str] = []
        for part in self.parts:
            if not part.is_writable:
                continue
            overlay = part.mount.overlay
            reader = UpperReader(self.base, part.contents)
            if isinstance(overlay, CopiedFile):
                layer = reader.read(overlay.upper, layer, author, parent_of(part.at))
            else:
                layer = reader.read(overlay.upper, layer, author, part.at, with_mode=True)
                split += [f"{part.folder.place.path.rstrip('/')}/{one}" for one in split_links(overlay.upper)]
        # `bwrap` has made folders and files to mount those of the tree within another one.
        before = LayerView(self.layer, self.base)
        draft = LayerDraft(layer, self.base, author)
        for path in self._mount_points():
            node = draft.look(path)
            if node is None or node.kind is NodeKind.LINK or node.bytes or draft.names(path):
                continue
            if before.kind(path) is None:
                draft.delete(path)
        return draft.layer(), tuple(split)

    def _mount_points(self) -> list[str]:
        """Paths in the layer where parts lie within others, with the folders above them, the innermost first."""
        found: set[str] = set()
        for outer, inner in permutations(self.parts, 2):
            top, path = PurePosixPath(outer.folder.place.path), PurePosixPath(inner.folder.place.path)
            if outer.is_writable and path != top and path.is_relative_to(top):
                names = path.relative_to(top).parts
                found |= {below(outer.at, "/".join(names[:depth])) for depth in range(1, len(names) + 1)}
        return sorted(found, reverse=True)


class FolderLayout:
    """Layout of folders for commands over layers in one workshop."""

    def __init__(
        self,
        workshop: Path,
        blobs: BlobStore,
        check_base: Callable[[int], None] | None = None,
        kept: KeptLowers | None = None,
    ) -> None:
        """`check_base` raises LayerUnavailable where nothing can be laid over an open folder. `kept` has folders of
        earlier commands; None: all is written anew."""
        self._kept = kept
        self._workshop = workshop
        self._blobs = blobs
        self._check_base = check_base

    @contextmanager
    def laid_out(self, layer: Layer, base: BaseFiles, places: Sequence[Place]) -> Generator[CommandFolders]:
        """Lay out these places of a tree; those where neither a folder nor a file is are left out.

        Raises LayerUnavailable where a command cannot work on them, SandboxRefusal where a place leads out of its
        mount.
        """
        view = LayerView(layer, base)
        found = CommandFolders(layer, base)
        with ExitStack() as opened:
            for place in places:
                at = _followed(view, place)
                kind = view.kind(at)
                contents = LayerContents(self._blobs, place.mount.max_file_bytes)
                if kind is NodeKind.FOLDER:
                    found.parts.append(self._folder(view, layer, place, at, contents, opened))
                elif kind is NodeKind.FILE and not _is_link(view, place):
                    found.parts.append(self._file(view, place, at, contents, opened))
            # Two writable folders may be the same files, and each would take other changes.
            writable = [part for part in found.parts if part.is_writable]
            for number, one in enumerate(writable):
                for other in writable[:number]:
                    if one.at == other.at or lies_below(one.at, other.at) or lies_below(other.at, one.at):
                        raise LayerUnavailable(
                            f"'{other.folder.place.path}' and '{one.folder.place.path}' are in part the same files, "
                            "and a command over a layer can change them by one name only"
                        )
            yield found

    def _folder(
        self, view: LayerView, layer: Layer, place: Place, at: str, contents: LayerContents, opened: ExitStack
    ) -> _Part:
        is_below = not at or (view.shows_base(below(at, "?")) and view.base.kind(at) is NodeKind.FOLDER)
        descriptor = self._base_folder(view, at, place, opened) if is_below else _empty_folder(opened)
        overlay: OverlayFolders = opened.enter_context(
            overlay_folders(layer, view.base, contents, at=at, kept=self._kept)
        )
        mount = LayerMount(overlay, tuple(view.names(at)), partial(_shows_base, view, at))
        return _Part(self._isolated(descriptor, place, at), at, mount, contents)

    def _base_folder(self, view: LayerView, at: str, place: Place, opened: ExitStack) -> int:
        assert isinstance(view.base, BaseFiles)
        try:
            descriptor = opened.enter_context(view.base.folder(at, _ANY_FOLDER))
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise LayerUnavailable(
                f"'{place.path}' lies on another file system than the workshop, where no command works on a layer"
            ) from error
        if self._check_base is not None:
            self._check_base(descriptor)
        return descriptor

    def _file(self, view: LayerView, place: Place, at: str, contents: LayerContents, opened: ExitStack) -> _Part:
        upper = opened.enter_context(scratch_folder())
        node = view.look(at)
        if node is not None and node.blob is None:
            node = view.base.kept(at)
        if not is_file(node):
            raise EffectFailed(f"'{place.path}' has just been removed")
        write_node(upper / name_of(at), node, at, contents)
        mount = LayerMount(CopiedFile(upper, name_of(at)), (), lambda _path: False)
        return _Part(self._isolated(_empty_folder(opened), place, at), at, mount, contents)

    def _isolated(self, descriptor: int, place: Place, at: str) -> IsolatedFolder:
        return IsolatedFolder(descriptor=descriptor, path=self._workshop / at, place=place, in_workshop=at or ".")


def _followed(view: LayerView, place: Place) -> str:
    """Return the path in the layer that a place comes to.

    Links on the way to the folder that the author named are the author's; those below the mount stay inside of it.
    """
    # The path of the mount's folder in the layer; empty for the top.
    root, base = PurePosixPath(place.mount.root), PurePosixPath(place.mount.base)
    named = view.followed(checked_path(place.mount.base)) if base.parts else ""
    rest = root.relative_to(base).parts if root.is_relative_to(base) else ("..",)
    begin = checked_path("/".join((*([named] if named else []), *rest))) if named or rest else ""
    return view.followed(begin if place.relative == "." else below(begin, place.relative), begin)


def _is_link(view: LayerView, place: Place) -> bool:
    """Return whether the place itself is a link: a file is changed by its own name only."""
    relative = PurePosixPath(place.relative)
    folder = _followed(view, place.model_copy(update={"relative": str(relative.parent)}))
    return view.kind(below(folder, relative.name)) is NodeKind.LINK


def _shows_base(view: LayerView, at: str, path: str) -> bool:
    return view.shows_base(below(at, path) if path else below(at, "?"))


def _empty_folder(opened: ExitStack) -> int:
    descriptor = os.open(opened.enter_context(scratch_folder()), _ANY_FOLDER | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    return descriptor


def split_note(paths: Sequence[str]) -> str:
    """Return a remark on files that have several names; empty for none."""
    if not paths:
        return ""
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return (
        f"these were one file with several names, and are files of their own now: {', '.join(paths[:MAX_NAMED])}{more}"
    )
