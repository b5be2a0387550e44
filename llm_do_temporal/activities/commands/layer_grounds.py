"""Grounds of commands over layers: the layer is whole, its folders are laid out, and the work is taken over.

Called by the activities that run commands on layers. Must not run any.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from llm_do_temporal.activities.commands.ground import Ground, mounted_places, outermost_places
from llm_do_temporal.errors import EffectFailed, LayerUnavailable, SandboxRefusal
from llm_do_temporal.messages.effects import ShellInput
from llm_do_temporal.messages.reviews import LayerWork
from llm_do_temporal.policy.files.sandbox import Place
from llm_do_temporal.policy.layers.layer import NO_LAYER, CarriedLayer, Layer, LayerUpdate
from llm_do_temporal.sandbox.bubblewrap import IsolatedFolder
from llm_do_temporal.sandbox.layers.command_folders import CommandFolders, FolderLayout, split_note
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from llm_do_temporal.sandbox.layers.overlay import KeptLowers, base_problem, overlay_problem
from llm_do_temporal.storage.blobs import BlobStore

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
