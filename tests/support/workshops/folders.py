"""A workshop on disk, for attacks on what is loaded from it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.messages.definitions import PinnedWorker

SECRET = "sk-do-not-tell-0123456789"


@dataclass(frozen=True)
class Folder:
    """A workshop whose files tests write as an author, a model, or a stranger would."""

    root: Path

    def write(self, path: str, text: str | bytes) -> Path:
        """The file at `path`, with its folders."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def link(self, path: str, target: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def load(self, name: str) -> PinnedWorker:
        """The worker as the worker service loads an entry worker."""
        return Registry(load_workshop(self.root), load_toolsets=True).load(name)


@contextmanager
def forgotten_modules(below: Path) -> Generator[None]:
    """Afterwards no module is loaded that lies below a folder: the next workshop brings its own of the same name."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        if str(below) in f"{getattr(module, '__file__', '')} {getattr(module, '__path__', '')}":
            del sys.modules[name]


def make_folder(root: Path, settings: str = "sandbox: {root: files}\n") -> Folder:
    """A workshop with secrets where a curious template would look for them, and a folder that workers write to."""
    folder = Folder(root)
    folder.write("workshop.yaml", settings)
    folder.write("files/note.md", "a note")
    folder.write(".env", f"KEY={SECRET}\n")
    folder.write(".llm-do/host.json", f'{{"key": "{SECRET}"}}\n')
    folder.write(".git/config", f"[x]\n\tkey = {SECRET}\n")
    folder.write("workers/.secret.md", SECRET)
    folder.write("../outside.md", SECRET)
    return folder


def has_run(ran: Path) -> bool:
    """Whether hostile Python has made this file; for coroutines, which may not look themselves."""
    return ran.exists()
