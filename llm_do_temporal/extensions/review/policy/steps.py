"""Layers on their way to files or to git: rebased on what is there now, and as the steps of a commit.

A rebase leaves nothing out: what somebody else has changed, too, stays in the layer, so that people see it and may
still take it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from llm_do_temporal.policy.layers.layer import (
    FOREIGN,
    FileBase,
    Layer,
    LayerEntry,
    LayerNode,
    above,
    alike,
    changes_of,
    folder_node,
    is_file,
    is_folder,
    layer_of,
    same_content,
    seen_kind,
)
from llm_do_temporal.policy.layers.merge import ConflictKind, LayerConflict, against
from llm_do_temporal.policy.values import Value


class Rebase(Value):
    """Result of a rebase."""

    layer: Layer
    conflicts: Mapping[str, str] = {}
    """Reason, in words, for each path that is not accepted but by its name."""
    found: Mapping[str, LayerNode | None] = {}
    """Node that the layer found at first, for each conflict that begins from another one now."""


def rebased(layer: Layer, base: FileBase, *, folds: bool = False) -> Rebase:
    """Return the layer over the base as it is now; `base` and `folds` are as for `against`.

    A path that both have changed begins from what is there now. Folders that are gone, and that something of it lies
    in, are made again by it. What can only be refused (a folder that is to go and has something new in it, a file
    where a folder is needed, names in other capitals) stays in it, and a commit of it is refused with the same words.
    """
    merge = against(layer, base, folds=folds)
    entries = dict(merge.layer.entries)
    found: dict[str, str] = {}
    for conflict in merge.conflicts:
        entry = layer.entries[conflict.path]
        entries[conflict.path] = _begun_anew(entry, conflict)
        found[conflict.path] = _reason(conflict)
    for conflict in merge.conflicts:
        if conflict.ours is not None:
            for folder, made in _folders_again(conflict.path, layer.entries[conflict.path], entries, base).items():
                entries[folder] = made
                found[folder] = "somebody has removed this folder, and a file of these changes lies in it"
    for change in changes_of(layer):
        # A renamed file would be there twice, or not at all, if one of its paths were left out.
        other = next((path for path in change.paths if path in found), None)
        if other is not None:
            for path in change.paths:
                found.setdefault(path, f"it is one file with '{other}', which somebody else has changed")
    conflicts = {path: found[path] for path in sorted(found) if path in entries}
    first = {path: layer.entries[path].base for path in conflicts if path in layer.entries}
    return Rebase(
        layer=layer_of(entries),
        conflicts=conflicts,
        found={path: node for path, node in first.items() if not alike(node, entries[path].base)},
    )


def _begun_anew(entry: LayerEntry, conflict: LayerConflict) -> LayerEntry:
    if conflict.kind is not ConflictKind.BOTH_CHANGED or alike(conflict.theirs, FOREIGN):
        return entry
    return entry.model_copy(update={"base": conflict.theirs})


def _reason(conflict: LayerConflict) -> str:
    if alike(conflict.theirs, FOREIGN):
        return "something is there now that can be in no layer, and stays"
    if conflict.kind is ConflictKind.BOTH_CHANGED:
        return "somebody else has removed it" if conflict.theirs is None else "somebody else has changed it"
    return str(conflict.kind)


def _folders_again(
    path: str, entry: LayerEntry, entries: Mapping[str, LayerEntry], base: FileBase
) -> dict[str, LayerEntry]:
    """Return the folders above the path that are gone, as entries that make them again."""
    gone = [folder for folder in above(path) if folder not in entries and seen_kind(base, folder) is None]
    return {folder: LayerEntry(now=folder_node(), base=None, author=entry.author) for folder in gone}


_PROGRAM, _FILE = 0o755, 0o644


def for_git(layer: Layer) -> Layer:
    """Return the changes that git can hold: it has no folders, and knows of a file whether it is a program."""
    entries: dict[str, LayerEntry] = {}
    for path, entry in layer.changes.items():
        kept = entry.model_copy(update={"now": _for_git(entry.now), "base": _for_git(entry.base)})
        if kept.is_change:
            entries[path] = kept
    return layer_of(entries)


def worked_on(layer: Layer, reviewed: Layer, accepted: Layer, kept: Layer) -> Layer:
    """Return the layer of an invocation after changes were committed to a branch, and not to the files below it.

    What was accepted stays in it, since the files are as they were; of what was `reviewed` and neither accepted nor
    `kept` nothing is left.
    """
    entries: dict[str, LayerEntry] = {}
    gone: set[str] = set()
    for path, entry in layer.entries.items():
        if path in kept.entries or path not in reviewed.entries:
            entries[path] = entry
        elif path in accepted.entries:
            now = accepted.entries[path].now
            entries[path] = entry if same_content(now, entry.now) else entry.model_copy(update={"now": now})
        else:
            gone.add(path)
    for path in gone:
        # A file that is back needs its folders, too.
        for folder in above(path):
            if folder in entries and not is_folder(entries[folder].now):
                del entries[folder]
    return layer_of(entries)


def _for_git(node: LayerNode | None) -> LayerNode | None:
    if is_file(node):
        return node.with_mode(_PROGRAM if node.mode & 0o100 else _FILE)
    return None if is_folder(node) else node


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
    """Return the steps that make the changes of a layer real, in an order in which each finds what it needs.

    What makes room comes first: files and folders that make way for a node of another kind. Then folders, the outer
    ones first; then files and links; then what goes for good, the inner ones first; permissions of folders last, since
    one that nobody may write to takes no files.
    """
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
        if base is not None and is_folder(now) != is_folder(base):
            room.append(CommitStep(kind=StepKind.REMOVE, path=path, before=base, after=None))
            before = None
        if is_folder(now) and before is None:
            # Until all is in it, its owner may write to it.
            before = now.with_mode(0o700)
            made.append(CommitStep(kind=StepKind.MAKE, path=path, before=None, after=before))
        if same_content(now, before):
            modes.append(CommitStep(kind=StepKind.MODE, path=path, before=before, after=now))
        else:
            put.append(CommitStep(kind=StepKind.PUT, path=path, before=before, after=now))
    return (*reversed(room), *made, *put, *reversed(removed), *reversed(modes))


def _makes_room(path: str, entries: Mapping[str, LayerEntry]) -> bool:
    """Return whether a folder above the path turns into a file or link, so that what is in it has to go first."""
    over = (entries[folder].now for folder in above(path) if folder in entries)
    return any(node is not None and not is_folder(node) for node in over)
