"""Ground of a command: the folders that it may reach, open, real or laid out over a layer, and what isolates it.

Owns the way from a worker's tree to these folders. Called by the activities that run commands. Must not judge the
command, nor run it.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath

from llm_do_temporal.errors import EffectFailed, LayerUnavailable, SandboxRefusal
from llm_do_temporal.messages.activities import ShellInput
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.files.sandbox import Place, Tree, join, locate_all
from llm_do_temporal.policy.layers.layer import NO_LAYER, CarriedLayer, Layer, LayerUpdate
from llm_do_temporal.policy.shell import lies_in
from llm_do_temporal.sandbox.bubblewrap import TOP, IsolatedFolder
from llm_do_temporal.sandbox.layers.command_folders import CommandFolders, FolderLayout, split_note
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from llm_do_temporal.sandbox.layers.overlay import KeptLowers, LayerMount, base_problem, overlay_problem
from llm_do_temporal.sandbox.safe_open import WorkshopFolder
from llm_do_temporal.storage.blobs import BlobStore

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


NO_LAYERS = "commands cannot work on changes that are not made yet"
_known_problem = cache(overlay_problem)


class LayerGrounds:
    """Grounds of commands over layers in one workshop."""

    def __init__(
        self, workshop: Path, blobs: BlobStore, problem: Callable[[str | None], str | None] | None = None
    ) -> None:
        """`problem` returns the reason why commands have no layers with a `bwrap`, for machines (and tests) that
        differ; None: it is found by trying, once a process."""
        self._workshop = workshop.resolve()
        self._blobs = blobs
        self._contents = LayerContents(blobs)
        self._problem = problem or _known_problem
        self._fit: set[int] = set()
        self._kept = KeptLowers()

    @contextmanager
    def ground(self, asked: ShellInput, carried: CarriedLayer, bwrap: str | None) -> Generator[Ground]:
        """Lay the worker's folders out over the layer. Raises LayerUnavailable where that is not possible."""
        self._check_problem(bwrap)
        layer = self._contents.whole(carried)
        # All that is laid out here a command can reach; what lies outside of these places is not.
        paths = asked.sandbox_paths
        places = mounted_places(asked.tree) if paths is None else outermost_places(asked.tree, paths)
        with self._laid_out(layer, places, bwrap) as over:
            if paths is None and len(over.parts) < len(places):
                there = {folder.place.path for folder in over.folders}
                missing = next(place.path for place in places if place.path not in there)
                raise EffectFailed(f"the folder '{missing}' does not exist")
            yield Ground(self._workshop, over.folders, bwrap, over)

    @contextmanager
    def judged(self, ground: Ground, closed: Sequence[IsolatedFolder]) -> Generator[Ground]:
        """Lay an overlay over the `closed` ones of the folders. Raises LayerUnavailable where that is not possible."""
        self._check_problem(ground.bwrap)
        since = time.time()
        with self._laid_out(NO_LAYER, [folder.place for folder in closed], ground.bwrap) as over:
            laid = {folder.place.path: folder for folder in over.folders}
            folders = [laid.get(folder.place.path, folder) for folder in ground.folders]
            yield replace(ground, folders=folders, over=over, judged_since=since)

    @contextmanager
    def _laid_out(self, layer: Layer, places: Sequence[Place], bwrap: str | None) -> Generator[CommandFolders]:
        layout = FolderLayout(self._workshop, self._blobs, lambda base: self._check_base(bwrap, base), self._kept)
        with (
            base_files(self._workshop, contents=self._contents) as base,
            layout.laid_out(layer, base, places) as over,
        ):
            yield over

    def taken(self, over: CommandFolders, work: LayerWork) -> tuple[LayerUpdate, str]:
        """Return what a command has changed in the layer, and a remark on that; empty for none.

        Where it left behind what no layer can hold, nothing has changed, and the remark says so.
        """
        try:
            layer, split = over.read_back(work.author)
        except SandboxRefusal as refusal:
            return LayerUpdate(), f"{refusal.message}. {refusal.next_step or ''}".strip()
        return self._contents.update_of(work.carried, over.layer, layer), split_note(split)

    def close(self) -> None:
        """Remove what is kept for further commands."""
        self._kept.close()

    def _check_problem(self, bwrap: str | None) -> None:
        problem = self._problem(bwrap)
        if bwrap is None or problem is not None:
            raise LayerUnavailable(f"{NO_LAYERS}: {problem}")

    def _check_base(self, bwrap: str | None, base: int) -> None:
        device = os.fstat(base).st_dev
        if bwrap is None or device in self._fit:
            return
        problem = base_problem(bwrap, base)
        if problem is not None:
            raise LayerUnavailable(f"{NO_LAYERS}: {problem}")
        self._fit.add(device)
