"""Names that a workshop gives (workers, models, capabilities, functions, classes), and where a file may have them.

Python is read as text and never run. Variables of the environment are never looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

from llm_do_temporal.definitions.keys.toolsets import CustomOptions, DelegationOptions
from llm_do_temporal.definitions.models import listed_models
from llm_do_temporal.definitions.python_syntax import parse_python
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workers.places import tools_files
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, read_worker
from llm_do_temporal.definitions.workshop import Workshop, parse_workshop
from llm_do_temporal.definitions.yaml.documents import KeyPath, Unreadable, decode, label_of, read_bytes
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.extension import definition_files
from llm_do_temporal.extensions.lsp.edited_file import EditedFile
from llm_do_temporal.extensions.lsp.yaml_places import Role
from llm_do_temporal.policy.approvals import DEFAULT_RULES
from llm_do_temporal.policy.models import OFFLINE_MODELS, OFFLINE_PROVIDER, PROVIDERS

NameKind = Literal["worker", "model", "capability", "function", "class"]
Pattern = tuple[str, ...]
ANY = "*"
"""Stands for any one key or number of a path."""
_CREATED = "creation_defaults"
_DELEGATION: Pattern = ("toolsets", "delegation")
_CUSTOM: Pattern = ("toolsets", "custom")
_KEYS: tuple[tuple[str, Pattern, NameKind], ...] = (
    ("worker", (*_DELEGATION, ANY), "worker"),
    ("worker", (*_CUSTOM, ANY), "function"),
    ("workshop", ("approvals", "rules", ANY), "capability"),
)
_VALUES: tuple[tuple[str, Pattern, NameKind], ...] = (
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
)
_OWN_KEYS: dict[Pattern, frozenset[str]] = {
    _DELEGATION: frozenset(DelegationOptions.model_fields),
    _CUSTOM: frozenset(CustomOptions.model_fields),
}
"""Keys that stand among names and are none."""


def name_kind(kind: str, path: KeyPath, role: Role) -> NameKind | None:
    """Return the kind of name that stands at a path; None for a place of something else."""
    if kind == "workshop" and path[:1] == (_CREATED,):
        kind, path = "worker", path[1:]
    if role == "key" and path and path[-1] in _OWN_KEYS.get(tuple(str(one) for one in path[:-1]), ()):
        return None
    for files in definition_files():
        if files.kind == kind:
            return cast("NameKind | None", files.name_kind(path)) if role == "value" else None
    table = _KEYS if role == "key" else _VALUES
    return next((name for where, pattern, name in table if where == kind and _fits(path, pattern)), None)


def _fits(path: KeyPath, pattern: Pattern) -> bool:
    return len(path) == len(pattern) and all(want in (ANY, part) for part, want in zip(path, pattern, strict=True))


_MAX_MODULES = 200
_WORDS: dict[type[ast.stmt], str] = {
    ast.ClassDef: "class ",
    ast.FunctionDef: "def ",
    ast.AsyncFunctionDef: "async def ",
}
"""Words before a name."""


@dataclass(frozen=True)
class PythonName:
    """Function or class at the top of a Python file."""

    name: str
    path: Path
    line: int
    """Line, from 0."""
    column: int
    description: str


class WorkshopNames:
    """Names that may be written into one file, found when they are asked for."""

    def __init__(self, file: EditedFile) -> None:
        self._file = file

    @cached_property
    def workshop(self) -> Workshop | None:
        """The file's workshop, without what is wrong in it; None for a file outside any."""
        return parse_workshop(self._file.root)[0] if self._file.in_workshop else None

    @cached_property
    def registry(self) -> Registry | None:
        """The workshop's workers; None for a file outside any."""
        return None if self.workshop is None else Registry(self.workshop)

    @cached_property
    def workers(self) -> list[str]:
        """Names of all workers that can be called."""
        return [] if self.registry is None else self.registry.names()

    def worker(self, name: str) -> ParsedWorker | None:
        """Return the worker of a name; None where there is none."""
        try:
            return None if self.registry is None else read_worker(self.registry.place_of(name))
        except DefinitionError:
            return None

    def models(self, word: str) -> list[str]:
        """Return aliases, and models that begin like the word."""
        aliases = [] if self.workshop is None else list(self.workshop.config.models)
        provider, colon, _ = word.partition(":")
        if not colon:
            return [*aliases, *(f"{one}:" for one in sorted(PROVIDERS)), *_offline()]
        return [*aliases, *(_offline() if provider == OFFLINE_PROVIDER else listed_models(provider))]

    @cached_property
    def capabilities(self) -> list[str]:
        """Capabilities that tools have, or that the workers give to theirs."""
        found = set(DEFAULT_RULES)
        for name in self.workers:
            worker = self.worker(name)
            found |= set() if worker is None else worker.definition.toolsets.named_capabilities
        return sorted(found)

    @cached_property
    def functions(self) -> list[PythonName]:
        """Functions of the `tools.py` files of a worker's file, the nearest one of each name."""
        place = self._file.worker_place
        found: dict[str, PythonName] = {}
        for path in tools_files(place):
            for one in python_names(path, place.root, ast.FunctionDef):
                if not one.name.startswith("_"):
                    found.setdefault(one.name, one)
        return list(found.values())

    @cached_property
    def classes(self) -> dict[str, PythonName]:
        """Classes of Python files beside the worker and in the workshop, by the reference that names each."""
        place = self._file.worker_place
        found: dict[str, PythonName] = {}
        for folder in dict.fromkeys((place.folder, place.root)):
            for path in sorted(folder.glob("*.py"))[:_MAX_MODULES]:
                for one in python_names(path, place.root, ast.ClassDef):
                    found.setdefault(f"{path.name}:{one.name}", one)
        return found

    def class_of(self, reference: str) -> PythonName | None:
        """Return the class that `file.py:Class` names; None for one that its file's text does not have."""
        file, colon, name = reference.rpartition(":")
        place = self._file.worker_place
        if not colon or Path(file).is_absolute() or ".." in Path(file).parts or "\0" in file:
            return None
        for folder in (place.folder, place.root):
            if (folder / file).is_file():
                return next(
                    (one for one in python_names(folder / file, place.root, ast.ClassDef) if one.name == name), None
                )
        return None


def python_names(path: Path, root: Path, kind: type[ast.ClassDef] | type[ast.FunctionDef]) -> Iterator[PythonName]:
    """Yield the functions, or the classes, at the top of a Python file; none of one that cannot be read."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef) if kind is ast.FunctionDef else (ast.ClassDef,)
    try:
        tree = parse_python(decode(read_bytes(path, root), label_of(path, root)))
    except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        if isinstance(node, kinds):
            column = node.col_offset + len(_WORDS[type(node)])
            yield PythonName(node.name, path, node.lineno - 1, column, ast.get_docstring(node) or "")


def _offline() -> list[str]:
    return [f"{OFFLINE_PROVIDER}:{name}" for name in OFFLINE_MODELS]
