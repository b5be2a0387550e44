"""Paths in the arguments of file tools: their place in the tree, whether the tool may be used there, and its use."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.policy.files.protection import defines
from llm_do_temporal.policy.files.sandbox import Place, Tree, check_readable, check_size, check_writable, locate
from llm_do_temporal.policy.uses import CapabilityUse

WRITING_TOOLS = frozenset({"write_file", "edit_file"})
PATH_TOOLS = frozenset({"read_file"}) | WRITING_TOOLS
"""Tools that `judge_path` can judge."""


def judge_path(tool: str, tree: Tree, args: dict[str, Any]) -> Place:
    """Return the place of a file tool's `path` argument. Raises SandboxRefusal where the tool may not be used there.

    Pure, so that the desk can say no to changed arguments as soon as they arrive.
    """
    place = locate(tree, str(args.get("path", ".")))
    if tool in ("read_file", "edit_file"):
        check_readable(place)
    if tool in WRITING_TOOLS:
        check_writable(place, tree)
    if tool == "write_file":
        check_size(place, utf8_bytes(args.get("content")))
    return place


def file_use(tool: str, place: Place, args: dict[str, Any]) -> CapabilityUse:
    """Return the use that a call of a file tool makes of the place."""
    if tool not in WRITING_TOOLS:
        return CapabilityUse(name="sandbox.read", payload={"path": place.path}, asks=place.mount.read_approval)
    size = utf8_bytes(args["content" if tool == "write_file" else "new_text"])
    name = "sandbox.write.definitions" if defines(place) else "sandbox.write"
    return CapabilityUse(name=name, payload={"path": place.path, "bytes": size}, asks=place.mount.write_approval)


def utf8_bytes(text: object) -> int:
    """Return the size of a text as UTF-8, in bytes; half characters count as the one that replaces them."""
    return len(str(text).encode("utf-8", errors="replace"))
