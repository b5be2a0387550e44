"""Changes of a layer as a person reviews them: added, modified, deleted, renamed; and the part that is accepted."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.layers.layer import Layer, LayerAuthor, LayerEntry, check_node, layer_of
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind, same_content
from llm_do_temporal.policy.layers.paths import above, leads_out, name_of
from llm_do_temporal.policy.values import Value


class LayerChangeKind(StrEnum):
    """Kind of a change."""

    ADDED = "added"
    MODIFIED = "modified"
    MODE = "mode"
    DELETED = "deleted"
    RENAMED = "renamed"


class LayerChange(Value):
    """Change of one path, or of two where a file was renamed."""

    kind: LayerChangeKind
    path: str
    now: LayerNode | None
    base: LayerNode | None
    """Node before the change: of a renamed file, at its old path."""
    author: LayerAuthor
    old_path: str | None = None
    """Old path of a renamed file; None for others."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that the change touches: all or none of them are accepted."""
        return (self.path,) if self.old_path is None else (self.old_path, self.path)

    @property
    def leads_out(self) -> bool:
        """Whether the change makes a link that leads out of the workshop."""
        return self.now is not None and self.now.kind is NodeKind.LINK and leads_out(self.path, self.now.target)


def changes_of(layer: Layer) -> tuple[LayerChange, ...]:
    """Return the changes in the order of their paths. A file that is gone from one path, and is with the same bytes at
    a new one, was renamed."""
    entries = layer.changes
    old_paths = _renames(entries)
    gone = set(old_paths.values())
    found: list[LayerChange] = []
    for path, entry in entries.items():
        old = old_paths.get(path)
        if old is not None:
            kind, base = LayerChangeKind.RENAMED, entries[old].base
            found.append(LayerChange(kind=kind, path=path, now=entry.now, base=base, author=entry.author, old_path=old))
        elif path not in gone:
            kind = _kind_of(entry)
            found.append(LayerChange(kind=kind, path=path, now=entry.now, base=entry.base, author=entry.author))
    return tuple(found)


def joined(layer: Layer, paths: Iterable[str]) -> set[str]:
    """Return the paths, and all that must be accepted with them.

    Both paths of a renamed file; folders that a new file needs; all that is in a folder that goes. Raises
    DecisionRefused for a path that has not changed.
    """
    return _with_all(paths, Needs(layer).of)


def needing(layer: Layer, paths: Iterable[str]) -> set[str]:
    """Return the paths, and all that is not accepted where they are not.

    All that is in a folder among them, whatever has changed of the folder itself; both paths of a renamed file; the
    folders that go with a file in them.
    """
    needs = Needs(layer)
    return _with_all([one for path in paths for one in (path, *needs.inside(path))], needs.of_others)


def _with_all(paths: Iterable[str], next_to: Callable[[str], Iterable[str]]) -> set[str]:
    """Return the paths, and all that is reached from them by going to those next to each."""
    waiting, found = list(paths), set[str]()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += next_to(path)
    return found


class Needs:
    """Paths that changes of a layer need: what must be accepted together."""

    def __init__(self, layer: Layer) -> None:
        self._entries = layer.changes
        self._paths = list(self._entries)
        self._partners: dict[str, str] = {}
        for new, old in _renames(self._entries).items():
            self._partners |= {new: old, old: new}

    def of(self, path: str) -> set[str]:
        """Return the paths that a change needs itself; what these need, too, is not looked at.

        Raises DecisionRefused for a path that has not changed.
        """
        entry = self._entry(path)
        found = self._partner(path)
        if entry.now is not None:
            found |= {one for one in above(path) if one in self._entries and _becomes_folder(self._entries[one])}
        if _folder_goes(entry):
            found |= set(self._below(path))
        return found

    def of_others(self, path: str) -> set[str]:
        """Return the paths that need this one themselves. Raises DecisionRefused for a path that has not changed."""
        entry = self._entry(path)
        found = self._partner(path)
        if _becomes_folder(entry):
            found |= {one for one in self._below(path) if self._entries[one].now is not None}
        return found | {one for one in above(path) if one in self._entries and _folder_goes(self._entries[one])}

    def inside(self, path: str) -> list[str]:
        """Return all changed paths below a path that is a folder, or was one; none for others.

        Raises DecisionRefused for a path that has not changed.
        """
        entry = self._entry(path)
        return self._below(path) if _is_folder(entry.now) or _is_folder(entry.base) else []

    def _entry(self, path: str) -> LayerEntry:
        entry = self._entries.get(path)
        if entry is None:
            raise DecisionRefused(f"'{path}' is not among the changes", next_step="Look at the review again.")
        return entry

    def _partner(self, path: str) -> set[str]:
        """Return the other path of a renamed file, if it is one."""
        return {self._partners[path]} if path in self._partners else set()

    def _below(self, path: str) -> list[str]:
        # The paths are sorted, and all below a folder stand together.
        start, end = (bisect_left(self._paths, path + char) for char in ("/", "0"))
        return self._paths[start:end]


def accepted(layer: Layer, paths: Iterable[str], edited: Mapping[str, LayerNode] | None = None) -> Layer:
    """Return exactly the changes of these paths, and of all that is `joined` to them, as a layer.

    `edited` has the nodes of files that are accepted in part, or that a person has changed. Raises DecisionRefused.
    """
    edited = edited or {}
    entries = layer.changes
    wanted = joined(layer, [*paths, *edited])
    chosen: dict[str, LayerEntry] = {}
    for path in sorted(wanted):
        entry = entries[path]
        node = edited.get(path)
        if node is not None:
            if entry.now is None or entry.now.kind is not NodeKind.FILE or node.kind is not NodeKind.FILE:
                raise DecisionRefused(f"'{path}' is no file, so no part of it can be accepted")
            check_node(node, path)
            entry = entry.model_copy(update={"now": node})
        chosen[path] = entry
    return layer_of(chosen)


def _renames(entries: Mapping[str, LayerEntry]) -> dict[str, str]:
    """Return the old path of every file that was renamed, by its new one."""
    gone: defaultdict[str, list[str]] = defaultdict(list)
    for path, entry in entries.items():
        if entry.now is None and entry.base is not None and entry.base.kind is NodeKind.FILE and entry.base.bytes:
            gone[entry.base.sha256].append(path)
    found: dict[str, str] = {}
    added = [path for path, entry in entries.items() if entry.base is None]
    # Of several files with the same bytes, those that kept their name first.
    for same_name in (True, False):
        for path in added:
            node = entries[path].now
            if path in found or node is None or node.kind is not NodeKind.FILE:
                continue
            old = _first(gone[node.sha256], name_of(path) if same_name else None)
            if old is not None:
                gone[node.sha256].remove(old)
                found[path] = old
    return found


def _first(paths: Collection[str], name: str | None) -> str | None:
    return next((path for path in paths if name is None or name_of(path) == name), None)


def _kind_of(entry: LayerEntry) -> LayerChangeKind:
    if entry.now is None:
        return LayerChangeKind.DELETED
    if entry.base is None:
        return LayerChangeKind.ADDED
    return LayerChangeKind.MODE if same_content(entry.now, entry.base) else LayerChangeKind.MODIFIED


def _is_folder(node: LayerNode | None) -> bool:
    return node is not None and node.kind is NodeKind.FOLDER


def _folder_goes(entry: LayerEntry) -> bool:
    return _is_folder(entry.base) and not _is_folder(entry.now)


def _becomes_folder(entry: LayerEntry) -> bool:
    return _is_folder(entry.now) and not _is_folder(entry.base)
