"""Patches of layers: `git apply` makes the same files of one as a commit would."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from llm_do_temporal.policy.layers.draft import Kept, LayerDraft
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.policy.layers.nodes import LayerNode, link_node
from llm_do_temporal.policy.layers.patch import patch_of
from tests.support.workshops.layered import EDITOR, FilesInMind, MemoryBlobs, text_file

FILES: dict[str, bytes] = {
    "changed.txt": b"one\ntwo\nthree\n",
    "deleted.txt": b"gone\n",
    "old name.txt": b"the same\n",
    'with quotes ".txt': b"q\n",
    "für.txt": b"u\n",
    "tool.sh": b"#!/bin/sh\n",
    "empty.txt": b"",
    "image.bin": bytes(range(256)) * 3,
    "turns.txt": b"a file\n",
    "tab\tand\\.txt": b"t\n",
}


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


def _kept(blobs: MemoryBlobs, data: bytes) -> Kept:
    name = blobs.put_bytes(data)
    return Kept(sha256=name, bytes=len(data), blob=name)


def _layer(blobs: MemoryBlobs) -> Layer:
    files = FilesInMind()
    for path, data in FILES.items():
        node = text_file("").model_copy(
            update={"sha256": blobs.put_bytes(data), "bytes": len(data), "blob": blobs.put_bytes(data)}
        )
        files.put(path, node)
    files.put("link", link_node("changed.txt"))
    draft = LayerDraft(NO_LAYER, files, EDITOR)
    draft.write("changed.txt", _kept(blobs, b"one\n2\nthree\nno end"))
    draft.delete("deleted.txt")
    draft.rename("old name.txt", "new name.txt")
    draft.write('with quotes ".txt', _kept(blobs, b"Q\n"))
    draft.write("für.txt", _kept(blobs, b"U\n"))
    draft.write("tab\tand\\.txt", _kept(blobs, b"T\n"))
    draft.change_mode("tool.sh", 0o755)
    draft.write("empty.txt", _kept(blobs, b"no longer\n"))
    draft.write("image.bin", _kept(blobs, bytes(reversed(range(256)))))
    draft.write("new/deep/file.txt", _kept(blobs, b"new\n"), 0o755)
    draft.write("new/empty", _kept(blobs, b""))
    draft.write("new/bytes", _kept(blobs, b"\0\1\2"))
    draft.delete("link")
    draft.link("link", "tool.sh")
    draft.delete("turns.txt")
    draft.link("turns.txt", "link")
    draft.change_mode("new/bytes", 0o600)
    return draft.layer()


def test_git_makes_the_same_files_of_it(blobs: MemoryBlobs, tmp_path: Path) -> None:
    layer = _layer(blobs)
    for path, data in FILES.items():
        (tmp_path / path).write_bytes(data)
    (tmp_path / "link").symlink_to("changed.txt")

    def read(node: LayerNode, _path: str) -> bytes:
        return blobs.read(node.blob or "")

    patch = patch_of(layer, read)
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    subprocess.run(command, cwd=tmp_path, input=patch.encode(), check=True, timeout=60)
    found = {
        str(path.relative_to(tmp_path)): str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_symlink() or path.is_file()
    }
    nodes = {path: entry.now for path, entry in layer.entries.items()}
    assert found == {
        path: node.target.encode() if node.target else blobs.read(node.sha256)
        for path, node in nodes.items()
        if node is not None and node.kind.value != "folder"
    }
    assert (tmp_path / "tool.sh").stat().st_mode & 0o100
    assert (tmp_path / "new/deep/file.txt").stat().st_mode & 0o100


def test_permissions_that_git_does_not_know_make_no_patch(blobs: MemoryBlobs) -> None:
    files = FilesInMind()
    files.put("a.txt", text_file("a"))
    files.put("folder", text_file("x"))
    draft = LayerDraft(NO_LAYER, files, EDITOR)
    draft.change_mode("a.txt", 0o600)
    blobs.put_bytes(b"a")

    def read(node: LayerNode, _path: str) -> bytes:
        return blobs.read(node.sha256)

    assert patch_of(draft.layer(), read) == ""
