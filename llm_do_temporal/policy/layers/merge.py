"""Layers against other states of files.

A merge is three-way: each side is compared with what both began from. What both changed differently is a conflict;
nothing is merged inside of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from llm_do_temporal.policy.layers.layer import (
    FileBase,
    Layer,
    LayerEntry,
    LayerNode,
    NodeKind,
    above,
    alike,
    clashes,
    is_folder,
    layer_of,
    misplaced_in,
    seen_kind,
    seen_node,
)
from llm_do_temporal.policy.values import Value


class ConflictKind(StrEnum):
    """Reason of a conflict."""

    BOTH_CHANGED = "both_changed"
    PLACE_GONE = "place_gone"
    NOT_EMPTY = "not_empty"
    SAME_NAME = "same_name"

    def __str__(self) -> str:
        return _WORDS[self]


_WORDS = {
    ConflictKind.BOTH_CHANGED: "it was changed on both sides",
    ConflictKind.PLACE_GONE: "the folder it lies in is gone, or is no folder any more",
    ConflictKind.NOT_EMPTY: "there is something new in the folder that is to go",
    ConflictKind.SAME_NAME: "the file system takes its name for that of another file",
}


class LayerConflict(Value):
    """Path that two sides changed, each in its own way."""

    path: str
    kind: ConflictKind
    ours: LayerNode | None
    """Node of the layer; None: the layer removes it."""
    base: LayerNode | None
    """Node that both began from; None: there was none."""
    theirs: LayerNode | None
    """Node of the other side; None: there is none."""

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}"


class Merge(Value):
    """Result of a merge."""

    layer: Layer
    """All that could be joined."""
    conflicts: tuple[LayerConflict, ...] = ()
    """Rest of it, in the order of paths."""


def merged(mine: Layer, child: Layer, fork: Layer) -> Merge:
    """Return a layer joined with that of a child, which began from `fork`, an earlier state of it.

    Of a conflict, the layer keeps its own side.
    """
    entries = dict(mine.entries)
    conflicts: dict[str, LayerConflict] = {}
    taken: list[str] = []
    for path, theirs in child.entries.items():
        origin, ours = fork.entries.get(path), mine.entries.get(path)
        began = theirs.base if origin is None else origin.now
        have = theirs.base if ours is None else ours.now
        if alike(theirs.now, began) or alike(theirs.now, have):
            continue
        if alike(have, began):
            entries[path] = theirs if ours is None else theirs.model_copy(update={"base": ours.base})
            taken.append(path)
        else:
            conflicts[path] = _conflict(path, ConflictKind.BOTH_CHANGED, have, began, theirs.now)
    while misplaced := _misplaced(entries, taken, mine):
        for path in misplaced:
            theirs, ours = child.entries[path], mine.entries.get(path)
            have = theirs.base if ours is None else ours.now
            conflicts[path] = _conflict(path, ConflictKind.PLACE_GONE, have, theirs.base, theirs.now)
            taken.remove(path)
            if ours is None:
                del entries[path]
            else:
                entries[path] = ours
    return Merge(layer=layer_of(entries), conflicts=_sorted(conflicts))


def against(layer: Layer, base: FileBase, *, folds: bool = False) -> Merge:
    """Return the layer over the base as it is now, which may have changed since; of conflicts it holds nothing.

    With `folds` the base tells no capitals apart, and two names that differ only there are a conflict, too. The base
    must be new: one that remembers what it has looked at finds no change.
    """
    changes = layer.changes
    entries: dict[str, LayerEntry] = {}
    conflicts: dict[str, LayerConflict] = {}
    for path, entry in changes.items():
        there = seen_node(base, path)
        if alike(there, entry.base):
            entries[path] = entry
        elif not alike(there, entry.now):
            conflicts[path] = _conflict(path, ConflictKind.BOTH_CHANGED, entry.now, entry.base, there)
    for path, kind in _lost_places(entries, base).items():
        conflicts[path] = _conflict(path, kind, entries[path].now, entries[path].base, seen_node(base, path))
    for path in _folded(entries, base) if folds else ():
        conflicts[path] = _conflict(path, ConflictKind.SAME_NAME, entries[path].now, None, None)
    kept = {path: entry for path, entry in entries.items() if path not in conflicts}
    return Merge(layer=layer_of(kept), conflicts=_sorted(conflicts))


def _lost_places(entries: Mapping[str, LayerEntry], base: FileBase) -> dict[str, ConflictKind]:
    """Return the paths whose folder is not there any more, or which are folders that cannot be removed."""
    found: dict[str, ConflictKind] = {}
    # From the innermost out: a folder that stays keeps the one around it.
    for path in sorted(entries, reverse=True):
        entry = entries[path]
        if entry.now is not None and not all(_has_folder(folder, entries, base) for folder in above(path)):
            found[path] = ConflictKind.PLACE_GONE
        if is_folder(entry.base) and not is_folder(entry.now):
            inside = [f"{path}/{name}" for name in base.names(path)]
            if any(one in found or one not in entries or entries[one].now is not None for one in inside):
                found[path] = ConflictKind.NOT_EMPTY
    return found


def _has_folder(path: str, entries: Mapping[str, LayerEntry], base: FileBase) -> bool:
    entry = entries.get(path)
    return seen_kind(base, path) is NodeKind.FOLDER if entry is None else is_folder(entry.now)


def _folded(entries: Mapping[str, LayerEntry], base: FileBase) -> set[str]:
    """Return the paths of entries whose names are taken for those of others, in the layer or in the base."""
    live = {path for path, entry in entries.items() if entry.now is not None}
    folders = {folder for path in live for folder in above(path)} | {""}
    there = {f"{folder}/{name}" if folder else name for folder in folders for name in base.names(folder)}
    remaining = {path for path in there if path not in entries or entries[path].now is not None}
    groups = clashes(live | remaining)
    heads = {path for group in groups for path in group}
    return {path for path in live if path in heads or any(folder in heads for folder in above(path))}


def _misplaced(entries: Mapping[str, LayerEntry], taken: list[str], mine: Layer) -> list[str]:
    """Return the paths taken from the child that do not fit into the layer, or into which the layer's own do not."""
    found = set(misplaced_in(entries, taken))
    for path in misplaced_in(entries, mine.entries):
        found |= {one for one in above(path) if one in taken and not (one in entries and is_folder(entries[one].now))}
    return sorted(found)


def _conflict(
    path: str, kind: ConflictKind, ours: LayerNode | None, base: LayerNode | None, theirs: LayerNode | None
) -> LayerConflict:
    return LayerConflict(path=path, kind=kind, ours=ours, base=base, theirs=theirs)


def _sorted(conflicts: Mapping[str, LayerConflict]) -> tuple[LayerConflict, ...]:
    return tuple(conflicts[path] for path in sorted(conflicts))
