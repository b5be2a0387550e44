"""Lets the author's Python import modules of the workshop: from their text, where no worker can write it.

Modules of the workshop come after everything that is installed. No bytecode is read or written and no extension is
loaded: what is run is the `.py` file that a person can read, wherever a `.pyc` or `.so` with its name lies.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from llm_do_temporal.definitions.python_sources import is_protected, read_python
from llm_do_temporal.definitions.text_files import label_of

_own_packages: set[str] = set()
"""Names of packages that were found in workshops: what lies below them is looked for in no other way."""


@contextmanager
def importable(root: Path) -> Generator[None]:
    """Let modules of the workshop be imported, after everything that is installed."""
    submodules, modules = _Submodules(root), _Modules(root)
    sys.meta_path.insert(0, submodules)
    sys.meta_path.append(modules)
    try:
        yield
    finally:
        sys.meta_path.remove(submodules)
        sys.meta_path.remove(modules)


class _Text(SourceFileLoader):
    """A module made from the text of its file alone."""

    root: Path

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text. Raises DefinitionError for a file that workers can write."""
        file = read_python(Path(self.path), self.root)
        return compile(file.text, self.path, "exec", dont_inherit=True)


class _Modules:
    """Finds modules at the top of the workshop; the last to be asked."""

    def __init__(self, root: Path) -> None:
        self._root = root

        class Loader(_Text):
            pass

        Loader.root = root
        self._loader = Loader

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of this name, where it is one of the workshop's."""
        return self.found_in(name, [str(self._root)]) if path is None else None

    def found_in(self, name: str, folders: Sequence[str]) -> ModuleSpec | None:
        """The module of this name in the folders."""
        for folder in folders:
            found = FileFinder(folder, (self._loader, [".py"])).find_spec(name)
            if found is not None and (found.loader is not None or self._is_authors(found)):
                if found.submodule_search_locations is not None:
                    _own_packages.add(name)
                return found
        return None

    def _is_authors(self, found: ModuleSpec) -> bool:
        """Whether a folder without `__init__.py` is one of Python, and not one of workers' files."""
        folders = [Path(folder) for folder in found.submodule_search_locations or ()]
        return any(
            is_protected(label_of(folder / "module.py", self._root), self._root)
            and any(next(folder.glob(pattern), None) for pattern in ("*.py", "*/*.py"))
            for folder in folders
        )


class _Submodules(_Modules):
    """Finds what lies below packages of the workshop; the first to be asked, and then the only one."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of this name. Raises ModuleNotFoundError, so that nobody else looks for it."""
        if path is None or name.rpartition(".")[0] not in _own_packages:
            return None
        folders = [folder for folder in path if Path(folder).is_relative_to(self._root)]
        if not folders:
            return None
        found = self.found_in(name, folders)
        if found is None:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return found
