"""Paths in the arguments of file tools: their place in the tree, and whether the tool may be used there."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.policy.files.sandbox import Place, Tree, check_readable, check_size, check_writable, locate

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


def utf8_bytes(text: object) -> int:
    """Return the size of a text as UTF-8, in bytes; half characters count as the one that replaces them."""
    return len(str(text).encode("utf-8", errors="replace"))
