"""Manifest of a review: all that people are shown of a layer, in one blob, wherever they look at it.

It says which change belongs to which section, as only the workshop knows that, and somebody who decides may be on
another machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.layers.changes import LayerChange, changes_of
from llm_do_temporal.policy.layers.layer import Layer, layer_of
from llm_do_temporal.policy.layers.nodes import Digest, LayerNode, NodeKind
from llm_do_temporal.policy.layers.paths import above
from llm_do_temporal.policy.layers.sections import Section, section_of
from llm_do_temporal.policy.values import Value


class ReviewManifest(Value):
    """Layer as it is reviewed, over the files as they are now."""

    layer: Layer
    """All changes, with the bytes of both sides kept."""
    sections: Mapping[Section, tuple[str, ...]]
    """Changed paths of each section, sorted: each belongs to one of them, and a renamed file with both of its paths."""
    conflicts: Mapping[str, str] = {}
    """Reason, in words, for each changed path that somebody else has changed meanwhile, too."""
    found: Mapping[str, LayerNode | None] = {}
    """Node that the layer found at first, for conflicts in files: one that is kept is a conflict in the next review."""
    working: Digest | None = None
    """Blob with the layer of the invocation, over the workshop's files, where the review is about a git branch."""

    def of(self, section: Section) -> Layer:
        """Return exactly the changes of a section."""
        return layer_of({path: self.layer.entries[path] for path in self.sections.get(section, ())})

    def changes(self, section: Section) -> tuple[LayerChange, ...]:
        """Return the changes of a section as people see them."""
        return changes_of(self.of(section))

    def conflicts_of(self, section: Section) -> dict[str, str]:
        """Return the reasons of the conflicts in a section, by path."""
        return {path: self.conflicts[path] for path in self.sections.get(section, ()) if path in self.conflicts}


def sections_of(
    layer: Layer, protection: Protection, created: Mapping[str, Digest] | None = None
) -> dict[Section, tuple[str, ...]]:
    """Return the changed paths of each section, in the order of the sections; none without a change.

    `created` has the digests of the worker files that were made, and checked, by `worker_create`. A file that is not
    any more as it was made is a definition like any other. A folder goes with what is in it, where all of that is of
    one section that is not ordinary.
    """
    by_path: dict[str, Section] = {}
    folders: list[LayerChange] = []
    for change in changes_of(layer):
        section = section_of(change, protection)
        if section is Section.DEFINITIONS and _is_created(change, created or {}):
            section = Section.WORKERS
        if section in (Section.ORDINARY, Section.DEFINITIONS) and _is_folder(change):
            folders.append(change)
        by_path |= dict.fromkeys(change.paths, section)
    inside: defaultdict[str, set[Section]] = defaultdict(set)
    plain = {change.path for change in folders}
    for path in by_path.keys() - plain:
        for folder in above(path):
            inside[folder].add(by_path[path])
    for path in plain:
        if len(inside[path]) == 1 and Section.ORDINARY not in inside[path]:
            by_path[path] = next(iter(inside[path]))
    found: dict[Section, list[str]] = {section: [] for section in Section}
    for path, section in by_path.items():
        found[section].append(path)
    return {section: tuple(sorted(paths)) for section, paths in found.items() if paths}


def _is_folder(change: LayerChange) -> bool:
    """Return whether the change makes or removes nothing but a folder."""
    nodes = [node for node in (change.now, change.base) if node is not None]
    return all(node.kind is NodeKind.FOLDER for node in nodes)


def _is_created(change: LayerChange, created: Mapping[str, Digest]) -> bool:
    return change.base is None and _sha256(change.now) == created.get(change.path)


def _sha256(node: LayerNode | None) -> str:
    return "" if node is None else node.sha256
