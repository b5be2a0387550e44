"""Places in files at which a name of the workshop stands, and the kind of name that each wants."""

from __future__ import annotations

from typing import Literal

from llm_do_temporal.definitions.keys.toolsets import CustomOptions, DelegationOptions
from llm_do_temporal.definitions.language.edited_file import FileKind
from llm_do_temporal.definitions.yaml.lines import KeyPath
from llm_do_temporal.definitions.yaml.spans import Role

NameKind = Literal["worker", "model", "capability", "function", "class"]
Pattern = tuple[str, ...]
ANY = "*"
"""Stands for any one key or number of a path."""
_CREATED = "creation_defaults"
_DELEGATION: Pattern = ("toolsets", "delegation")
_CUSTOM: Pattern = ("toolsets", "custom")
_KEYS: tuple[tuple[FileKind, Pattern, NameKind], ...] = (
    ("worker", (*_DELEGATION, ANY), "worker"),
    ("worker", (*_CUSTOM, ANY), "function"),
    ("workshop", ("approvals", "rules", ANY), "capability"),
)
_VALUES: tuple[tuple[FileKind, Pattern, NameKind], ...] = (
    ("worker", ("name",), "worker"),
    ("worker", ("model",), "model"),
    ("worker", ("model", ANY), "model"),
    ("worker", ("compatible_models", ANY), "model"),
    ("worker", ("output_schema_ref",), "class"),
    ("worker", ("schema_in_ref",), "class"),
    ("worker", (*_DELEGATION, "allow_workers", ANY), "worker"),
    ("worker", (*_CUSTOM, ANY, "capabilities", ANY), "capability"),
    ("worker", ("toolsets", ANY, "capabilities", ANY), "capability"),
    ("worker", ("toolsets", "mcp", ANY, "capabilities", ANY), "capability"),
    ("workshop", ("model",), "model"),
    ("workshop", ("model", ANY), "model"),
    ("workshop", ("models", ANY), "model"),
    ("workshop", ("models", ANY, ANY), "model"),
    ("workshop", ("models", ANY, "model"), "model"),
    ("workshop", ("approvals", "allow", ANY, "worker"), "worker"),
    ("workshop", ("approvals", "allow", ANY, "callers", ANY), "worker"),
    ("workshop", ("views", ANY, "worker"), "worker"),
    ("evaluation", ("worker",), "worker"),
    ("evaluation", ("judge",), "worker"),
    ("evaluation", ("judge", "worker"), "worker"),
    ("evaluation", ("model",), "model"),
    ("evaluation", ("judge", "model"), "model"),
)
_OWN_KEYS: dict[Pattern, frozenset[str]] = {
    _DELEGATION: frozenset(DelegationOptions.model_fields),
    _CUSTOM: frozenset(CustomOptions.model_fields),
}
"""Keys that stand among names and are none."""


def name_kind(kind: FileKind, path: KeyPath, role: Role) -> NameKind | None:
    """Return the kind of name that stands at a path; None for a place of something else."""
    if kind == "workshop" and path[:1] == (_CREATED,):
        kind, path = "worker", path[1:]
    if role == "key" and path and path[-1] in _OWN_KEYS.get(tuple(str(one) for one in path[:-1]), ()):
        return None
    table = _KEYS if role == "key" else _VALUES
    return next((name for where, pattern, name in table if where == kind and _fits(path, pattern)), None)


def _fits(path: KeyPath, pattern: Pattern) -> bool:
    return len(path) == len(pattern) and all(want in (ANY, part) for part, want in zip(path, pattern, strict=True))
