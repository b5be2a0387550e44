"""Folders with layers, kept from one command to the next of the same process.

A layer that a command begins with is nearly that of the command before. Files that are the same in both are linked, not
written again; a folder is never changed once a command has seen it. They are a help to memory and nothing else: without
them all is written anew.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from uuid import uuid4

from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind
from llm_do_temporal.sandbox.layers.scratch import remove_folder, scratch_folder

MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Largest layer that is kept: it takes room among the temporary files for as long as the process runs."""
_MAX_FOLDERS = 4


@dataclass(frozen=True)
class KeptLower:
    """Folder with a layer that a command has seen."""

    folder: Path
    nodes: Mapping[str, LayerNode]
    """Files of the layer by their paths below the workshop."""

    def linked(self, path: str, relative: str, node: LayerNode, target: Path) -> bool:
        """Link the file at `relative` in the folder to `target` where it is this node; return whether it was."""
        if self.nodes.get(path) != node:
            return False
        with suppress(OSError):
            os.link(f"{self.folder}/{relative}", target, follow_symlinks=False)
            return True
        return False


@dataclass
class KeptLowers:
    """Kept folders of one process, the last one for each folder of the workshop."""

    _kept: dict[str, KeptLower] = field(default_factory=dict[str, KeptLower])
    _lock: Lock = field(default_factory=Lock)
    _opened: ExitStack = field(default_factory=ExitStack)
    _scratch: Path | None = None

    def __post_init__(self) -> None:
        # The folder is not needed any more when nobody has this.
        self._end = weakref.finalize(self, self._opened.close)

    def take(self, at: str) -> KeptLower | None:
        """Return the folder that was kept last for the part below `at`, for the caller alone; None: there is none."""
        with self._lock:
            return self._kept.pop(at, None)

    def keep(self, at: str, lower: Path, layer: Mapping[str, LayerNode | None]) -> None:
        """Move the folder with the part of a layer below `at` here, where it is not too large."""
        nodes = {path: one for path, one in layer.items() if one is not None and one.kind is NodeKind.FILE}
        if sum(node.bytes for node in nodes.values()) > MAX_KEPT_BYTES:
            return
        with self._lock:
            if self._scratch is None:
                self._scratch = self._opened.enter_context(scratch_folder())
            folder = self._scratch / uuid4().hex
            with suppress(OSError):
                lower.rename(folder)
                dropped = [self._kept.pop(at, None)]
                if len(self._kept) >= _MAX_FOLDERS:
                    dropped.append(self._kept.pop(next(iter(self._kept))))
                self._kept[at] = KeptLower(folder, nodes)
                for one in filter(None, dropped):
                    remove_folder(one.folder)

    def close(self) -> None:
        """Remove all folders."""
        self._end()
