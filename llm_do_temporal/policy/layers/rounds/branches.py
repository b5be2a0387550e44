"""Layers for a git branch: git has no folders, and of permissions it knows whether a file is a program."""

from __future__ import annotations

from llm_do_temporal.policy.layers.layer import Layer, LayerEntry, layer_of
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind, same_content
from llm_do_temporal.policy.layers.paths import above

_PROGRAM, _FILE = 0o755, 0o644


def for_git(layer: Layer) -> Layer:
    """Return the changes that git can hold."""
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
            if folder in entries and not _is_folder(entries[folder].now):
                del entries[folder]
    return layer_of(entries)


def _for_git(node: LayerNode | None) -> LayerNode | None:
    if node is None or node.kind is NodeKind.FOLDER:
        return None
    return node.with_mode(_PROGRAM if node.mode & 0o100 else _FILE) if node.kind is NodeKind.FILE else node


def _is_folder(node: LayerNode | None) -> bool:
    return node is not None and node.kind is NodeKind.FOLDER
