"""Folders of one command over a layer: laid out before it runs, and read back into the layer afterwards.

Owns how the parts of a worker's tree that a command may reach are found in a layer, where a folder may be that is in
the layer alone. Called by the activities that run commands. Must not run any.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from pathlib import Path, PurePosixPath

from llm_do_temporal.errors import EffectFailed, LayerUnavailable
from llm_do_temporal.policy.files.sandbox import Mount, Place
from llm_do_temporal.policy.layers.draft import LayerDraft
from llm_do_temporal.policy.layers.layer import Layer, LayerAuthor
from llm_do_temporal.policy.layers.nodes import NodeKind
from llm_do_temporal.policy.layers.paths import below, checked_path, lies_below, name_of, parent_of
from llm_do_temporal.policy.layers.view import LayerView
from llm_do_temporal.sandbox.bubblewrap import IsolatedFolder
from llm_do_temporal.sandbox.layers.base_files import BaseFiles
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.layers.kept_lowers import KeptLowers
from llm_do_temporal.sandbox.layers.overlay import CopiedFile, LayerMount, OverlayFolders, overlay_folders, write_node
from llm_do_temporal.sandbox.layers.scratch import scratch_folder
from llm_do_temporal.sandbox.layers.upper import UpperReader, split_links
from llm_do_temporal.storage.blobs import BlobStore

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_MAX_NAMED = 5


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
        return self._without_mount_points(layer, author), tuple(split)

    def _without_mount_points(self, layer: Layer, author: LayerAuthor) -> Layer:
        """Return the layer without what `bwrap` has made to mount a folder or file of the tree within another one."""
        before = LayerView(self.layer, self.base)
        draft = LayerDraft(layer, self.base, author)
        for path in self._mount_points():
            node = draft.look(path)
            if node is None or node.kind is NodeKind.LINK or node.bytes or draft.names(path):
                continue
            if before.kind(path) is None:
                draft.delete(path)
        return draft.layer()

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
            _check_apart(found.parts)
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
            descriptor = opened.enter_context(view.base.folder(at, _FOLDER))
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
        if node is None or node.kind is not NodeKind.FILE:
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
    begin = root_of(view, place.mount)
    return view.followed(begin if place.relative == "." else below(begin, place.relative), begin)


def _is_link(view: LayerView, place: Place) -> bool:
    """Return whether the place itself is a link: a file is changed by its own name only."""
    relative = PurePosixPath(place.relative)
    folder = _followed(view, place.model_copy(update={"relative": str(relative.parent)}))
    return view.kind(below(folder, relative.name)) is NodeKind.LINK


def root_of(view: LayerView, mount: Mount) -> str:
    """Return the path of a mount's folder in a layer; empty for the top. Raises SandboxRefusal."""
    root, base = PurePosixPath(mount.root), PurePosixPath(mount.base)
    named = view.followed(checked_path(mount.base)) if base.parts else ""
    rest = root.relative_to(base).parts if root.is_relative_to(base) else ("..",)
    return checked_path("/".join((*([named] if named else []), *rest))) if named or rest else ""


def _shows_base(view: LayerView, at: str, path: str) -> bool:
    return view.shows_base(below(at, path) if path else below(at, "?"))


def _empty_folder(opened: ExitStack) -> int:
    descriptor = os.open(opened.enter_context(scratch_folder()), _FOLDER | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    return descriptor


def _check_apart(parts: Sequence[_Part]) -> None:
    """Raise LayerUnavailable where two writable folders are the same files, and each would take other changes."""
    writable = [part for part in parts if part.is_writable]
    for number, one in enumerate(writable):
        for other in writable[:number]:
            if one.at == other.at or lies_below(one.at, other.at) or lies_below(other.at, one.at):
                raise LayerUnavailable(
                    f"'{other.folder.place.path}' and '{one.folder.place.path}' are in part the same files, and a "
                    "command over a layer can change them by one name only"
                )


def split_note(paths: Sequence[str]) -> str:
    """Return a remark on files that have several names; empty for none."""
    if not paths:
        return ""
    more = f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else ""
    return (
        f"these were one file with several names, and are files of their own now: {', '.join(paths[:_MAX_NAMED])}{more}"
    )
