"""A worker on its way from another program's file to one of ours: taken apart, named, and fitted to our own parser.

Keys that the parser refuses are left out. No omission may give a worker more than it had: where access is written in a
form that cannot be carried over, the worker loses that access.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeAlias, cast

import yaml

from llm_do_temporal.definitions.workers.places import WorkerPlace
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, parse_worker, split_front_matter
from llm_do_temporal.definitions.yaml.documents import KeyPath, Problem, parse_yaml
from llm_do_temporal.extensions.importers.sources import ImportReport, SourceFile
from llm_do_temporal.policy.delegation import MAX_WORKER_NAME_CHARS, RESERVED_NAMES

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
