"""Layer over the files as they are now, with nothing left out: what somebody else has changed, too, stays in it.

So people see it, and may still take it: such an entry then begins from what is there now.
"""

from __future__ import annotations

from collections.abc import Mapping

from llm_do_temporal.policy.layers.changes import changes_of
from llm_do_temporal.policy.layers.layer import Layer, LayerEntry, layer_of
from llm_do_temporal.policy.layers.merge import ConflictKind, LayerConflict, against
from llm_do_temporal.policy.layers.nodes import FOREIGN, FileBase, LayerNode, alike, folder_node
from llm_do_temporal.policy.layers.paths import above
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
    gone = [folder for folder in above(path) if folder not in entries and base.kind(folder) is None]
    return {folder: LayerEntry(now=folder_node(), base=None, author=entry.author) for folder in gone}
