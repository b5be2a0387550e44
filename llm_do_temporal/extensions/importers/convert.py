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
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, cast

import yaml

from llm_do_temporal.definitions.python_syntax import parse_python
from llm_do_temporal.definitions.workers.instructions import InstructionText, check_instructions
from llm_do_temporal.definitions.workers.places import WorkerPlace
from llm_do_temporal.definitions.yaml.documents import Unreadable, decode, parse_yaml
from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.extensions.importers.drafts import (
    CLAUDE_MODELS,
    CONFIG_FILES,
    Draft,
    ImportReport,
    JsonObject,
    Source,
    as_it_stands,
    fit,
    map_model,
    name_drafts,
    open_source,
    read_draft,
    worker_text,
)
from llm_do_temporal.workshop_search import WORKSHOP_FILE

_RENAMED = {"path": "root", "allowed_suffixes": "suffixes", "max_bytes": "max_file_bytes"}
_PATH_KEYS = frozenset({"root", "mode", "suffixes", "max_file_bytes", "read_approval", "write_approval"})
_WORKER_KEYS = frozenset(
    {"restrict", "readonly", "suffixes", "max_file_bytes", "read_approval", "write_approval", "paths"}
)
FILES = "files"
"""Sandbox folder of a workshop whose source does not mention files."""


def carry_sandbox(draft: Draft, shared: JsonObject | None) -> None:
    """Carry over `sandbox:`, or the still older `sandboxes:`; `shared` are the paths of the source's own settings."""
    given = draft.given.get("sandbox")
    if given is None and isinstance(draft.given.get("sandboxes"), dict):
        given = {"paths": draft.given["sandboxes"]}
    if given is None and shared:
        given = {"paths": shared}
        draft.note("its folders come from the settings of its project, and are written into its file")
    if given is None:
        return
    if not isinstance(given, dict):
        draft.note("its sandbox is not a set of keys and is left out: it reaches no files")
        draft.keys["sandbox"] = {"paths": {}}
        return
    keys = cast("JsonObject", given)
    found: JsonObject = {name: value for name, value in keys.items() if name in _WORKER_KEYS and name != "paths"}
    for name in keys:
        if name not in _WORKER_KEYS:
            draft.note(f"'sandbox.{name[:80]}' is left out: it has no counterpart")
    paths = keys.get("paths")
    if isinstance(paths, dict):
        found["paths"] = _paths(draft, cast("JsonObject", paths))
        draft.note("'sandbox.paths' is the older form, and still works; see docs/migrating.md")
    if found:
        draft.keys["sandbox"] = found


def _paths(draft: Draft, given: JsonObject) -> JsonObject:
    found: JsonObject = {}
    for name, options in given.items():
        if not isinstance(options, dict):
            draft.note(f"path '{name[:80]}' is left out: it has no keys")
            continue
        keys = {_RENAMED.get(key, key): value for key, value in cast("JsonObject", options).items()}
        root = folder_inside(keys.get("root"))
        if root is None:
            draft.note(f"path '{name[:80]}' is left out: its folder is not one inside the workshop")
            continue
        for key in keys:
            if key not in _PATH_KEYS:
                draft.note(f"'sandbox.paths.{name[:80]}.{key[:80]}' is left out: it has no counterpart")
        found[name] = {key: value for key, value in keys.items() if key in _PATH_KEYS} | {"root": root}
    return found


def folder_inside(root: Any) -> str | None:
    """Return a folder relative to the workshop; None for text that names no folder, or a folder outside."""
    if not isinstance(root, str) or not root.strip() or "\0" in root or "\\" in root:
        return None
    path = PurePosixPath(root)
    parts = path.parts
    if path.is_absolute() or ".." in parts or (parts and (parts[0].startswith("~") or parts[0] == ".llm-do")):
        return None
    return str(path)


def workshop_sandbox(given: JsonObject, drafts: list[Draft]) -> JsonObject | None:
    """Return the new workshop's sandbox: the source's, else a folder where a worker needs files and has none."""
    root = folder_inside(given.get("root"))
    if root is not None:
        own: JsonObject = {"root": root}
        for name in ("readonly", "read_approval", "write_approval"):
            if isinstance(given.get(name), bool):
                own[name] = given[name]
        return own
    if not any(_reaches_files(draft) for draft in drafts):
        return None
    with_paths = any("paths" in draft.keys.get("sandbox", {}) for draft in drafts)
    return {"root": "." if with_paths else FILES}


