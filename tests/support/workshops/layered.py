"""Files in layers, as tests need them: a blob store in memory, what is in a folder, commands over a layer."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.policy.layers.layer import (
    Layer,
    LayerAuthor,
    LayerNode,
    NodeKind,
    above,
    checked_path,
    file_node,
    folder_node,
    layer_of,
    link_node,
    name_of,
    parent_of,
)
from llm_do_temporal.policy.layers.view import LayerDraft
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.sandbox.layers.command_folders import UpperReader
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents
from llm_do_temporal.sandbox.layers.overlay import overlay_folders
from llm_do_temporal.storage.blobs import Readable, chunks_of

EDITOR = LayerAuthor(invocation="main/editor-1", turn=1)
Seen = Mapping[str, tuple[str, int, bytes]]
"""Everything below a folder: kind, permissions, and bytes or text of a link, by path."""


class MemoryBlobs:
    """Blob store that keeps its blobs in memory."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def put_bytes(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.blobs[name] = data
        return name

    def put_stream(self, reader: Readable, max_bytes: int) -> tuple[str, int]:
        data = b"".join(chunks_of(reader, max_bytes))
        return self.put_bytes(data), len(data)

    def read(self, sha256: str) -> bytes:
        if sha256 not in self.blobs:
            raise EffectFailed(f"blob '{sha256}' is not in the blob store")
        return self.blobs[sha256]

    def size(self, sha256: str) -> int:
        return len(self.read(sha256))


class FilesInMind:
    """Base of a layer that is only thought of: nodes by path, with the folders around them."""

    def __init__(self, **nodes: LayerNode) -> None:
        self.nodes: dict[str, LayerNode] = {}
        for path, node in nodes.items():
            self.put(path, node)

    def put(self, path: str, node: LayerNode) -> None:
        for folder in above(path):
            self.nodes.setdefault(folder, folder_node())
        self.nodes[path] = node

    def kind(self, path: str) -> NodeKind | None:
        node = self.look(path)
        return None if node is None else node.kind

    def look(self, path: str) -> LayerNode | None:
        if path.endswith(".pipe"):
            raise SandboxRefusal(f"'{path}' is neither a file nor a link nor a folder")
        return self.nodes.get(path)

    def kept(self, path: str) -> LayerNode | None:
        node = self.nodes.get(path)
        return node if node is None or not node.sha256 else node.model_copy(update={"blob": node.sha256})

    def names(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(name_of(one) for one in self.nodes if parent_of(one) == path))


def text_file(text: str, mode: int = 0o644, *, kept: bool = True) -> LayerNode:
    """Return the file with this text; `kept` in a blob store, or only in the base."""
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    return file_node(sha256, len(data), blob=sha256 if kept else None, mode=mode)


class PlayedDraft(LayerDraft):
    """Draft with further steps, which mean what the system calls of their names mean: commands do them in a layer."""

    def write(self, path: str, file: LayerNode, mode: int | None = None) -> None:
        super().write(path, file)
        if mode is not None:
            self.change_mode(path, mode)

    def link(self, path: str, target: str) -> None:
        self._check_parent(checked_path(path))
        if self.kind(path) is not None:
            raise EffectFailed(f"'{path}' is there already")
        self.put(path, link_node(target, path))

    def folder(self, path: str, mode: int = 0o755) -> None:
        checked_path(path)
        if self.kind(path) is NodeKind.FOLDER:
            return
        if self.kind(path) is not None:
            raise EffectFailed(f"'{path}' is there already, and is no folder")
        self._make_parents(path)
        self.put(path, folder_node(mode))

    def change_mode(self, path: str, mode: int) -> None:
        if self.kind(path) in (None, NodeKind.LINK):
            raise EffectFailed(f"'{path}' is no file and no folder")
        node = self._kept(path)
        if node.mode != mode:
            self.put(path, node.with_mode(mode))

    def rename(self, path: str, new_path: str) -> None:
        checked_path(new_path)
        kind, there = self.kind(path), self.kind(new_path)
        if kind is None or new_path.startswith(f"{path}/"):
            raise EffectFailed(f"'{path}' cannot be moved to '{new_path}'")
        if path == new_path:
            return
        self._check_parent(new_path)
        if NodeKind.FOLDER in (kind, there) and there is not None and (kind is not there or self.names(new_path)):
            raise EffectFailed(f"'{new_path}' is there already")
        moved = [(path, new_path), *((one, new_path + one[len(path) :]) for one, _kind in self.walk(path))]
        nodes = [(new, self._kept(old)) for old, new in moved]
        self.delete(path)
        for new, node in nodes:
            self.put(checked_path(new), node)

    def _kept(self, path: str) -> LayerNode:
        node = self.look(path)
        if node is not None and node.kind is NodeKind.FILE and node.blob is None:
            node = self.base.kept(path)
        assert node is not None
        return node

    def _check_parent(self, path: str) -> None:
        if any(self.kind(folder) is not NodeKind.FOLDER for folder in above(path)):
            raise EffectFailed(f"'{path}' has no folder to be in")


def laid_over(layer: Layer, upper: Layer) -> Layer:
    """Return a layer with another one that lies over it, as one: the opposite of `since`."""
    entries = dict(layer.entries)
    for path, entry in upper.entries.items():
        base = entries[path].base if path in entries else entry.base
        entries[path] = entry.model_copy(update={"base": base})
    return layer_of(entries)


def seen(folder: Path) -> Seen:
    """Return everything below the folder but the product's own state."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith(".llm-do/") or name == ".llm-do":
            continue
        if path.is_symlink():
            found[name] = ("link", 0, os.fsencode(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder", path.stat().st_mode & 0o7777, b"")
        else:
            found[name] = ("file", path.stat().st_mode & 0o7777, path.read_bytes())
    return found


def as_seen(node: LayerNode, path: str, contents: LayerContents) -> tuple[str, int, bytes]:
    if node.kind is NodeKind.FILE:
        return ("file", node.mode, contents.read(node, path))
    return (node.kind.value, node.mode, node.target.encode())


def ran_over(layer: Layer, base: BaseFiles, contents: LayerContents, script: str, scratch: Path) -> Layer:
    """Return the layer after a shell script was run over it, in an overlay."""
    bwrap = working_bwrap()
    assert bwrap is not None
    with overlay_folders(layer, base, contents, scratch=scratch) as folders:
        descriptor = os.open(f"/proc/self/fd/{base.descriptor}", os.O_RDONLY | os.O_DIRECTORY)
        try:
            options = ("--unshare-user", "--unshare-pid", "--die-with-parent", "--ro-bind", "/", "/")
            options += folders.options(descriptor, "/mnt")
            command = [bwrap, *options, "--chdir", "/mnt", "--", "sh", "-c", script]
            subprocess.run(command, capture_output=True, check=False, pass_fds=(descriptor,), timeout=60)
        finally:
            os.close(descriptor)
        return UpperReader(base, contents).read(folders.upper, layer, EDITOR)
