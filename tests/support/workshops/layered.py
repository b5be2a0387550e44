"""Files in layers, as tests need them: a blob store in memory, what is in a folder, commands over a layer."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.policy.layers.draft import Kept
from llm_do_temporal.policy.layers.layer import Layer, LayerAuthor
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind, file_node, folder_node
from llm_do_temporal.policy.layers.paths import above, name_of, parent_of
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.sandbox.layers.base_files import BaseFiles
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.layers.disk import Disk
from llm_do_temporal.sandbox.layers.overlay import overlay_folders
from llm_do_temporal.sandbox.layers.upper import UpperReader
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


def kept_text(text: str) -> Kept:
    node = text_file(text)
    return Kept(sha256=node.sha256, bytes=node.bytes, blob=node.sha256)


class UnsyncedDisk(Disk):
    """Disk that does not wait for anything to be on it: what is tested is the order of things."""

    def sync(self, file: int) -> None:
        pass


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
    """Return a node as `seen` shows it."""
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