def folders_needed(sandbox: JsonObject | None, drafts: list[Draft]) -> set[str]:
    """Return the folders that the new workshop must have."""
    named = [draft.keys.get("sandbox", {}).get("paths", {}) for draft in drafts]
    roots = {str(options["root"]) for paths in named for options in paths.values()}
    if sandbox is not None:
        roots.add(str(sandbox["root"]))
    return roots - {"."}


def _reaches_files(draft: Draft) -> bool:
    toolsets = draft.keys.get("toolsets", {})
    return ("filesystem" in toolsets or "shell" in toolsets) and "paths" not in draft.keys.get("sandbox", {})


_READS = frozenset({"read", "glob", "grep", "ls", "notebookread"})
_WRITES = frozenset({"write", "edit", "multiedit", "notebookedit"})
_SHOWN_BY_READING = frozenset({"read", "glob", "ls"})
"""Tools of Claude Code for what our `filesystem` does where it only reads."""
_WEB = {"websearch": "web_search", "webfetch": "web_fetch"}
_TASKS = frozenset({"task", "agent"})
_ALL_BY_DEFAULT = "Read, Write, Edit"
_CALL = re.compile(r"^([A-Za-z_]+)\((.*)\)$", re.DOTALL)
_WHOLE = re.compile(r"\(\s*(?:\*{0,2}|:\*)\s*\)$")
"""Limit of a tool that limits nothing."""
_OWN = {"filesystem": "filesystem", "shell": "shell", "delegation": "delegation", "custom": "custom"}


def carry_toolsets(draft: Draft, names: dict[str, str]) -> None:
    """Switch on the tools that `toolsets:`, or `tools:`, of the file names; `names` are the imported workers."""
    given = draft.given.get("toolsets", draft.given.get("tools"))
    if draft.source.kind == "markdown":
        _carry_claude(draft, names)
    elif isinstance(given, dict):
        for name, options in cast("JsonObject", given).items():
            _carry_toolset(draft, str(name), options, names)
    elif isinstance(given, list | str):
        for name in split_tools(cast("Any", given)):
            _carry_toolset(draft, name, None, names)
    elif given is not None:
        draft.note("its toolsets are neither a list nor names with options, and are left out")
    allowed = draft.given.get("allow_workers")
    if allowed is not None:
        _delegation(draft, {"allow_workers": allowed}, names)


def split_tools(given: str | list[Any]) -> list[str]:
    """Names from a list, or from text with commas; commas in parentheses do not count."""
    texts = [str(item) for item in given] if isinstance(given, list) else re.split(r"[,\n](?![^(]*\))", given)
    return [name for text in texts if (name := text.strip().strip("[]\"'- ").strip())]


def _carry_toolset(draft: Draft, name: str, options: Any, names: dict[str, str]) -> None:
    short = _OWN.get(_own_class(name) or name)
    keys = cast("JsonObject", options) if isinstance(options, dict) else {}
    if name in names:
        draft.toolset("delegation")[names[name]] = {}
    elif short == "filesystem" or name.startswith("filesystem"):
        _filesystem(draft, name, keys)
    elif short == "shell" or name.startswith("shell"):
        _shell(draft, name, keys)
    elif short == "delegation":
        _delegation(draft, keys, names)
    elif short == "custom":
        draft.toolset("custom").update(keys)
    elif name == "mcp" and keys:
        draft.toolset("mcp").update(keys)
    elif "." in name and is_installed(name):
        draft.toolset(name).update(keys)
    elif "." in name:
        draft.note(f"toolset '{name[:80]}' is left out: its package is not installed here")
    elif not _claude_tool(draft, name, names):
        draft.note(f"toolset '{name[:80]}' is left out: nothing here has that name")


def _own_class(name: str) -> str | None:
    """Return the toolset that replaces a class of the older package; None where there is none."""
    if not name.startswith("llm_do."):
        return None
    last = name.rpartition(".")[2].lower()
    return next((own for own in _OWN if last.startswith(own)), None)


