"""The author's Python as text: read from files that no worker can write, and from no others.

All Python of a workshop that is run is read here, the modules that it imports included.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
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
