"""Hunks: any choice of them gives the file that `git apply` makes of the same choice."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer, LayerNode, file_node, link_node
from llm_do_temporal.policy.layers.patch import MAX_COMPARED_LINES, FileHunks, file_hunks, patch_of
from tests.support.workshops.layered import EDITOR, FilesInMind, MemoryBlobs, PlayedDraft, text_file

LINES = (
    "one\n",
    "two\n",
    "\n",
    "drei\r\n",
    "a\x0bb\u2028c\n",
    "-minus\n",
    "+plus\n",
    "\\ No newline\n",
    "@@ -1 +1 @@\n",
)


def hunks_of(old: str, new: str) -> FileHunks:
    found = file_hunks(old.encode(), new.encode())
    assert found is not None
    return found


def random_text(dice: random.Random) -> str:
    text = "".join(dice.choice(LINES) for _ in range(dice.randrange(60)))
    return text + dice.choice(("", "", "no end of line"))


def changed(dice: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True) if "\x0b" not in text else text.replace("\n", "\n\0").split("\0")
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(lines) + 1)
        lines[at : at + dice.randrange(3)] = [dice.choice(LINES) for _ in range(dice.randrange(3))]
    return "".join(lines)


def test_all_hunks_are_the_new_file_and_none_the_old_one() -> None:
    dice = random.Random(1)
    for _ in range(300):
        old = random_text(dice)
        new = changed(dice, old)
        found = file_hunks(old.encode(), new.encode())
        if found is None:
            assert old == new
            continue
        assert found.applied([hunk.id for hunk in found.hunks]) == new
        assert found.applied([]) == old
        assert len({hunk.id for hunk in found.hunks}) == len(found.hunks)


def test_each_choice_of_hunks_is_what_git_makes_of_their_patch(tmp_path: Path) -> None:
    dice = random.Random(2)
    expected: dict[str, str] = {}
    patches: list[str] = []
    for number in range(120):
        old = random_text(dice)
        found = file_hunks(old.encode(), changed(dice, old).encode())
        if found is None:
            continue
        ids = [hunk.id for hunk in found.hunks if dice.random() < 0.6]
        if not ids or not old:
            continue
        name = f"file-{number}"
        (tmp_path / name).write_bytes(old.encode())
        expected[name] = found.applied(ids)
        patches.append(f"--- a/{name}\n+++ b/{name}\n{found.unified(ids)}")
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    subprocess.run(command, cwd=tmp_path, input="".join(patches).encode(), check=True, timeout=60)
    # git removes a file that a patch leaves without a line.
    found_files = {name: (tmp_path / name).read_bytes().decode() for name in expected if (tmp_path / name).exists()}
    assert found_files == {name: text for name, text in expected.items() if name in found_files}
    assert len(found_files) > 60


def test_a_hunk_has_three_lines_around_it_and_counts_from_the_old_file() -> None:
    old = "".join(f"{n}\n" for n in range(20))
    found = hunks_of(old, old.replace("3\n", "three\n", 1).replace("18\n", "", 1))
    first, second = found.hunks
    assert first.lines == (" 0\n", " 1\n", " 2\n", "-3\n", "+three\n", " 4\n", " 5\n", " 6\n")
    assert (second.old_start, second.old_lines, second.new_lines, second.growth) == (15, 5, 4, -1)
    assert found.unified([second.id]).startswith("@@ -16,5 +16,4 @@\n")
    assert found.unified() == found.unified([first.id, second.id])


def test_an_end_without_a_line_feed_is_told() -> None:
    assert hunks_of("a", "a\n").unified() == "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"
    assert hunks_of("", "a\n").unified() == "@@ -0,0 +1,1 @@\n+a\n"


def test_an_id_of_another_state_of_the_file_is_refused() -> None:
    stale = hunks_of("a\nb\n", "a\nc\n").hunks[0].id
    now = hunks_of("a\nb\n", "a\nd\n")
    assert now.hunks[0].id == hunks_of("a\nb\n", "a\nd\n").hunks[0].id
    with pytest.raises(DecisionRefused, match=f"there is no part '{stale}' of this change"):
        now.applied([stale])


@pytest.mark.parametrize(("old", "new"), [(b"a", b"a"), (b"a\0", b"b"), (b"a", b"\xff")])
def test_what_is_no_text_or_no_change_has_no_hunks(old: bytes, new: bytes) -> None:
    assert file_hunks(old, new) is None


@pytest.mark.parametrize(("head", "tail"), [("same\n", "same\n"), ("", "")])
def test_where_too_many_lines_differ_they_are_one_hunk(head: str, tail: str) -> None:
    old = head + "".join(f"{n}\n" for n in range(MAX_COMPARED_LINES)) + tail
    new = head + "".join(f"{n} new\n" for n in range(MAX_COMPARED_LINES)) + tail
    found = hunks_of(old, new)
    assert len(found.hunks) == 1
    assert found.applied([found.hunks[0].id]) == new


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


def _kept(blobs: MemoryBlobs, data: bytes) -> LayerNode:
    name = blobs.put_bytes(data)
    return file_node(name, len(data), blob=name)


def _layer(blobs: MemoryBlobs) -> Layer:
    files = FilesInMind()
    for path, data in FILES.items():
        files.put(path, _kept(blobs, data))
    files.put("link", link_node("changed.txt"))
    draft = PlayedDraft(NO_LAYER, files, EDITOR)
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
    draft = PlayedDraft(NO_LAYER, files, EDITOR)
    draft.change_mode("a.txt", 0o600)
    blobs.put_bytes(b"a")

    def read(node: LayerNode, _path: str) -> bytes:
        return blobs.read(node.sha256)

    assert patch_of(draft.layer(), read) == ""
