"""Changes of a layer as people see them: by path, and of a renamed file by both of its paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum

from llm_do_temporal.policy.layers.layer import (
    Layer,
    LayerAuthor,
    LayerEntry,
    LayerNode,
    NodeKind,
    is_file,
    same_content,
)
from llm_do_temporal.policy.layers.paths import leads_out, name_of
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
    old_paths = renames_in(entries)
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


def renames_in(entries: Mapping[str, LayerEntry]) -> dict[str, str]:
    """Return the old path of every file that was renamed, by its new one."""
    gone: defaultdict[str, list[str]] = defaultdict(list)
    for path, entry in entries.items():
        if entry.now is None and is_file(entry.base) and entry.base.bytes:
            gone[entry.base.sha256].append(path)
    found: dict[str, str] = {}
    added = [path for path, entry in entries.items() if entry.base is None]
    # Of several files with the same bytes, those that kept their name first.
    for same_name in (True, False):
        for path in added:
            node = entries[path].now
            if path in found or not is_file(node):
                continue
            fitting = (old for old in gone[node.sha256] if not same_name or name_of(old) == name_of(path))
            if (old := next(fitting, None)) is not None:
                gone[node.sha256].remove(old)
                found[path] = old
    return found


def _kind_of(entry: LayerEntry) -> LayerChangeKind:
    if entry.now is None:
        return LayerChangeKind.DELETED
    if entry.base is None:
        return LayerChangeKind.ADDED
    return LayerChangeKind.MODE if same_content(entry.now, entry.base) else LayerChangeKind.MODIFIED
