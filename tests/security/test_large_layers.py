"""Large files below a layer: what a command makes of a file of 2 GB, and how many changes a layer takes."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.policy.layers.view import LayerDraft
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files
from tests.support.workshops.layered import EDITOR, MemoryBlobs, ran_over, text_file

LARGE_BYTES = 2 << 30
TOO_LARGE_BYTES = 300 << 20
"""More than a file of a layer has, and read in a moment: whatever deletes or replaces a file of the base reads it."""


@dataclass
class Shop:
    """Folder with sparse files, one of 2 GB and one of 300 MB, and commands over it."""

    folder: Path
    base: BaseFiles
    contents: LayerContents

    def ran(self, script: str, layer: Layer = NO_LAYER) -> Layer:
        return ran_over(layer, self.base, self.contents, script, self.folder.parent)


@pytest.fixture
def shop(tmp_path: Path) -> Generator[Shop]:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "small.txt").write_text("small")
    (folder / "large.bin").touch()
    (folder / "other.bin").touch()
    os.truncate(folder / "large.bin", LARGE_BYTES)
    os.truncate(folder / "other.bin", TOO_LARGE_BYTES)
    contents = LayerContents(MemoryBlobs())
    with base_files(folder, contents=contents) as base:
        yield Shop(folder, base, contents)


@pytest.mark.parametrize(
    "script",
    [
        "echo more >> large.bin",
        "chmod 755 large.bin",
        "mv other.bin moved.bin",
        "truncate -s 300M large.bin",
        "truncate -s 2G new.bin",
    ],
)
def test_a_change_that_is_too_large_is_named_and_nothing_of_its_command_is_taken(shop: Shop, script: str) -> None:
    with pytest.raises(SandboxRefusal, match=r"'\w+\.bin' has more than the 268435456 bytes"):
        shop.ran(f"echo new > small.txt; {script}")
    assert (shop.folder / "small.txt").read_text() == "small"
    assert (shop.folder / "large.bin").stat().st_size == LARGE_BYTES


@pytest.mark.thorough
@pytest.mark.control
def test_a_command_reads_and_cuts_a_large_file(shop: Shop) -> None:
    layer = shop.ran("stat -c %s large.bin > size.txt; truncate -s 5 other.bin")
    read: dict[str, bytes] = {}
    for path, entry in layer.changes.items():
        assert entry.now is not None
        read[path] = shop.contents.read(entry.now, path)
    assert read == {"other.bin": bytes(5), "size.txt": b"2147483648\n"}


@pytest.mark.thorough
def test_a_layer_of_more_paths_than_it_takes_is_refused_with_their_number(shop: Shop) -> None:
    draft = LayerDraft(NO_LAYER, shop.base, EDITOR)
    with pytest.raises(SandboxRefusal, match=r"20,?000"):  # noqa: PT012 - whichever write is one too many
        for number in range(20_001):
            draft.write(f"f{number}.txt", text_file("x"))
        draft.layer()
