"""The author's Python as text: read from files that no worker can write, and from no others.

All Python of a workshop that is run is read here, the modules that it imports included.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from llm_do_temporal.definitions.protection.protected_files import check_protected
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
        check_protected(path, root, "Python")
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
        tree = ast.parse(text)
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