def is_installed(name: str) -> bool:
    """Return whether the package of a module or class is installed."""
    try:
        return find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _filesystem(draft: Draft, name: str, keys: JsonObject) -> None:
    draft.toolset("filesystem")
    sandbox = cast("JsonObject", draft.keys.setdefault("sandbox", {}))
    if name.endswith("_ro") or "readonly" in name:
        sandbox["readonly"] = True
    for key, value in keys.items():
        if key in ("read_approval", "write_approval") and isinstance(value, bool):
            sandbox[key] = value
        elif key != "enabled":
            draft.note(f"'{name}.{key}' is left out: which files a worker reaches is said under `sandbox:`")
    if not sandbox:
        del draft.keys["sandbox"]


def _shell(draft: Draft, name: str, keys: JsonObject) -> None:
    options = draft.toolset("shell")
    for key, value in keys.items():
        if key == "rules" and isinstance(value, list):
            rules = cast("list[Any]", value)
            options["rules"] = [_shell_rule(cast("JsonObject", rule)) for rule in rules if isinstance(rule, dict)]
        elif key in ("rules", "default", "enabled", "network"):
            options[key] = value
        else:
            draft.note(f"'{name}.{key}' is left out: it has no counterpart")
    if name != "shell" and not keys:
        draft.note(f"toolset '{name}' became `shell:` without rules, so every command asks or is blocked")


def _shell_rule(rule: JsonObject) -> JsonObject:
    paths = rule.get("sandbox_paths")
    if not isinstance(paths, list):
        return rule
    # The older form names sandboxes, which are mounted at their names.
    return {**rule, "sandbox_paths": [f"/{str(path).strip('/')}" for path in cast("list[Any]", paths)]}


def _delegation(draft: Draft, keys: JsonObject, names: dict[str, str]) -> None:
    options = draft.toolset("delegation")
    for key, value in keys.items():
        if key == "allow_workers" and isinstance(value, list):
            listed = [str(name) for name in cast("list[Any]", value)]
            known = [name if name == "*" else names.get(name, "") for name in listed]
            before = cast("list[str]", options.get("allow_workers", []))
            options["allow_workers"] = [name for name in dict.fromkeys([*before, *known]) if name]
            for name in listed:
                if name != "*" and name not in names:
                    draft.note(f"worker '{name[:80]}' in 'allow_workers' is left out: it was not imported")
        elif key in ("worker_create", "enabled", "templates"):
            options[key] = value
        elif key in names:
            options[names[key]] = value or {}
        else:
            draft.note(f"worker '{key[:80]}' in 'delegation' is left out: it was not imported")


def _carry_claude(draft: Draft, names: dict[str, str]) -> None:
    given = draft.given.get("tools")
    if given is None:
        draft.note(f"it names no tools, which means all of them; it gets files ({_ALL_BY_DEFAULT}), and no commands")
    asked = split_tools(cast("Any", given)) if isinstance(given, str | list) else split_tools(_ALL_BY_DEFAULT)
    denied = draft.given.get("disallowedTools")
    named = split_tools(cast("Any", denied)) if isinstance(denied, str | list) else []
    refused = [_WHOLE.sub("", one) for one in named]
    asked = _without_inseparable(draft, [name for name in asked if not _is_refused(draft, name, refused)], refused)
    for name in asked:
        if not _claude_tool(draft, name, names):
            draft.note(f"tool '{name[:80]}' is left out: {_why_not(name)}")
    _block_commands(draft, refused)
    writes = any(_WHOLE.sub("", name.lower()) in _WRITES for name in asked)
    if "filesystem" in draft.keys.get("toolsets", {}) and not writes:
        draft.keys["sandbox"] = {"readonly": True}


def _claude_tool(draft: Draft, name: str, names: dict[str, str]) -> bool:
    """Carry a tool over by Claude Code's name for it; return False where there is no such tool here."""
    match = _CALL.match(name)
    tool, inner = (match[1], match[2]) if match else (name, "")
    low = tool.lower()
    if low in _READS | _WRITES:
        if inner.strip() not in ("", "*", "**"):
            return False
        draft.toolset("filesystem")
    elif low == "bash":
        _claude_bash(draft, inner)
    elif low in _TASKS:
        wanted = [part.strip() for part in inner.split(",") if part.strip()] or ["*"]
        _delegation(draft, {"allow_workers": wanted}, names)
    elif low in _WEB:
        return _claude_web(draft, _WEB[low], inner)
    else:
        return False
    return True


