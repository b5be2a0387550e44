"""Workers on their way from another program's files: found, read, taken apart, named, and fitted to our own parser.

Files are read below one folder, never outside it. Keys that the parser refuses are left out. No omission may give a
worker more than it had: where access is written in a form that cannot be carried over, the worker loses that access.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias, cast

import yaml

from llm_do_temporal.definitions.workers.places import WorkerPlace, is_ignored
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, parse_worker, split_front_matter
from llm_do_temporal.definitions.yaml.documents import MAX_FILE_BYTES, KeyPath, Problem, Unreadable, decode, parse_yaml
from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.delegation import MAX_WORKER_NAME_CHARS, RESERVED_NAMES


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


JsonObject: TypeAlias = dict[str, Any]
CLAUDE_MODELS = {
    "sonnet": "anthropic:claude-sonnet-5-5",
    "opus": "anthropic:claude-opus-5-5",
    "haiku": "anthropic:claude-haiku-5-5",
}
"""Models behind Claude Code's short names, written as aliases of the new workshop."""
_PROVIDERS = {
    "claude": "anthropic",
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "gemini": "google",
    "mistral": "mistral",
    "grok": "xai",
}
_KEY_LINE = re.compile(r"^([A-Za-z][A-Za-z0-9_-]*):[ \t]?(.*)$")


@dataclass
class Draft:
    """Worker on its way from a file of another program to a worker file."""

    source: SourceFile
    given_name: str
    """Name in the source."""
    given: JsonObject
    """Keys of the source file."""
    body: str
    literal: bool
    """Whether the text is meant as it stands, and was never a template."""
    report: ImportReport
    name: str = ""
    keys: JsonObject = field(default_factory=dict[str, Any])
    """Keys of the worker file."""

    @property
    def label(self) -> str:
        """Path of the source file, as notes name it."""
        return str(self.source.path)

    @property
    def folder(self) -> PurePosixPath:
        """The folder of its file, in the source."""
        return self.source.path.parent

    @property
    def own_folder(self) -> bool:
        """Whether the worker has a folder to itself."""
        return self.source.path.name == "worker.worker" and self.folder.name not in ("", "workers")

    @property
    def generated(self) -> bool:
        """Whether a model wrote it."""
        return self.folder.name == "generated"

    def note(self, message: str) -> None:
        """Say that something was not carried over."""
        self.report.note(self.label, message)

    def toolset(self, name: str) -> JsonObject:
        """Return the keys of one toolset, which is switched on if it was not."""
        toolsets = cast("JsonObject", self.keys.setdefault("toolsets", {}))
        return cast("JsonObject", toolsets.setdefault(name, {}))


def read_draft(file: SourceFile, report: ImportReport) -> Draft | None:
    """Take a file apart; None, with a note, where that is not possible."""
    is_yaml = file.path.suffix in (".yaml", ".yml")
    front, body, _ = (file.text, None, 1) if is_yaml else split_front_matter(file.text)
    label = str(file.path)
    if not file.text.strip():
        report.note(label, "not imported: the file is empty")
        return None
    document, problems = parse_yaml(front, file=label)
    value = document.value
    if file.kind == "markdown" and (problems or not isinstance(value, dict)):
        # Claude Code takes front matter that is not quite YAML: text with colons and examples in it.
        found: JsonObject = {}
        last = ""
        for line in front.splitlines():
            match = _KEY_LINE.match(line)
            if match:
                last = match[1]
                found[last] = match[2].strip().strip("\"'")
            elif last and line.strip():
                found[last] = f"{found[last]}\n{line.strip()}".strip()
        value = found
    elif problems:
        report.note(label, f"not imported: {problems[0].message}")
        return None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        report.note(label, "not imported: there are no keys before the instructions")
        return None
    keys = cast("JsonObject", value)
    text = body or str(keys.get("instructions") or "")
    stem = file.path.parent.name if file.path.name == "worker.worker" and file.path.parent.name else file.path.stem
    name = keys.get("name")
    return Draft(
        source=file,
        given_name=name if isinstance(name, str) and name.strip() else stem,
        given=keys,
        body=text,
        literal=file.kind != "worker",
        report=report,
    )


def name_drafts(drafts: list[Draft]) -> dict[str, str]:
    """Give every draft a different name that a worker can have; return the new name for each given name."""
    taken: set[str] = set()
    table: dict[str, str] = {}
    for draft in drafts:
        wanted = clean_name(draft.given_name)
        name, number = wanted, 2
        while name in taken:
            ending = f"_{number}"
            name, number = f"{wanted[: MAX_WORKER_NAME_CHARS - len(ending)]}{ending}", number + 1
        taken.add(name)
        draft.name = name
        table.setdefault(draft.given_name, name)
        table.setdefault(name, name)
        if name != draft.given_name:
            draft.note(f"renamed from '{draft.given_name[:80]}' to '{name}'; change it where instructions say it")
    return table


