"""Search for importable files and their reading, below one folder and never outside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from llm_do_temporal.definitions.conversion.report import ImportReport
from llm_do_temporal.definitions.workers.places import is_ignored
from llm_do_temporal.definitions.workers.worker_file import split_front_matter
from llm_do_temporal.definitions.yaml.text_files import MAX_FILE_BYTES, Unreadable, decode
from llm_do_temporal.errors import UsageError

Kind = Literal["worker", "agent", "markdown"]
CONFIG_FILES = ("workshop.yaml", "workshop.yml", "project.yaml", "project.yml")
MAX_DEPTH = 8
MAX_ENTRIES = 20_000
"""Files and folders looked at, so that naming `/` by mistake ends with an answer, too."""
MAX_WORKERS = 1_000
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_KINDS: dict[str, Kind] = {".worker": "worker", ".agent": "agent", ".md": "markdown"}
_NO_AGENTS = frozenset({"skill.md", "readme.md", "claude.md", "agents.md"})


@dataclass(frozen=True)
class SourceFile:
    """A file that may define a worker."""

    path: PurePosixPath
    """Path below the source's folder."""
    kind: Kind
    text: str


class Source:
    """Folder that is imported from."""

    def __init__(self, folder: Path, report: ImportReport) -> None:
        self.folder = folder.resolve()
        self.report = report

    def read(self, path: PurePosixPath) -> bytes | None:
        """Return the bytes of a file of the folder, links followed but not out of it; None where there is no such file.

        Raises Unreadable, with a message for people, for a file that must not be read.
        """
        if path.is_absolute() or ".." in path.parts or "\0" in str(path):
            raise Unreadable(f"'{path}' is not a path inside the folder")
        full = self.folder / path
        try:
            real = full.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            if full.is_symlink():
                raise Unreadable(f"'{path}' is a link that leads nowhere") from error
            return None
        if not real.is_relative_to(self.folder):
            raise Unreadable(f"'{path}' is a link that leads out of the folder")
        if not real.is_file():
            raise Unreadable(f"'{path}' is not a file")
        try:
            with real.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise Unreadable(f"'{path}' cannot be read: {error.strerror}") from error
        if len(content) > MAX_FILE_BYTES:
            raise Unreadable(f"'{path}' is larger than {MAX_FILE_BYTES} bytes")
        return content

    def text(self, path: PurePosixPath) -> str | None:
        """Like `read`, decoded."""
        content = self.read(path)
        return None if content is None else decode(content, str(path))

    def files(self) -> list[SourceFile]:
        """Return every file that may define a worker, sorted by path; note each file that cannot be read."""
        found: list[SourceFile] = []
        for path in sorted(self._candidates()):
            file = self.file(path)
            if file is not None:
                found.append(file)
            if len(found) >= MAX_WORKERS:
                self.report.note(".", f"only the first {MAX_WORKERS} workers are imported")
                break
        return found

    def file(self, path: PurePosixPath) -> SourceFile | None:
        """Return a file that can define a worker; None for any other, with a note where it cannot be read."""
        try:
            text = self.text(path)
        except Unreadable as error:
            self.report.note(str(path), f"not imported: {error}")
            return None
        kind = _KINDS.get(path.suffix.lower(), "worker")
        if text is None or (kind == "markdown" and not _is_agent(path, text)):
            return None
        if path.suffix in (".yaml", ".yml") and "instructions:" not in text:
            return None
        return SourceFile(path, kind, text)

    def _candidates(self) -> Iterator[PurePosixPath]:
        entries = 0
        for current, folders, files in os.walk(self.folder, followlinks=False):
            here = PurePosixPath(Path(current).relative_to(self.folder).as_posix())
            deep = len(here.parts) >= MAX_DEPTH
            folders[:] = [] if deep else sorted(name for name in folders if _is_searched(name))
            for name in sorted(name for name in files if not is_ignored(PurePosixPath(name))):
                entries += 1
                if entries > MAX_ENTRIES:
                    self.report.note(".", f"only the first {MAX_ENTRIES} files of the folder are looked at")
                    return
                path = here / name
                yaml = path.suffix in (".yaml", ".yml") and here.name == "workers"
                if (yaml or path.suffix.lower() in _KINDS) and name not in CONFIG_FILES:
                    yield path


def open_source(path: Path, report: ImportReport) -> tuple[Source, list[SourceFile]]:
    """Return the folder, or the folder around the file that `path` names, and its importable files.

    Raises UsageError.
    """
    if path.is_dir():
        source = Source(path, report)
        return source, source.files()
    if not path.is_file():
        raise UsageError(f"there is no file or folder '{path}'", next_step="Name what to import.")
    source = Source(path.parent, report)
    file = source.file(PurePosixPath(path.name))
    return source, [] if file is None else [file]


def _is_searched(name: str) -> bool:
    return name == ".claude" or not (is_ignored(PurePosixPath(name)) or name in _SKIPPED)


def _is_agent(path: PurePosixPath, text: str) -> bool:
    """Whether a Markdown file begins with the keys of an agent."""
    if path.name.lower() in _NO_AGENTS or not text.lstrip().startswith("---"):
        return False
    front = split_front_matter(text)[0]
    keys = {line.partition(":")[0].strip() for line in front.splitlines() if ":" in line}
    return {"name", "description"} <= keys
