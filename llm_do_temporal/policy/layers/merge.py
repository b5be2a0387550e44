"""Layers against other states of files: merged, rebased, made fit for git, and as the steps of a commit.

A merge is three-way: each side is compared with what both began from. What both changed differently is a conflict;
nothing is merged inside of a file. A rebase leaves nothing out: what somebody else has changed, too, stays in the
layer, so that people see it and may still take it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from llm_do_temporal.policy.layers.changes import changes_of
from llm_do_temporal.policy.layers.layer import (
    FOREIGN,
    FileBase,
    Layer,
    LayerEntry,
    LayerNode,
    NodeKind,
    alike,
    folder_node,
    is_file,
    is_folder,
    layer_of,
    misplaced_in,
    same_content,
    seen_kind,
    seen_node,
)
from llm_do_temporal.policy.layers.paths import above, clashes
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
