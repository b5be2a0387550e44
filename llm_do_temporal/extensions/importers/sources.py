"""Search for importable files and their reading, below one folder never outside it, with a report of what is left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from llm_do_temporal.definitions.workers.places import is_ignored
from llm_do_temporal.definitions.workers.worker_file import split_front_matter
from llm_do_temporal.definitions.yaml.documents import MAX_FILE_BYTES, Unreadable, decode
from llm_do_temporal.errors import UsageError


@dataclass(frozen=True)
class Note:
    """Remark on a setting that was not carried over unchanged, with the reason."""

    file: str
    """Path in the source."""
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.message}"


@dataclass
class ImportReport:
    """Result of an import."""

    target: Path
    """The new workshop."""
    workers: dict[str, str] = field(default_factory=dict[str, str])
    """Workers that were written: the name, and the path of its file in the source."""
    notes: list[Note] = field(default_factory=list[Note])

    def note(self, file: str, message: str) -> None:
        """Add a note, once."""
        said = Note(file, message)
        if said not in self.notes:
            self.notes.append(said)


Kind = Literal["worker", "agent", "markdown"]
CONFIG_FILES = ("workshop.yaml", "workshop.yml", "project.yaml", "project.yml")
MAX_DEPTH = 8
MAX_ENTRIES = 20_000
"""Files and folders looked at, so that naming `/` by mistake ends with an answer, too."""
MAX_WORKERS = 1_000
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_KINDS: dict[str, Kind] = {".worker": "worker", ".agent": "agent", ".md": "markdown"}
MOST_NAMED = 10
PLUGIN = ".claude-plugin"
"""Folder that makes a plugin of the folder around it."""
_KINDS_BY_NAME = {
    "skill.md": "skills",
    "claude.md": "texts for all agents",
    "agents.md": "texts for all agents",
    "gemini.md": "texts for all agents",
    ".mcp.json": "lists of MCP servers",
}
_KINDS_BY_FOLDER = {"commands": "commands", "hooks": "hooks", "skills": "files of skills", "output-styles": "styles"}
"""Kinds of files by the folder of `.claude`, or of a plugin, that they are in."""
_BY_HAND = {
    "skills": "put what a worker needs of them into its instructions",
    "files of skills": "put what a worker needs of them into its instructions",
    "texts for all agents": "put what a worker needs of them into its instructions",
    "lists of MCP servers": "name the servers below `toolsets: mcp:` of the workers that need them",
    "commands": "give their text to `start` as the prompt, or write it as a worker",
    "hooks": "write what must be asked or blocked as `approvals: rules:` in workshop.yaml",
    "settings": "write what must be asked or blocked as `approvals: rules:` in workshop.yaml",
    "styles": "put what a worker needs of them into its instructions",
    "plugins": "their agents are imported like others, and nothing else of them",
    "Markdown": "an agent begins with `name` and `description` between lines of `---`",
    "YAML": "a worker in YAML has `instructions:`",
    "other files": "workers are `.worker`, `.agent` and Markdown files; what they refer to is copied",
}
"""Ways to carry over what is no worker, by its kind."""
_MAYBE = ("Markdown", "YAML", "other files")
"""Kinds of files that are mostly something else than a worker that was meant."""


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
        self._left: dict[str, list[PurePosixPath]] = {}

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

    def note_left(self, *, nothing_imported: bool) -> None:
        """Note what was found and is no worker, one line for each kind of it, with the way to carry it over by hand.

        Files that may be documentation or code are noted where nothing was imported, and where they are in `agents/`.
        """
        for kind, paths in sorted(self._left.items()):
            told = paths if nothing_imported or kind not in _MAYBE else [one for one in paths if _is_in_agents(one)]
            if told:
                names = ", ".join(str(path) for path in told[:MOST_NAMED])
                more = f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
                self.report.note(".", f"not imported: {kind} ({names}{more}): {_BY_HAND[kind]}")

    def file(self, path: PurePosixPath) -> SourceFile | None:
        """Return a file that can define a worker; None for any other, with a note where it cannot be read."""
        try:
            text = self.text(path)
        except Unreadable as error:
            self.report.note(str(path), f"not imported: {error}")
            return None
        kind = _KINDS.get(path.suffix.lower(), "worker")
        if text is None:
            return None
        if kind == "markdown" and not _is_agent(path, text):
            self._leave("Markdown", path)
            return None
        if path.suffix in (".yaml", ".yml") and "instructions:" not in text:
            self._leave("YAML", path)
            return None
        return SourceFile(path, kind, text)

    def _candidates(self) -> Iterator[PurePosixPath]:
        entries = 0
        for current, folders, files in os.walk(self.folder, followlinks=False):
            here = PurePosixPath(Path(current).relative_to(self.folder).as_posix())
            deep = len(here.parts) >= MAX_DEPTH
            if deep and any(map(_is_searched, folders)):
                self.report.note(".", f"folders more than {MAX_DEPTH} levels down are not looked at")
            if PLUGIN in folders:
                self._leave("plugins", here)
            folders[:] = [] if deep else sorted(name for name in folders if _is_searched(name))
            for name in sorted(files):
                entries += 1
                if entries > MAX_ENTRIES:
                    self.report.note(".", f"only the first {MAX_ENTRIES} files of the folder are looked at")
                    return
                path = here / name
                if self.leave_other(path) or is_ignored(PurePosixPath(name)):
                    continue
                yaml = path.suffix in (".yaml", ".yml") and here.name == "workers"
                if (yaml or path.suffix.lower() in _KINDS) and name not in CONFIG_FILES:
                    yield path
                elif name not in CONFIG_FILES:
                    self._leave("other files", path)

    def _leave(self, kind: str, path: PurePosixPath) -> None:
        self._left.setdefault(kind, []).append(path)

    def leave_other(self, path: PurePosixPath) -> bool:
        """Note for later that a file of Claude Code is no agent; False for any other file."""
        name, parts = path.name.lower(), (self.folder / path).parts
        kind = _KINDS_BY_NAME.get(name)
        if kind is None and name in ("settings.json", "settings.local.json") and parts[-2] == ".claude":
            kind = "settings"
        for number, part in enumerate(parts[1:-1], 1):
            is_owned = parts[number - 1] == ".claude" or (Path(*parts[:number]) / PLUGIN).is_dir()
            if kind is None and part in _KINDS_BY_FOLDER and is_owned:
                kind = _KINDS_BY_FOLDER[part]
        if kind is not None:
            self._leave(kind, path)
        return kind is not None


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
    name = PurePosixPath(path.name)
    file = None if source.leave_other(name) else source.file(name)
    return source, [] if file is None else [file]


def _is_in_agents(path: PurePosixPath) -> bool:
    return path.suffix.lower() == ".md" and path.parent.name == "agents" and path.name.lower() != "readme.md"


def _is_searched(name: str) -> bool:
    return name == ".claude" or not (is_ignored(PurePosixPath(name)) or name in _SKIPPED)


def _is_agent(path: PurePosixPath, text: str) -> bool:
    """Whether a Markdown file begins with the keys of an agent."""
    if path.name.lower() == "readme.md" or not text.lstrip().startswith("---"):
        return False
    front = split_front_matter(text)[0]
    keys = {line.partition(":")[0].strip() for line in front.splitlines() if ":" in line}
    return {"name", "description"} <= keys
