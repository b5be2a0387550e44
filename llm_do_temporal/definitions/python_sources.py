"""The author's Python as text: read from files that no worker can write, and from no others.

Whatever is run of a workshop comes through here, the modules that it imports included.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from llm_do_temporal.definitions.places import SHIPPED
from llm_do_temporal.definitions.text_files import Unreadable, check_inside, decode, label_of, read_bytes
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.policy.protection import Protection

_NEXT_STEP = "Move Python that is to be run out of the folders of workers' files, and name it there without links."


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
        check_inside(path, root)
        check_protected(path, root)
        content = read_bytes(path, root)
        text = decode(content, label_of(path, root))
    except Unreadable as error:
        raise DefinitionError(str(error)) from error
    return PythonFile(path, root, text, hashlib.sha256(content).hexdigest())


def check_protected(path: Path, root: Path) -> None:
    """Raise DefinitionError where a worker could write the file, by the path itself or where links on it lead."""
    if root == SHIPPED.resolve():
        return
    real = path.resolve()
    if real.is_relative_to(root) and all(is_protected(label_of(one, root), root) for one in (path, real)):
        return
    label = label_of(path, root)
    what = "is not loaded as Python: workers can write it, or the file that it leads to"
    raise DefinitionError(f"'{label}' {what}", next_step=_NEXT_STEP)


def is_protected(relative: str, root: Path) -> bool:
    """Whether no worker of the workshop can write the file at this path, relative to `root`."""
    # Protected whichever folders are workers': then nobody has to find out which they are.
    if Protection(shared=PurePosixPath(relative).parts[:1]).protects(relative):
        return True
    # Imported here: it reads definitions, and they name Python.
    from llm_do_temporal.definitions.protected_places import protection_of

    return protection_of(root).protects(relative)
