"""Steps of a commit: what is to be done to real files, in an order in which each step finds what it needs.

What makes room comes first: files and folders that make way for a node of another kind. Then folders, the outer ones
first; then files and links; then what goes for good, the inner ones first; permissions of folders last, since one
that nobody may write to takes no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from llm_do_temporal.policy.layers.layer import Layer, LayerEntry
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind, same_content
from llm_do_temporal.policy.layers.paths import above
from llm_do_temporal.policy.values import Value


class StepKind(StrEnum):
    """Kind of a step."""

    PUT = "put"
    """A file or link is put into its place, whole."""
    MODE = "mode"
    """A file or folder gets other permissions."""
    MAKE = "make"
    """A folder is made."""
    REMOVE = "remove"
    """A file, a link or an empty folder goes."""


class CommitStep(Value):
    """Step of a commit. Done twice, it changes nothing the second time."""

    kind: StepKind
    path: str
    before: LayerNode | None
    """Node that has to be there; None: nothing is there."""
    after: LayerNode | None
    """Node that is there once the step is done; None: nothing is there."""


def steps_of(layer: Layer) -> tuple[CommitStep, ...]:
    """Return the steps that make the changes of a layer real."""
    entries = layer.changes
    room: list[CommitStep] = []
    made: list[CommitStep] = []
    put: list[CommitStep] = []
    removed: list[CommitStep] = []
    modes: list[CommitStep] = []
    for path, entry in entries.items():
        now, base = entry.now, entry.base
        if now is None:
            removal = CommitStep(kind=StepKind.REMOVE, path=path, before=base, after=None)
            (room if _makes_room(path, entries) else removed).append(removal)
            continue
        before = base
        if base is not None and NodeKind.FOLDER in (now.kind, base.kind) and now.kind is not base.kind:
            room.append(CommitStep(kind=StepKind.REMOVE, path=path, before=base, after=None))
            before = None
        if now.kind is NodeKind.FOLDER:
            if before is None:
                # Until all is in it, its owner may write to it.
                made.append(CommitStep(kind=StepKind.MAKE, path=path, before=None, after=now.with_mode(0o700)))
                before = now.with_mode(0o700)
            modes.append(CommitStep(kind=StepKind.MODE, path=path, before=before, after=now))
        elif same_content(now, before):
            modes.append(CommitStep(kind=StepKind.MODE, path=path, before=before, after=now))
        else:
            put.append(CommitStep(kind=StepKind.PUT, path=path, before=before, after=now))
    return (*reversed(room), *made, *put, *reversed(removed), *reversed(modes))


def _makes_room(path: str, entries: Mapping[str, LayerEntry]) -> bool:
    """Return whether a folder above the path turns into a file or link, so that what is in it has to go first."""
    over = (entries.get(folder) for folder in above(path))
    return any(one is not None and one.now is not None and one.now.kind is not NodeKind.FOLDER for one in over)
