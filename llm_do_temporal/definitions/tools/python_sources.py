"""The author's Python as text, and imports of it: from files that no worker can write, and from no others.

All Python of a workshop that is run is read here. Modules of the workshop come after everything that is installed. No
bytecode is read or written and no extension is loaded: only the `.py` file that a person can read is run, wherever a
`.pyc` or `.so` with its name lies.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from llm_do_temporal.definitions.protection import PYTHON, check_protected, is_code_place
from llm_do_temporal.definitions.python_syntax import parse_python
from llm_do_temporal.definitions.yaml.text_files import Unreadable, decode, label_of, read_bytes
from llm_do_temporal.errors import DefinitionError


@dataclass(frozen=True)
class PythonFile:
    """Python file as it was read."""

    path: Path
    root: Path
    """Folder that the file may not leave, and may import from."""
    text: str
    sha256: str
    """Digest of the file's bytes."""

    @property
    def label(self) -> str:
        """Path of the file, as messages name it."""
        return label_of(self.path, self.root)


def read_python(path: Path, root: Path) -> PythonFile:
    """Read a Python file inside `root`, where no worker can write it. Raises DefinitionError."""
    try:
        check_protected(path, root, PYTHON)
        content = read_bytes(path, root)
        text = decode(content, label_of(path, root))
    except Unreadable as error:
        raise DefinitionError(str(error)) from error
    return PythonFile(path, root, text, hashlib.sha256(content).hexdigest())


def imported_files(file: PythonFile) -> dict[str, PythonFile]:
    """Return the modules of the workshop that the text of a file imports, and all that these import, by their names.

    One that cannot be read is left out: to import it fails.
    """
    found: dict[str, PythonFile] = {}
    waiting = [("", file)]
    while waiting:
        name, one = waiting.pop()
        for imported in _imported_names(one.text, name, is_package=one.path.name == "__init__.py"):
            path = _module_file(file.root, imported)
            if imported not in found and path is not None:
                with suppress(DefinitionError):
                    found[imported] = read_python(path, file.root)
                    waiting.append((imported, found[imported]))
    return found


def digest_with_imports(file: PythonFile, imported: Mapping[str, PythonFile]) -> str:
    """Return the digest of a file and of the modules that it imports; its own where it imports none."""
    if not imported:
        return file.sha256
    told = "".join(f"{name}\0{one.sha256}\0" for name, one in sorted(imported.items()))
    return hashlib.sha256(f"{file.sha256}\0{told}".encode()).hexdigest()


@lru_cache(maxsize=256)
def _imported_names(text: str, module: str, *, is_package: bool) -> tuple[str, ...]:
    """Return the full names of modules that a text may import; `module` is its own name, empty for no module.

    Kept, as the same text is asked for at each score of a case.
    """
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    package = module.split(".") if is_package else module.split(".")[:-1]
    return tuple(_names_in(tree, package))


def _names_in(tree: ast.Module, package: list[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name for alias in node.names for name in _with_packages(alias.name))
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (name for alias in node.names for name in _with_packages(f"{base}.{alias.name}".lstrip(".")))


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _module_file(root: Path, name: str) -> Path | None:
    path = root.joinpath(*name.split("."))
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()), None)


class _Text(SourceFileLoader):
    """Loader that makes a module from the text of its file alone."""

    root: Path

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text. Raises DefinitionError for a file that workers can write."""
        file = read_python(Path(self.path), self.root)
        _digests[fullname] = file.sha256
        return compile(file.text, self.path, "exec", dont_inherit=True)


_digests: dict[str, str] = {}
"""Digests of the files of modules that were imported, by the names of the modules."""
_own_packages: dict[str, type[_Text]] = {}
"""Packages that were found in workshops, with their loaders; modules below them are found in no other way."""


def forget_changed(modules: Mapping[str, PythonFile]) -> None:
    """Have these modules imported anew where the file of any of them has changed since it was imported."""
    if any(_digests.get(name, file.sha256) != file.sha256 for name, file in modules.items()):
        for name in modules.keys() & _digests.keys():
            sys.modules.pop(name, None)


@contextmanager
def importable(root: Path) -> Generator[None]:
    """Let modules of the workshop be imported, after everything that is installed."""
    if _submodules not in sys.meta_path:
        sys.meta_path.insert(0, _submodules)  # for good: a function may import more of its package when it is called
    modules = _Modules(root)
    sys.meta_path.append(modules)
    try:
        yield
    finally:
        with suppress(ValueError):  # a function may have cleared it
            sys.meta_path.remove(modules)


def is_lasting(finder: object) -> bool:
    """Return whether a finder of modules is there for longer than a call."""
    return not isinstance(finder, _Modules)


def is_workshops(name: str) -> bool:
    """Return whether the module of this name was imported from a workshop."""
    return name in _digests or name in _own_packages


class _Modules:
    """Finder of modules at the top of a workshop; the last finder to be asked."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._loader = type("_TextBelow", (_Text,), {"root": root})

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module of this name, where it is the workshop's."""
        return _found(name, [str(self._root)], self._loader) if path is None else None


class _Submodules:
    """Finder of modules below packages of workshops; the first finder to be asked, and then the only one."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module of this name. Raises ModuleNotFoundError, so that no other finder looks for it."""
        loader = _own_packages.get(name.rpartition(".")[0])
        if path is None or loader is None:
            return None
        folders = [folder for folder in path if Path(folder).is_relative_to(loader.root)]
        if not folders:
            return None
        found = _found(name, folders, loader)
        if found is None:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return found


_submodules = _Submodules()


def _found(name: str, folders: Sequence[str], loader: type[_Text]) -> ModuleSpec | None:
    """Return the module of this name in the folders; None where there is none."""
    for folder in folders:
        found = FileFinder(folder, (loader, [".py"])).find_spec(name)
        if found is not None and (found.loader is not None or _is_authors(found, loader.root)):
            if found.submodule_search_locations is not None:
                _own_packages[name] = loader
            return found
    return None


def _is_authors(found: ModuleSpec, root: Path) -> bool:
    """Return whether a folder without `__init__.py` holds Python, and not the files that workers write."""
    folders = [Path(folder) for folder in found.submodule_search_locations or ()]
    return any(
        is_code_place(label_of(folder / "module.py", root), root)
        and any(next(folder.glob(pattern), None) for pattern in ("*.py", "*/*.py"))
        for folder in folders
    )
