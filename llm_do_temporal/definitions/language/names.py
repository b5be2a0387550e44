"""Names that a workshop gives: its workers, aliases of models, capabilities, Python functions and classes.

Python is read as text and never run. Variables of the environment are never looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from llm_do_temporal.definitions.language.edited_file import EditedFile
from llm_do_temporal.definitions.price_list import listed_models
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workers.tools_file import tools_files
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, read_worker
from llm_do_temporal.definitions.workshop.workshop import Workshop, parse_workshop
from llm_do_temporal.definitions.yaml.text_files import Unreadable, decode, label_of, read_bytes
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.policy.approvals import DEFAULT_RULES
from llm_do_temporal.policy.models import OFFLINE_MODELS, PROVIDERS
from llm_do_temporal.policy.models import OFFLINE_PROVIDER as OFFLINE

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
        return [*aliases, *(_offline() if provider == OFFLINE else listed_models(provider))]

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
        tree = ast.parse(decode(read_bytes(path, root), label_of(path, root)))
    except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        if isinstance(node, kinds):
            column = node.col_offset + len(_WORDS[type(node)])
            yield PythonName(node.name, path, node.lineno - 1, column, ast.get_docstring(node) or "")


def _offline() -> list[str]:
    return [f"{OFFLINE}:{name}" for name in OFFLINE_MODELS]
