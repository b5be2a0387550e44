"""Folders with layers that are kept between commands: the same as those that are written anew."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.sandbox.layers import overlay
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files
from llm_do_temporal.sandbox.layers.overlay import KeptLowers, overlay_folders
from tests.support.workshops.layered import EDITOR, MemoryBlobs, PlayedDraft

NAMES = ("a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a")


class CountedBlobs(MemoryBlobs):
    """Blob store that counts how often it is read."""

    reads = 0

    def read(self, sha256: str) -> bytes:
        self.reads += 1
        return super().read(sha256)


@pytest.fixture
def blobs() -> CountedBlobs:
    return CountedBlobs()


@pytest.fixture
def base(tmp_path: Path, blobs: CountedBlobs) -> Generator[BaseFiles]:
    for name in ("a", "d/a", "d/e/a"):
        (tmp_path / "base" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "base" / name).write_text(name)
    with base_files(tmp_path / "base", contents=LayerContents(blobs)) as files:
        yield files


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[KeptLowers]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = KeptLowers()
    yield made
    made.close()
    assert [one.name for one in tmp_path.iterdir() if one.name != "base"] == []


def laid_out(layer: Layer, base: BaseFiles, contents: LayerContents, kept: KeptLowers | None, at: str = "") -> object:
    """Return all that a command is given of the layer: kinds, permissions, bytes, marks."""
    found: dict[str, object] = {}
    with overlay_folders(layer, base, contents, at=at, kept=kept) as folders:
        lower = folders.lower
        for path in [] if lower is None else [lower, *lower.rglob("*")]:
            facts = path.lstat()
            content = path.read_bytes() if path.is_file() else str(path.readlink()) if path.is_symlink() else ""
            marks = os.listxattr(path, follow_symlinks=False)
            assert stat.S_ISDIR(facts.st_mode) or facts.st_nlink == 1
            found[str(path.relative_to(lower or path))] = (facts.st_mode, facts.st_rdev, content, marks)
    return found


def _step(draft: PlayedDraft, contents: LayerContents, chance: random.Random) -> None:
    path, other = chance.choice(NAMES), chance.choice(NAMES)
    with suppress(EffectFailed, SandboxRefusal):
        match chance.randrange(6):
            case 0:
                draft.delete(path)
            case 1:
                draft.rename(path, other)
            case 2:
                draft.link(path, other)
            case 3:
                draft.change_mode(path, chance.choice((0o600, 0o644, 0o700, 0o755)))
            case _:
                draft.write(path, contents.keep(chance.choice((b"x", b"y", b"d/a")), path))


@pytest.mark.parametrize("seed", range(10))
def test_what_is_kept_is_what_would_be_written_anew(
    base: BaseFiles, blobs: CountedBlobs, kept: KeptLowers, seed: int
) -> None:
    chance, contents, layer = random.Random(seed), LayerContents(blobs), NO_LAYER
    for _ in range(25):
        draft = PlayedDraft(layer, base, EDITOR)
        for _ in range(chance.randrange(3)):
            _step(draft, contents, chance)
        layer = draft.layer()
        at = chance.choice(("", "", "d"))
        assert laid_out(layer, base, contents, kept, at) == laid_out(layer, base, contents, None, at)


def test_a_file_that_is_the_same_is_not_read_again(base: BaseFiles, blobs: CountedBlobs, kept: KeptLowers) -> None:
    contents = LayerContents(blobs)
    draft = PlayedDraft(NO_LAYER, base, EDITOR)
    for number in range(20):
        draft.write(f"new/{number}", contents.keep(f"{number}".encode(), "new"))
    laid_out(draft.layer(), base, contents, kept)
    before = blobs.reads
    draft.write("new/7", contents.keep(b"another", "new/7"))
    laid_out(draft.layer(), base, contents, kept)
    assert blobs.reads == before + 1


def test_a_large_layer_is_not_kept(
    base: BaseFiles, blobs: CountedBlobs, kept: KeptLowers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "MAX_KEPT_BYTES", 10)
    contents = LayerContents(blobs)
    draft = PlayedDraft(NO_LAYER, base, EDITOR)
    draft.write("new", contents.keep(b"more than ten bytes", "new"))
    laid_out(draft.layer(), base, contents, kept)
    assert kept.take("") is None


def test_only_a_few_are_kept(base: BaseFiles, blobs: CountedBlobs, kept: KeptLowers) -> None:
    contents = LayerContents(blobs)
    draft = PlayedDraft(NO_LAYER, base, EDITOR)
    names = ("one", "two", "three", "four", "five")
    for name in names:
        draft.write(f"{name}/x", contents.keep(b"x", name))
    for name in names:
        laid_out(draft.layer(), base, contents, kept, name)
    assert [name for name in names if kept.take(name) is None] == ["one"]
