"""Draft of a layer: the work of one call, done step by step, of which a layer is made in the end.

Its steps mean what the system calls of their names mean. Nothing is written through a link, and what is not possible in
a real folder is refused here, too. Raises SandboxRefusal where a step is not allowed, EffectFailed where it makes no
sense.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.policy.layers.layer import Layer, LayerAuthor, LayerEntry, check_count, check_node, layer_of
from llm_do_temporal.policy.layers.nodes import (
    NEW_FILE_MODE,
    NEW_FOLDER_MODE,
    FileBase,
    LayerNode,
    NodeKind,
    alike,
    file_node,
    folder_node,
    link_node,
)
from llm_do_temporal.policy.layers.paths import above, checked_path, lies_below, name_of, parent_of
from llm_do_temporal.policy.layers.view import LayerView

_NO_LINKS = "Name the file itself."


@dataclass(frozen=True)
class Kept:
    """Bytes of a file that are kept in the blob store."""

    sha256: str
    bytes: int
    blob: str


class LayerDraft(LayerView):
    """Layer that is being changed by one author."""

    def __init__(self, layer: Layer, base: FileBase, author: LayerAuthor) -> None:
        super().__init__(layer, base)
        self._author = author
        self._now: dict[str, LayerEntry] = dict(layer.entries)
        self._entries = self._now

    def layer(self) -> Layer:
        """Return the layer as it is now."""
        return layer_of(dict(self._now))

    def write(self, path: str, content: Kept, mode: int | None = None) -> None:
        """Put a file at the path, with the folders it needs; mode None: that of the file there, or of new files."""
        checked_path(path)
        kind = self.kind(path)
        if kind is NodeKind.LINK:
            raise _through_link(path)
        if kind is NodeKind.FOLDER:
            raise EffectFailed(f"'{path}' is a folder, not a file", next_step="Name a file in it.")
        self._make_parents(path)
        if mode is None:
            old = self.look(path) if kind is NodeKind.FILE else None
            mode = NEW_FILE_MODE if old is None else old.mode & 0o777
        self.put(path, file_node(content.sha256, content.bytes, blob=content.blob, mode=mode))

    def link(self, path: str, target: str) -> None:
        """Put a symbolic link at the path, where nothing is."""
        self._check_free(checked_path(path))
        self.put(path, link_node(target, path))

    def folder(self, path: str, mode: int = NEW_FOLDER_MODE) -> None:
        """Make a folder, and those above it; one that is there is left as it is."""
        checked_path(path)
        kind = self.kind(path)
        if kind is NodeKind.FOLDER:
            return
        if kind is not None:
            raise EffectFailed(f"'{path}' is there already, and is no folder")
        self._make_parents(path)
        self.put(path, folder_node(mode))

    def change_mode(self, path: str, mode: int) -> None:
        """Give a file or folder other permission bits."""
        kind = self.kind(path)
        if kind is None or kind is NodeKind.LINK:
            raise EffectFailed(f"'{path}' is no file and no folder; only these have permissions")
        node = self._kept(path)
        if node.mode != mode:
            self.put(path, node.with_mode(mode))

    def delete(self, path: str) -> None:
        """Remove what is at the path; a folder with all that is in it."""
        if self.kind(path) is None:
            raise EffectFailed(f"'{path}' does not exist")
        for inner, _kind in reversed(list(self.walk(path))):
            self.put(inner, None)
        self.put(path, None)

    def rename(self, path: str, new_path: str) -> None:
        """Give what is at the path another one, in the place of a file there, or of an empty folder."""
        checked_path(new_path)
        kind = self.kind(path)
        if kind is None:
            raise EffectFailed(f"'{path}' does not exist")
        if path == new_path:
            return
        if lies_below(new_path, path):
            raise EffectFailed(f"'{path}' cannot be moved into itself")
        self._check_parent(new_path)
        there = self.kind(new_path)
        if kind is NodeKind.FOLDER:
            if (there is not None and there is not NodeKind.FOLDER) or self.names(new_path):
                raise EffectFailed(f"'{new_path}' is there already, and is no empty folder")
        elif there is NodeKind.FOLDER:
            raise EffectFailed(f"'{new_path}' is a folder")
        moved = [(path, new_path), *((one, new_path + one[len(path) :]) for one, _kind in self.walk(path))]
        nodes = [(new, self._kept(old)) for old, new in moved]
        self.delete(path)
        for new, node in nodes:
            self.put(checked_path(new), node)

    def put(self, path: str, node: LayerNode | None) -> None:
        """Have the node at the path, None: nothing. The base is looked at when a path is first touched."""
        entry = self._now.get(path)
        if entry is None:
            base = self.base.look(path)
            check_count(len(self._now) + 1)
            self._children[parent_of(path)].add(name_of(path))
        else:
            base = entry.base
        if node is not None and not alike(node, base):
            check_node(node, path)
        self._now[path] = LayerEntry.model_construct(now=node, base=base, author=self._author)

    def _kept(self, path: str) -> LayerNode:
        """Return the node at the path, with bytes that do not go when its file in the base does."""
        node = self.look(path)
        if node is not None and node.kind is NodeKind.FILE and node.blob is None:
            node = self.base.kept(path)
        if node is None:
            raise EffectFailed(f"'{path}' has just been removed")
        return node

    def _make_parents(self, path: str) -> None:
        for folder in reversed(list(above(path))):
            kind = self.kind(folder)
            if kind is None:
                self.put(folder, folder_node())
            else:
                _check_folder(kind, folder, path)

    def _check_parent(self, path: str) -> None:
        folder = parent_of(path)
        for one in (folder, *above(folder)) if folder else ():
            kind = self.kind(one)
            if kind is None:
                raise EffectFailed(f"there is no folder '{one}'", next_step="Make it first.")
            _check_folder(kind, one, path)

    def _check_free(self, path: str) -> None:
        self._check_parent(path)
        if self.kind(path) is not None:
            raise EffectFailed(f"'{path}' is there already")


def _check_folder(kind: NodeKind, folder: str, path: str) -> None:
    if kind is NodeKind.LINK:
        raise _through_link(path)
    if kind is not NodeKind.FOLDER:
        raise EffectFailed(f"'{path}' cannot be reached: '{folder}' is a file, not a folder")


def _through_link(path: str) -> SandboxRefusal:
    return SandboxRefusal(
        f"'{path}' is a symbolic link, or lies behind one; nothing is written through links", next_step=_NO_LINKS
    )
