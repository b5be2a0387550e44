"""Ground of a command: the folders that it may reach, open, and the program that isolates it.

Owns the way from a worker's tree to these folders. Called by the activities that run commands. Must not judge the
command, nor run it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.policy.files.sandbox import Place, Tree, join, locate_all
from llm_do_temporal.policy.shell import lies_in
from llm_do_temporal.sandbox.bubblewrap import TOP, IsolatedFolder
from llm_do_temporal.sandbox.layers.command_folders import CommandFolders
from llm_do_temporal.sandbox.layers.overlay import LayerMount
from llm_do_temporal.sandbox.safe_open import WorkshopFolder

_LOOKED_AT = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Ground:
    """Folders and isolation that a command is to run with."""

    workshop: Path
    folders: list[IsolatedFolder]
    """All folders that the command may reach; without isolation, the first is its working folder."""
    bwrap: str | None
    """Path of the program that isolates the command; None: it runs without isolation."""
    over: CommandFolders | None = None
    """Folders among these that are seen through an overlay; None: all are the real ones."""
    judged_since: float | None = None
    """Time, as `time.time()`, at which these were laid out, where no layer takes what the command writes, and the real
    files take what `write_file` may write; None: there is a layer, or no overlay."""
    no_new_files: str = ""
    """Reason why the command can make no files in some of the folders, and what to do; empty where it can."""

    @property
    def mounts(self) -> Mapping[str, LayerMount]:
        """Mounts of the folders that are seen through a layer, by virtual path."""
        return {} if self.over is None else self.over.mounts

    def virtual(self, text: str) -> str:
        """Return what a command wrote with its folder under its virtual name."""
        first = self.folders[0]
        real, virtual = (TOP, "/") if self.bwrap is not None else (str(first.path), first.place.path)
        top = virtual.rstrip("/")
        text = re.sub(rf"(?<![\w.-]){re.escape(real)}(?=/\w)", lambda _: top, text)
        return re.sub(rf"(?<![\w.-]){re.escape(real)}(?![\w.-])", lambda _: virtual, text)


class OpenFolders:
    """Real folders of one workshop, opened for commands."""

    def __init__(self, workshop: Path) -> None:
        self._workshop = workshop
        self._folder = WorkshopFolder(workshop)

    def whole(self, tree: Tree, opened: ExitStack) -> list[IsolatedFolder]:
        """Open all folders of a tree."""
        return [self._opened(place, opened) for place in mounted_places(tree)]

    def _opened(self, place: Place, opened: ExitStack) -> IsolatedFolder:
        folder = opened.enter_context(self._folder.folder(place))
        return IsolatedFolder(
            descriptor=folder.descriptor,
            path=self._workshop / folder.in_workshop,
            place=place,
            in_workshop=folder.in_workshop,
        )

    def parts(self, tree: Tree, allowed: Sequence[str], opened: ExitStack) -> list[IsolatedFolder]:
        """Open the parts of the tree at these virtual paths, each once; none for a path where there is nothing."""
        found: list[IsolatedFolder] = []
        for place in outermost_places(tree, allowed):
            try:
                found.append(self._opened(place, opened))
            except EffectFailed:
                if (file := self._opened_file(place, opened)) is not None:
                    found.append(file)
        return found

    def _opened_file(self, place: Place, opened: ExitStack) -> IsolatedFolder | None:
        """The one file at `place`, itself and no link, or None where there is none."""
        above = PurePosixPath(place.relative).parent
        try:
            folder = self._opened(place.model_copy(update={"relative": str(above)}), opened)
            name = PurePosixPath(place.relative).name
            descriptor = os.open(name, _LOOKED_AT, dir_fd=folder.descriptor)
        except (EffectFailed, OSError):
            return None
        opened.callback(os.close, descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        in_workshop = join(folder.in_workshop, name)
        return IsolatedFolder(
            descriptor=descriptor, path=self._workshop / in_workshop, place=place, in_workshop=in_workshop
        )


def mounted_places(tree: Tree) -> list[Place]:
    """Return the places of all mounts of a tree."""
    return [Place(mount=mount, relative=".", path=mount.at) for mount in tree.mounts]


def outermost_places(tree: Tree, allowed: Sequence[str]) -> list[Place]:
    """Return the places of these virtual paths, without those below another; for `/` of several mounts, all mounts."""
    outer = [
        path for path in dict.fromkeys(allowed) if not any(path != one and lies_in(path, [one]) for one in allowed)
    ]
    places: list[Place] = []
    for path in outer:
        try:
            _virtual_path, found = locate_all(tree, path)
        except SandboxRefusal:
            continue  # outside of the worker's files
        places += found
    return places
