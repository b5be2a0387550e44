"""Steps from a folder of other programs' workers to a workshop: find, take apart, map, fit, write.

Files that a worker refers to (included text, prompts, schemas, Python tools) are copied, never run. The workshop is put
together in a folder beside the target and moved there as a whole: a target is a complete workshop, or was never made.
"""

from __future__ import annotations

import ast
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

import yaml

from llm_do_temporal.definitions.python_syntax import parse_python
from llm_do_temporal.definitions.workers.instructions import InstructionText, check_instructions
from llm_do_temporal.definitions.workers.places import WorkerPlace
from llm_do_temporal.definitions.yaml.documents import Unreadable, decode, parse_yaml
from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.extensions.importers.access import (
    carry_sandbox,
    carry_toolsets,
    folders_needed,
    is_installed,
    workshop_sandbox,
)
from llm_do_temporal.extensions.importers.drafts import (
    CLAUDE_MODELS,
    Draft,
    JsonObject,
    as_it_stands,
    fit,
    map_model,
    name_drafts,
    read_draft,
    worker_text,
)
from llm_do_temporal.extensions.importers.sources import CONFIG_FILES, ImportReport, Source, open_source
from llm_do_temporal.workshop_search import WORKSHOP_FILE

MAX_COMPANIONS = 200
"""Files that one worker may bring along."""
_INCLUDES = re.compile(r"""(?:\bfile\(|\{%-?\s*(?:include|import|from|extends))\s*\(?\s*['"]([^'"\n]{1,300})['"]""")
_MARK = re.compile(rb"\{[{%#]")
_PROMPT_SUFFIXES = (".jinja2", ".j2", ".txt", ".md")
TOOLS_FILE = "tools.py"
_OLD_IMPORTS = re.compile(rb"^([ \t]*from[ \t]+)llm_do((?:\.types)?[ \t]+import[ \t])", re.MULTILINE)
"""Imports from llm-do in Python tools; this package has the imported names as well."""


