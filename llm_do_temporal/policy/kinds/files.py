"""Calls of file tools below a folder: by the text of the path, and by the real place of the file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.files.protection import defines
from llm_do_temporal.policy.files.sandbox import Place, Tree, join, locate, normalise
from llm_do_temporal.policy.files.tool_paths import PATH_TOOLS
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.call import AskedCall

CAPABILITIES = frozenset({"sandbox.read", "sandbox.write"})


def _checked_path(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"a path of the workers' files starts with '/'; got '{path}'")
    if set(path) & set("*?[]{}"):
        raise ValueError(f"'{path}' is the path of a folder or file, and no pattern: all below a folder is meant")
    try:
        return normalise(path)
    except SandboxRefusal as refusal:
        raise ValueError(refusal.message) from refusal


def _checked_suffix(suffix: str) -> str:
    if not suffix.startswith(".") or len(suffix) < 2 or "/" in suffix:
        raise ValueError(f"a suffix starts with a dot, like '.md'; got '{suffix}'")
    return suffix


TreePath = Annotated[str, AfterValidator(_checked_path)]
"""Virtual path, normalised."""
Suffix = Annotated[str, AfterValidator(_checked_suffix)]
"""End of a file name, compared letter by letter."""


def place_in(tree: Tree, path: object) -> Place | None:
    """Return the place of a path by its text; None for one that leads nowhere, or to a file that defines."""
    if not isinstance(path, str):
        return None
    try:
        place = locate(tree, path)
    except SandboxRefusal:
        return None
    return None if defines(place) else place


def place_of(call: AskedCall) -> Place | None:
    """Return the place of the file that a file tool's call names, by its text; None for any other call."""
    if call.tool not in PATH_TOOLS or not call.names <= CAPABILITIES or call.attachments:
        return None
    return place_in(call.tree, call.args.get("path"))


def is_below(path: str, folder: str, suffix: str | None = None) -> bool:
    """Return whether a normalised path lies below the folder, with no hidden part, and ends in the suffix.

    A name that begins with a dot is hidden: `.env` and `.git` are named one by one.
    """
    inner, outer = PurePosixPath(path), PurePosixPath(folder)
    if inner == outer or not inner.is_relative_to(outer):
        return False
    if any(part.startswith(".") for part in inner.relative_to(outer).parts):
        return False
    return suffix is None or (inner.name.endswith(suffix) and inner.name != suffix)


def is_seen_there(place: Place, files: Iterable[SeenFile]) -> bool:
    """Return whether these files are that at the place alone, and no link leads from there elsewhere."""
    found = list(files)
    real = join(place.mount.root, place.relative)
    return bool(found) and all(one.path == place.path and one.place == real for one in found)
