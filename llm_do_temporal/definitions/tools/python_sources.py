"""The author's Python as text: read from files that no worker can write, and from no others.

Whatever is run of a workshop comes through here, the modules that it imports included.
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
    """A Python file as it was read."""

    path: Path
    root: Path
    """The folder it may not leave, from which it may import."""
    text: str
    sha256: str
    """Digest of its bytes."""

    @property
    def label(self) -> str:
        """How messages call it."""
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