def _is_refused(draft: Draft, name: str, refused: list[str]) -> bool:
    """Return whether a tool is disallowed, as a whole or in a part that cannot be taken from it here."""
    tool = name.partition("(")[0].lower()
    if "*" in refused:
        draft.note(f"tool '{name[:80]}' is left out: '*' is disallowed")
        return True
    for one in refused:
        whole, scope = one.partition("(")[0].lower(), "(" in one
        if one.lower() in (name.lower(), tool):
            return True
        if scope and whole == tool and tool != "bash":
            draft.note(f"tool '{name[:80]}' is left out: '{one[:80]}' is disallowed, and no part of this tool can be")
            return True
    return False


def _without_inseparable(draft: Draft, asked: list[str], refused: list[str]) -> list[str]:
    """Return the tools without those that give, as our `filesystem`, something that is disallowed too.

    Who may write files can read them, and who may change files can make new ones.
    """
    names = {one.lower() for one in refused}
    kept: list[str] = []
    for name in asked:
        tool = _WHOLE.sub("", name.lower())
        given = _READS | _WRITES if tool in _WRITES else _SHOWN_BY_READING if tool in _READS else frozenset[str]()
        taken = sorted(names & given)
        if taken:
            draft.note(f"tool '{name[:80]}' is left out: '{taken[0]}' is disallowed, and cannot be taken from it here")
        else:
            kept.append(name)
    return kept


def _block_commands(draft: Draft, refused: list[str]) -> None:
    """Put a rule that blocks before all others, for each command of `shell` that is disallowed."""
    options = cast("JsonObject", draft.keys.get("toolsets", {})).get("shell")
    if not isinstance(options, dict):
        return
    matches = [match for one in refused if (match := _CALL.match(one)) and match[1].lower() == "bash"]
    patterns = [pattern for match in matches if (pattern := _command_pattern(match[2]))]
    if patterns:
        given = cast("JsonObject", options)
        rules = cast("list[Any]", given.get("rules", []))
        given["rules"] = [*({"pattern": pattern, "blocked": True} for pattern in patterns), *rules]


def _claude_web(draft: Draft, tool: str, inner: str) -> bool:
    """Carry a tool for the web over, with its domain where it names one; return False for another limit."""
    listed = cast("list[JsonObject]", draft.keys.setdefault("server_side_tools", []))
    entry = next((one for one in listed if one["tool_type"] == tool), None)
    scope = inner.strip()
    domain = scope.removeprefix("domain:").strip()
    limited = scope not in ("", "*")
    if limited and (domain == scope or not domain):
        if not listed:
            del draft.keys["server_side_tools"]
        return False
    if entry is None:
        listed.append({"tool_type": tool, **({"allowed_domains": [domain]} if limited else {})})
    elif not limited:
        entry.pop("allowed_domains", None)
    elif "allowed_domains" in entry:
        domains = cast("list[str]", entry["allowed_domains"])
        entry["allowed_domains"] = list(dict.fromkeys([*domains, domain]))
    return True


def _command_pattern(inner: str) -> str:
    return inner.strip().removesuffix(":*").removesuffix("*").strip()


def _claude_bash(draft: Draft, inner: str) -> None:
    first = "shell" not in draft.keys.get("toolsets", {})
    options = draft.toolset("shell")
    pattern = _command_pattern(inner)
    if not pattern:
        options.clear()
        return
    if first:
        options.update({"rules": [], "default": {"blocked": True}})
    if "rules" in options:
        cast("list[Any]", options["rules"]).append({"pattern": pattern, "approval_required": True})


def _why_not(name: str) -> str:
    if name.startswith("mcp__"):
        server = name.split("__")[1][:60]
        return f"say where the MCP server '{server}' is, under `toolsets: mcp:`"
    if "(" in name and name.partition("(")[0].lower() in _READS | _WRITES:
        return "say under `sandbox:` which files the worker reaches, and switch `filesystem` on"
    if "(" in name and name.partition("(")[0].lower() in _WEB:
        return "its limit has no counterpart; name domains with `allowed_domains` under `server_side_tools`"
    return "nothing here has that name"


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
