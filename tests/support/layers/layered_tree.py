"""A workshop of which some files are in a layer only, with the file activities as a call on that layer has them.

Tests put files into a folder and look at it as ever. Before each call the folder is taken apart into other files and a
layer over them that together show the same, and what the call changes in the layer is made real there afterwards.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from llm_do_temporal.activities.files import FileActivities
from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.layers.layer import (
    NO_LAYER,
    CarriedLayer,
    Layer,
    LayerNode,
    LayerUpdate,
    NodeKind,
    above,
    checked_path,
    folder_node,
    link_node,
)
from llm_do_temporal.policy.layers.view import LayerDraft
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from tests.support.workshops.file_tree import Files
from tests.support.workshops.layered import EDITOR, MemoryBlobs

GONE = "gone from the layer"
"""Name of a file that is below each folder of the base, and that the layer removes."""


@dataclass
class LayeredTree(Files):
    """Files of which all that `in_layer` says of their path are in a layer."""

    in_layer: Callable[[str], bool] = bool
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    base: Path = Path()
    """Folder that the activities work on."""

    def __post_init__(self) -> None:
        self.base = self.workshop.with_name("base")
        self.contents = LayerContents(self.blobs)
        self.activities = FileActivities(self.base, self.blobs, self.open_below)

    def run(self, activity: Callable[[Any], Any], asked: Any) -> Any:
        layer = self._taken_apart()
        before = _facts(self.base)
        travelled = CarriedLayer(manifest=self.contents.manifest_of(layer))
        work = LayerWork(carried=travelled, author=EDITOR)
        asked = asked.model_copy(update={"layer": LayerWork.model_validate_json(work.model_dump_json())})
        try:
            result = super().run(activity, asked)
        finally:
            assert _facts(self.base) == before, "a call on a layer changed the files below it"
        update: LayerUpdate | None = getattr(result, "layer", None)
        if update is None:
            return result
        self._make_real(self.contents.whole(travelled.updated(update)).updates_since(layer))
        return result.model_copy(update={"layer": None})

    def _taken_apart(self) -> Layer:
        if self.base.exists():
            shutil.rmtree(self.base)
        if not self.workshop.exists():
            return NO_LAYER
        self.base.mkdir()
        mine = self._mine()
        for path in _below(self.workshop):
            if path not in mine:
                self._put_below(path)
        for folder in [self.base, *(path for path in self.base.rglob("*") if _is_folder(path))]:
            (folder / GONE).write_text(GONE)
        with base_files(self.base) as base:
            draft = LayerDraft(NO_LAYER, base, EDITOR)
            for path in sorted(mine):
                draft.put(path, self._node(path))
            for path in self.base.rglob(GONE):
                relative = str(path.relative_to(self.base))
                if not _is_own(relative):
                    draft.delete(relative)
            return draft.layer()

    def _mine(self) -> set[str]:
        """Return the paths that are in the layer; a folder that has something beside it is in the base."""
        mine: set[str] = set()
        others: set[str] = set()
        for path in reversed(list(_below(self.workshop))):
            real = self.workshop / path
            can_be = not _is_own(path) and (real.is_symlink() or real.is_file() or real.is_dir())
            if can_be and path not in others and self.in_layer(path):
                mine.add(path)
            else:
                others.update((path, *above(path)))
        return mine

    def _node(self, path: str) -> LayerNode:
        real = self.workshop / path
        if real.is_symlink():
            return link_node(str(real.readlink()), path)
        mode = stat.S_IMODE(real.stat().st_mode)
        if real.is_dir():
            return folder_node(mode)
        return self.contents.edited(path, LayerNode(kind=NodeKind.FILE, mode=mode), real.read_bytes())

    def _put_below(self, path: str) -> None:
        """Put what is no part of the layer into the base, as it is."""
        real, target = self.workshop / path, self.base / path
        mode = real.lstat().st_mode
        if stat.S_ISLNK(mode):
            target.symlink_to(real.readlink())
        elif stat.S_ISDIR(mode):
            target.mkdir(exist_ok=True)
        elif stat.S_ISREG(mode):
            shutil.copy2(real, target)
        else:
            os.mkfifo(target)

    def _make_real(self, changes: Layer) -> None:
        for path, entry in changes.entries.items():
            real = self.workshop / path
            assert entry.author == EDITOR
            assert entry.now is not None
            if entry.now.kind is NodeKind.FOLDER:
                real.mkdir(exist_ok=True)
            else:
                real.write_bytes(self.contents.read(entry.now, path))
            real.chmod(entry.now.mode)


def half(path: str) -> bool:
    """Choose half of all paths, always the same ones."""
    return crc32(path.encode("utf-8", "surrogateescape")) % 2 == 0


def _facts(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = ((path, (folder / path).lstat()) for path in _below(folder))
    return {path: (facts.st_mode, facts.st_size, facts.st_mtime_ns) for path, facts in found}


def _below(folder: Path) -> Iterator[str]:
    return (str(path.relative_to(folder)) for path in sorted(folder.rglob("*")))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_own(path: str) -> bool:
    """Return whether no layer can have the path."""
    try:
        checked_path(path)
    except SandboxRefusal:
        return True
    return False
