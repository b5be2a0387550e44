"""Conversion of what a worker may reach, as other programs write it: its files, its tools and toolsets."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any, cast

from llm_do_temporal.extensions.importers.drafts import Draft, JsonObject

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
            _carry(draft, str(name), options, names)
    elif isinstance(given, list | str):
        for name in split_tools(cast("Any", given)):
            _carry(draft, name, None, names)
    elif given is not None:
        draft.note("its toolsets are neither a list nor names with options, and are left out")
    allowed = draft.given.get("allow_workers")
    if allowed is not None:
        _delegation(draft, {"allow_workers": allowed}, names)


def split_tools(given: str | list[Any]) -> list[str]:
    """Names from a list, or from text with commas; commas in parentheses do not count."""
    texts = [str(item) for item in given] if isinstance(given, list) else re.split(r"[,\n](?![^(]*\))", given)
    return [name for text in texts if (name := text.strip().strip("[]\"'- ").strip())]


def _carry(draft: Draft, name: str, options: Any, names: dict[str, str]) -> None:
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
