"""Conversion of file access, as other programs write it, to the sandbox of the new workshop."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, cast

from llm_do_temporal.definitions.conversion.drafts import Draft, JsonObject

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
