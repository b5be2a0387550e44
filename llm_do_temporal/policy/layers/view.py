"""View of files through a layer, and the draft of a layer that one call changes step by step.

A view shows the layer's node where it has one, else that of the base. The steps of a draft mean what the system calls
of their names mean. Nothing is written through a link, and what is not possible in a real folder is refused here, too.
They raise SandboxRefusal where a step is not allowed, EffectFailed where it makes no sense.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import PurePosixPath

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.policy.layers.layer import (
    MAX_LINK_PARTS,
    MAX_LINKS,
    FileBase,
    Layer,
    LayerAuthor,
    LayerEntry,
    LayerNode,
    NodeKind,
    above,
    alike,
    below,
    check_count,
    check_node,
    checked_path,
    folder_node,
    is_folder,
    layer_of,
    lies_below,
    name_of,
    parent_of,
)


class LayerView:
    """Files of a base as a layer changes them."""

    def __init__(self, layer: Layer, base: FileBase) -> None:
        self.base = base
        self._entries: Mapping[str, LayerEntry] = layer.entries

    def look(self, path: str) -> LayerNode | None:
        """Return the node at the path; None where there is none. Links are not followed."""
        entry = self._entries.get(path)
        if entry is not None:
            return entry.now
        return self.base.look(path) if self.shows_base(path) else None

    def kind(self, path: str) -> NodeKind | None:
        """Return the kind of the node at the path; None where there is none. The top is a folder."""
        entry = self._entries.get(path)
        if entry is not None:
            return entry.now and entry.now.kind
        if not path:
            return NodeKind.FOLDER
        return self.base.kind(path) if self.shows_base(path) else None

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none where the path is no folder. The top's path is empty."""
        if self.kind(path) is not NodeKind.FOLDER:
            return []
        names = set(self.base.names(path)) if self.shows_base(below(path, "?")) else set[str]()
        for name, entry in self.entries_in(path).items():
            (names.discard if entry.now is None else names.add)(name)
        return sorted(names)

    def entries_in(self, path: str) -> dict[str, LayerEntry]:
        """Return the layer's own entries in a folder by their names, sorted; those of what is gone, too."""
        return {name: self._entries[below(path, name)] for name in sorted(self._children.get(path, ()))}

    def walk(self, folder: str = "", *, lenient: bool = False) -> Iterator[tuple[str, NodeKind]]:
        """Yield path and kind of all that is below the folder, a folder before what is in it.

        Raises SandboxRefusal for what no layer can hold (a pipe, a name that is no UTF-8); `lenient` leaves it out.
        """
        waiting = [below(folder, name) for name in reversed(self.names(folder))]
        while waiting:
            path = waiting.pop()
            try:
                kind = self.kind(path)
            except SandboxRefusal:
                if not lenient:
                    raise
                continue
            if kind is None:
                continue
            yield path, kind
            if kind is NodeKind.FOLDER:
                waiting.extend(below(path, name) for name in reversed(self.names(path)))

    def shows_base(self, path: str) -> bool:
        """Return whether the base is seen at a path that has no entry: not where a folder above it is new, or gone."""
        for folder in above(path):
            entry = self._entries.get(folder)
            if entry is not None:
                return is_folder(entry.now) and is_folder(entry.base)
        return True

    def read(self, path: str, within: str = "") -> tuple[str, LayerNode] | None:
        """Return path and node that the path comes to with all links followed; None where it comes to nothing."""
        led_to = self.followed(path, within)
        node = self.look(led_to) if led_to else None
        return None if node is None else (led_to, node)

    def followed(self, path: str, within: str = "") -> str:
        """Return the path with every link followed; the last names of it need not exist.

        Raises SandboxRefusal where a link leads out of the folder `within`, or in a circle.
        """
        if _is_within(path, within) and self.kind(path) in (NodeKind.FILE, NodeKind.FOLDER):
            # Nothing is seen behind a link, so there is none on the way.
            return path
        waiting = list(reversed(path.split("/")))
        real = ""
        links = parts = 0
        while waiting:
            part = waiting.pop()
            if part == "/" or (part == ".." and not real):
                raise _outside(path)
            if part == "..":
                real = parent_of(real)
                continue
            here = below(real, part)
            if self.kind(here) is not NodeKind.LINK:
                real = here
                continue
            links += 1
            if not _is_within(here, within):
                raise _outside(path)
            names = PurePosixPath((self.look(here) or _NOTHING).target).parts
            parts += len(names)
            if links > MAX_LINKS or parts > MAX_LINK_PARTS:
                raise SandboxRefusal(f"'{path}' leads through too many links, or in a circle")
            waiting.extend(reversed(names))
        if not _is_within(real, within):
            raise _outside(path)
        return real

    @cached_property
    def _children(self) -> defaultdict[str, set[str]]:
        """Names of all entries by folder."""
        children: defaultdict[str, set[str]] = defaultdict(set)
        for path in self._entries:
            children[parent_of(path)].add(name_of(path))
        return children


_NOTHING = LayerNode(kind=NodeKind.LINK)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or lies_below(path, folder)


def _outside(path: str) -> SandboxRefusal:
    return SandboxRefusal(
        f"'{path}' leads out of this worker's files through a symbolic link",
        next_step="Name the file itself; links are followed only while they stay inside.",
    )


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

    def write(self, path: str, file: LayerNode) -> None:
        """Put a file at the path, with the folders it needs, and with the permissions of the file there, if any."""
        checked_path(path)
        kind = self.kind(path)
        if kind is NodeKind.LINK:
            raise _through_link(path)
        if kind is NodeKind.FOLDER:
            raise EffectFailed(f"'{path}' is a folder, not a file", next_step="Name a file in it.")
        self._make_parents(path)
        old = self.look(path) if kind is NodeKind.FILE else None
        self.put(path, file if old is None else file.with_mode(old.mode & 0o777))

    def delete(self, path: str) -> None:
        """Remove what is at the path; a folder with all that is in it."""
        if self.kind(path) is None:
            raise EffectFailed(f"'{path}' does not exist")
        for inner, _kind in reversed(list(self.walk(path))):
            self.put(inner, None)
        self.put(path, None)

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

    def _make_parents(self, path: str) -> None:
        for folder in reversed(list(above(path))):
            kind = self.kind(folder)
            if kind is None:
                self.put(folder, folder_node())
            elif kind is NodeKind.LINK:
                raise _through_link(path)
            elif kind is NodeKind.FILE:
                raise EffectFailed(f"'{path}' cannot be reached: '{folder}' is a file, not a folder")


def _through_link(path: str) -> SandboxRefusal:
    return SandboxRefusal(
        f"'{path}' is a symbolic link, or lies behind one; nothing is written through links",
        next_step="Name the file itself.",
    )
