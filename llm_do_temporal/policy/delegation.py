"""Rules of delegation: the workers that a worker may call, and the depth of such calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

from llm_do_temporal.errors import DefinitionError, DelegationRefusal, DepthExceeded

DEFAULT_MAX_DEPTH = 5
RESERVED_NAMES = frozenset(
    {
        "worker_call",
        "worker_create",
        "llm_worker_call",
        "shell",
        "read_file",
        "write_file",
        "edit_file",
        "list_files",
        "final_result",
    }
)
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
MAX_WORKER_NAME_CHARS = 64
"""Longest name of a worker: it is a tool's name, of which providers accept at most 64 characters."""


def check_name(name: str) -> None:
    """Raise DefinitionError unless `name` can be a worker's name: `[a-z][a-z0-9_-]*`, short, not a tool's."""
    if not _NAME.fullmatch(name) or len(name) > MAX_WORKER_NAME_CHARS:
        raise DefinitionError(
            f"worker name '{name[:80]}' is not valid; a name is a lower-case letter followed by "
            f"letters, digits, '_' or '-', at most {MAX_WORKER_NAME_CHARS} characters"
        )
    if name in RESERVED_NAMES:
        raise DefinitionError(f"worker name '{name}' is reserved for a tool; choose another")


def is_name(name: str) -> bool:
    """Return whether `name` can be a worker's name."""
    try:
        check_name(name)
    except DefinitionError:
        return False
    return True


def check_allowed(name: str, allow: Sequence[str], *, caller: str) -> None:
    """Raise DelegationRefusal unless `allow` names the worker or holds `*`."""
    if "*" not in allow and name not in allow:
        listed = ", ".join(f"'{one}'" for one in allow) if allow else "nobody"
        raise DelegationRefusal(f"worker '{caller}' may not call '{name}'; it may call {listed}")


def check_depth(depth: int, max_depth: int, *, worker: str) -> None:
    """Raise DepthExceeded when a worker would run deeper than the limit; the entry worker is at depth 0."""
    if depth > max_depth:
        raise DepthExceeded(
            f"RecursionError: maximum worker depth exceeded: '{worker}' would run at depth {depth}, "
            f"the limit is {max_depth} (max_depth)"
        )