def clean_name(given: str) -> str:
    """The nearest name that a worker can have."""
    name = re.sub(r"[^a-z0-9_-]+", "_", given.strip().lower()).strip("_-")
    if not name or not name[0].isalpha():
        name = f"worker_{name}".rstrip("_")
    name = name[:MAX_WORKER_NAME_CHARS]
    return f"{name[: MAX_WORKER_NAME_CHARS - 7]}_worker" if name in RESERVED_NAMES else name


def map_model(given: Any, note: Callable[[str], None]) -> str | None:
    """Return the model as `provider:name` or an alias; None for none, with a note for a name unknown here."""
    if given is None or given == "inherit":
        return None
    if not isinstance(given, str) or not given.strip():
        note("its model is not text and is left out")
        return None
    model = given.strip()
    if model in CLAUDE_MODELS or ":" in model:
        return model
    provider, slash, rest = model.partition("/")
    if slash and provider in {*_PROVIDERS.values(), "openrouter", "groq"}:
        return f"{provider}:{rest}"
    for beginning, provider in _PROVIDERS.items():
        if model.startswith(beginning):
            note(f"model '{model[:80]}' is taken to be '{provider}:{model[:80]}'")
            return f"{provider}:{model}"
    note(f"model '{model[:80]}' names no provider and is left out; write it as provider:name")
    return None


_MAX_ROUNDS = 100
_RAW_END = "{% endraw %}"
_MARKS = ("{{", "{%", "{#")


def fit(draft: Draft, place: WorkerPlace) -> str | None:
    """Return the text of the worker's file; None, with a note, where nothing useful is left."""
    for _ in range(_MAX_ROUNDS):
        text = worker_text(draft)
        parsed = parse_worker(text, place, sha256="")
        problem = next((one for one in parsed.problems if one.severity == "error"), None)
        if problem is None:
            return text
        path = _path_of(parsed, problem)
        if not path or not _drop(draft, path):
            draft.note(f"not imported: {problem.message}")
            return None
        draft.note(f"'{'.'.join(map(str, path))}' is left out: {problem.message}")
    draft.note("not imported: too much of it cannot be carried over")
    return None


def worker_text(draft: Draft) -> str:
    """Return the draft as the text of a worker file."""
    # The name is what the file is called.
    front = yaml.safe_dump(draft.keys, sort_keys=False, allow_unicode=True, width=110) if draft.keys else ""
    body = draft.body.strip()
    if draft.literal and not draft.generated:
        body = as_it_stands(body)
    return f"---\n{front}---\n{body}\n"


def as_it_stands(text: str) -> str:
    """Return text that a template engine renders back to the given text."""
    if not any(mark in text for mark in _MARKS):
        return text
    ended = "{% endraw %}{{ '{% endraw %}' }}{% raw %}"
    return f"{{% raw %}}{text.replace(_RAW_END, ended)}{_RAW_END}"


def _path_of(parsed: ParsedWorker, problem: Problem) -> KeyPath:
    """Return the innermost key on the line of a problem."""
    found = [path for path, line in parsed.document.lines.items() if path and line == problem.line]
    return max(found, key=len, default=())


def _drop(draft: Draft, path: KeyPath) -> bool:
    """Remove the key at the path, or so much around it that no restriction is lost; return False where nothing was."""
    head = tuple(str(step) for step in path[:2])
    if path[0] == "sandbox" and path[1:2] != ("paths",):
        toolsets = cast("JsonObject", draft.keys.get("toolsets", {}))
        for name in ("filesystem", "shell"):
            toolsets.pop(name, None)
        return draft.keys.pop("sandbox", None) is not None
    if path[0] == "attachment_policy":
        draft.keys["attachment_policy"] = {"max_attachments": 0}
        return path != ("attachment_policy", "max_attachments") or len(path) > 1
    if head == ("toolsets", "shell"):
        shell = cast("JsonObject", draft.keys["toolsets"]["shell"])
        if path[2:3] == ("rules",) and len(path) > 3:
            default = shell.get("default")
            blocked = isinstance(default, dict) and cast("JsonObject", default).get("blocked") is True
            # Rules further down may fit what this one was for.
            shell["rules"] = cast("list[Any]", shell["rules"])[: int(path[3])]
            shell["default"] = {"blocked": True} if blocked else {"approval_required": True}
            return True
        return _delete(draft.keys, path[:2])
    if path[0] == "toolsets" and head != ("toolsets", "delegation"):
        return _delete(draft.keys, path[:3] if head == ("toolsets", "custom") else path[:2])
    return _delete(draft.keys, path[:3] if path[0] == "sandbox" else path)


def _delete(keys: JsonObject, path: KeyPath) -> bool:
    inner: Any = keys
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return True