class Companions:
    """Files that come along with one worker, by their paths below the worker's folder or the source's."""

    def __init__(self, draft: Draft, source: Source) -> None:
        self.beside: dict[PurePosixPath, bytes] = {}
        """Found in the worker's own folder."""
        self.shared: dict[PurePosixPath, bytes] = {}
        """Found in the source's folder."""
        self._draft = draft
        self._source = source

    def collect(self) -> None:
        """Find every file; note a file that is missing or lies outside the source, and drop the key that names it."""
        self._prompt()
        if not self._draft.literal and not self._draft.generated:
            self._included(self._draft.body)
        for key in ("output_schema_ref", "schema_in_ref"):
            if key in self._draft.keys:
                self._schema(key)
        if "custom" in self._draft.keys.get("toolsets", {}):
            self._tools()

    def _prompt(self) -> None:
        """Take the instructions from `prompts/` where the worker's file has none."""
        draft = self._draft
        if draft.body.strip():
            return
        for folder in (draft.folder, PurePosixPath()):
            for suffix in _PROMPT_SUFFIXES:
                try:
                    text = self._source.text(folder / "prompts" / f"{draft.given_name}{suffix}")
                except Unreadable as error:
                    draft.note(f"a prompt is left out: {error}")
                    continue
                if text is not None:
                    draft.body = text
                    draft.literal = draft.literal or suffix not in (".jinja2", ".j2")
                    return

    def _included(self, text: str) -> None:
        """Collect the files that the text includes; an included file is plain text and includes no others."""
        for name in _INCLUDES.findall(text):
            if len(self.beside) + len(self.shared) >= MAX_COMPANIONS:
                self._draft.note(f"only the first {MAX_COMPANIONS} files it includes are copied")
                return
            content = self._take(name)
            if content is not None and _MARK.search(content):
                self._draft.note(f"'{name[:80]}' is included as text: what stands there as a template is not rendered")

    def _schema(self, key: str) -> None:
        draft = self._draft
        name, _, cls = str(draft.keys[key]).rpartition(":")
        if not name:
            module, _, cls = str(draft.keys[key]).rpartition(".")
            if self._peek(f"{module}.py") is None:
                if not module or not is_installed(module):
                    self._drop(key, f"'{key}' is left out: its module is neither in the folder nor installed")
                return
            name = f"{module}.py"
            draft.keys[key] = f"{name}:{cls}"
        if cls not in self._python(name, classes=True):
            self._drop(key, f"'{key}' is left out: there is no class '{cls[:80]}' in '{name[:80]}'")

    def _tools(self) -> None:
        custom = cast("JsonObject", self._draft.keys["toolsets"]["custom"])
        functions = self._python(TOOLS_FILE, classes=False)
        for name in [name for name in custom if name != "enabled" and name not in functions]:
            del custom[name]
            self._draft.note(f"Python tool '{name[:80]}' is left out: there is no such function in '{TOOLS_FILE}'")

    def _python(self, name: str, *, classes: bool) -> set[str]:
        """Take a Python file along, with the files beside it that it imports; return the names it defines."""
        content = self._take(name)
        try:
            tree = None if content is None else parse_python(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = None
        if tree is None:
            return set()
        folder = PurePosixPath(name).parent
        for module in _imported(tree):
            beside = str(folder / f"{module}.py")
            if self._peek(beside) is not None and not self._has(beside):
                self._python(beside, classes=True)
        wanted = (ast.ClassDef,) if classes else (ast.FunctionDef, ast.AsyncFunctionDef)
        return {node.name for node in tree.body if isinstance(node, wanted)}

    def _has(self, name: str) -> bool:
        return PurePosixPath(name) in {*self.beside, *self.shared}

    def _peek(self, name: str) -> bytes | None:
        try:
            return self._found(name)[1]
        except Unreadable:
            return None

    def _take(self, name: str) -> bytes | None:
        if self._has(name):
            return None if self._draft.body else b""
        try:
            own, content = self._found(name)
            if content is not None:
                decode(content, name)
        except Unreadable as error:
            self._draft.note(f"a file is left out: {error}")
            return None
        if content is None:
            self._draft.note(f"'{name[:80]}' is left out: there is no such file")
            return None
        if name.endswith(".py") and _OLD_IMPORTS.search(content):
            content = _OLD_IMPORTS.sub(rb"\1llm_do_temporal\2", content)
            self._draft.note(f"'{name[:80]}' imports from llm_do; that was changed to llm_do_temporal")
        (self.beside if own else self.shared)[PurePosixPath(name)] = content
        return content

    def _found(self, name: str) -> tuple[bool, bytes | None]:
        """Return whether the file lies beside the worker, and its content (None where it lies elsewhere or nowhere)."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise Unreadable(f"'{name[:80]}' is not a path inside the folder")
        content = self._source.read(self._draft.folder / path)
        if content is not None:
            return self._draft.folder != PurePosixPath(), content
        return False, self._source.read(path)

    def _drop(self, key: str, message: str) -> None:
        del self._draft.keys[key]
        self._draft.note(message)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if "." not in alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and "." not in node.module:
            yield node.module


_AS_THEY_ARE = (
    "compatible_models",
    "output_schema",
    "output_schema_ref",
    "schema_in_ref",
    "attachment_policy",
    "server_side_tools",
    "model_settings",
    "locked",
)
_ELSEWHERE = frozenset(
    {
        "name",
        "description",
        "instructions",
        "model",
        "sandbox",
        "sandboxes",
        "toolsets",
        "tools",
        "allow_workers",
        "disallowedTools",
        "input_model_ref",
    }
)
_REASONS = {
    "entry": "the worker that is started is the one that `start` names",
    "tool_rules": "what needs approval is said by `approvals: rules:` in workshop.yaml",
    "approvals": "what needs approval is said by `approvals: rules:` in workshop.yaml",
    "functions": "code inside a worker file is never run; put it into tools.py",
    "permissionMode": "use `start --strict` or `--approve-all`",
    "color": "nothing here shows it",
}
_CONFIG_KEYS = ("name", "description", "max_depth", "on_refusal")
_FOLDERS = ("workers", "generated")


def import_workers(path: Path, target: Path) -> ImportReport:
    """Make the workshop `target` from the files at `path`; make nothing where no worker can be imported.

    Raises UsageError where `path` does not exist, or `target` is anything but a new or empty folder.
    """
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UsageError(f"'{target}' exists and is not a folder", next_step="Name a new folder with --into DIR.")
    if target.exists() and any(target.iterdir()):
        raise UsageError(
            f"the folder '{target}' is not empty, and nothing is ever written over",
            next_step="Name a new folder with --into DIR.",
        )
    report = ImportReport(target)
    source, files = open_source(path, report)
    drafts = [draft for file in files if (draft := read_draft(file, report)) is not None]
    names = name_drafts(drafts)
    config = _config(source)
    sandbox = config.get("sandbox")
    paths = cast("JsonObject", sandbox).get("paths") if isinstance(sandbox, dict) else None
    shared = cast("JsonObject", paths) if isinstance(paths, dict) else None
    for draft in drafts:
        _carry(draft, names, shared)
    temporary = _beside(target)
    try:
        _Writer(temporary, source, report).write(drafts, config, path)
        if report.workers:
            temporary.replace(target)
        source.note_left(nothing_imported=not report.workers)
    except OSError as error:
        raise UsageError(f"the workshop '{target}' cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return report


def _beside(target: Path) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent.resolve() / f".{target.name}-{secrets.token_hex(6)}"
        temporary.mkdir()
    except OSError as error:
        raise UsageError(f"the folder '{target}' cannot be made: {error.strerror}") from error
    return temporary


def _config(source: Source) -> JsonObject:
    """The settings of the source's own project, where they can be read."""
    for name in CONFIG_FILES:
        try:
            text = source.text(PurePosixPath(name))
        except Unreadable as error:
            source.report.note(name, f"left out: {error}")
            continue
        if text is None:
            continue
        document, problems = parse_yaml(text, file=name)
        if problems or not isinstance(document.value, dict | None):
            message = problems[0].message if problems else "it is not a set of keys"
            source.report.note(name, f"left out: {message}")
            continue
        config = cast("JsonObject", document.value or {})
        for key in config:
            if key not in (*_CONFIG_KEYS, "model", "models", "sandbox"):
                reason = _REASONS.get(key, "it has no counterpart")
                source.report.note(name, f"'{key[:80]}' is left out: {reason}")
        return config
    return {}


def _carry(draft: Draft, names: dict[str, str], shared: JsonObject | None) -> None:
    """Map the keys of the draft's file to ours."""
    given = draft.given
    description = given.get("description")
    if isinstance(description, str) and description.strip():
        draft.keys["description"] = description.strip()
    model = map_model(given.get("model"), draft.note)
    if model is not None:
        draft.keys["model"] = model
    if "input_model_ref" in given:
        given.setdefault("schema_in_ref", given["input_model_ref"])
    for key in _AS_THEY_ARE:
        if given.get(key) is not None:
            draft.keys[key] = given[key]
    carry_sandbox(draft, shared)
    carry_toolsets(draft, names)
    for key in given:
        if key not in _ELSEWHERE and key not in _AS_THEY_ARE:
            draft.note(f"'{key[:80]}' is left out: {_REASONS.get(key, 'it has no counterpart')}")


class _Writer:
    """Writes the new workshop into a folder that is still to be moved to its place."""

    def __init__(self, folder: Path, source: Source, report: ImportReport) -> None:
        self._folder = folder
        self._source = source
        self._report = report
        self._written: dict[PurePosixPath, bytes] = {}

    def write(self, drafts: list[Draft], config: JsonObject, path: Path) -> None:
        """Write every draft that can be written; the report lists the workers that were."""
        written = [draft for draft in drafts if self._worker(draft)]
        given = config.get("sandbox")
        sandbox = workshop_sandbox(cast("JsonObject", given) if isinstance(given, dict) else {}, written)
        for folder in sorted(folders_needed(sandbox, written)):
            try:
                (self._folder / folder).mkdir(parents=True, exist_ok=True)
            except OSError:
                self._report.note(".", f"'{folder}' is a file and a folder of workers' files at once; rename one")
                continue
            self._report.note(".", f"the folder '{folder}' was made, and is empty: put the workers' files there")
        keys = self._workshop(config, sandbox, written, path)
        self._put(PurePosixPath(WORKSHOP_FILE), yaml.safe_dump(keys, sort_keys=False, allow_unicode=True).encode())

    def _worker(self, draft: Draft) -> bool:
        companions = Companions(draft, self._source)
        companions.collect()
        flat = draft.folder.name in ("", *_FOLDERS) and len(draft.folder.parts) <= len(_FOLDERS)
        folder = PurePosixPath("workers")
        if draft.generated:
            folder /= "generated"
        elif draft.own_folder or (companions.beside and not flat):
            folder /= draft.name
        own = folder.name == draft.name and not draft.generated
        path = folder / ("worker.worker" if own else f"{draft.name}.worker")
        place = WorkerPlace(draft.name, self._folder / path, self._folder)
        text = fit(draft, place)
        if text is None:
            return False
        for name, content in companions.beside.items():
            self._companion(draft, folder / name, content)
        for name, content in companions.shared.items():
            self._companion(draft, name, content)
        self._put(path, text.encode())
        if not draft.generated:
            self._check_instructions(draft, place)
        self._report.workers[draft.name] = draft.label
        return True

    def _check_instructions(self, draft: Draft, place: WorkerPlace) -> None:
        """Keep instructions that would not render as plain text; nothing is rendered to find out."""
        text = draft.body if not draft.literal else as_it_stands(draft.body)
        source = InstructionText(text, place.label, 1, place.path.parent, self._folder)
        try:
            check_instructions(source)
        except DefinitionError as error:
            draft.note(f"its instructions are kept as they stand, and nothing is included in them: {error.problem}")
            draft.literal = True
            place.path.write_text(worker_text(draft), encoding="utf-8")

    def _companion(self, draft: Draft, path: PurePosixPath, content: bytes) -> None:
        hidden = any(part.startswith(".") for part in path.parts)
        if hidden or path.suffix == ".worker" or path.name in CONFIG_FILES:
            draft.note(f"'{path}' is not copied: a file of that name means something else here")
        elif self._written.get(path, content) != content:
            draft.note(f"'{path}' is not copied: another worker brought a different file of that name")
        else:
            try:
                self._put(path, content)
            except OSError:
                draft.note(f"'{path}' is not copied: its name is taken by another kind of file")

    def _put(self, path: PurePosixPath, content: bytes) -> None:
        full = self._folder / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content)
        self._written[path] = content

    def _workshop(self, config: JsonObject, sandbox: JsonObject | None, drafts: list[Draft], path: Path) -> JsonObject:
        keys: JsonObject = {"name": path.resolve().stem}
        keys |= {key: value for key, value in config.items() if key in _CONFIG_KEYS and _is_setting(key, value)}
        model = map_model(config.get("model"), lambda message: self._report.note(WORKSHOP_FILE, message))
        if model is not None:
            keys["model"] = model
        own = config.get("models")
        aliases = _aliases(cast("JsonObject", own) if isinstance(own, dict) else {})
        used = {draft.keys.get("model") for draft in drafts} | {model}
        for name, stands_for in CLAUDE_MODELS.items():
            if name in used and name not in aliases:
                aliases[name] = stands_for
                self._report.note(WORKSHOP_FILE, f"'{name}' stands for '{stands_for}'; change it under `models:`")
        if aliases:
            keys["models"] = aliases
        if sandbox is not None:
            keys["sandbox"] = sandbox
        return keys


def _is_setting(key: str, value: Any) -> bool:
    if key == "max_depth":
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value in ("tell_model", "abort") if key == "on_refusal" else isinstance(value, str)


def _aliases(given: JsonObject) -> JsonObject:
    """Return the aliases that stand for a model and say nothing else."""
    return {name: model for name, model in given.items() if isinstance(model, str) and ":" in model}
