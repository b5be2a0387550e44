"""Upper folders of overlays, made by hand as a kernel leaves them."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.sandbox.layers.command_folders import UpperReader
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files
from tests.support.workshops.layered import EDITOR, MemoryBlobs


@dataclass
class Upper:
    """Upper folder, and the base that it lies over."""

    folder: Path
    base: BaseFiles
    contents: LayerContents

    def read(self, layer: Layer = NO_LAYER) -> Layer:
        return UpperReader(self.base, self.contents).read(self.folder, layer, EDITOR)

    def put(self, path: str, text: str = "x", mode: int = 0o644) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def whiteout(self, path: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(self.folder / path, stat.S_IFCHR, 0)

    def opaque(self, path: str, mark: str = "user.overlay.opaque") -> None:
        (self.folder / path).mkdir(parents=True, exist_ok=True)
        os.setxattr(self.folder / path, mark, b"y")


@contextmanager
def upper_over_base(folder: Path) -> Generator[Upper]:
    """An empty upper folder over three small files."""
    base, upper = folder / "base", folder / "upper"
    upper.mkdir()
    for name in ("a.txt", "src/one.py", "src/deep/two.py"):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(name)
    contents = LayerContents(MemoryBlobs(), max_file_bytes=1000)
    with base_files(base, contents=contents) as files:
        yield Upper(upper, files, contents)
