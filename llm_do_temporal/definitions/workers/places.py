"""Places of worker files and of their `tools.py`, and the order in which they count.

`workers/N.worker`, `workers/N/worker.worker`, `N.worker`, `workers/generated/N.worker`, then the workers that ship with
the package. At each place `.worker` comes before `.yaml` and `.yml`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from llm_do_temporal.definitions.python_syntax import parse_python
from llm_do_temporal.definitions.yaml.documents import Unreadable, decode, label_of, read_bytes
from llm_do_temporal.extension import definition_files
from llm_do_temporal.workshop_search import WORKSHOP_FILE

SHIPPED = Path(__file__).resolve().parents[2] / "shipped"
"""Folder of the workers that come with the package."""
SUFFIXES = (".worker", ".yaml", ".yml")
GENERATED = PurePosixPath("workers/generated")
PACKAGE_PREFIX = "pkg:"
_IN_FOLDER = "worker"
_NOT_WORKERS = frozenset({WORKSHOP_FILE, "workshop.yml"})
_INSTRUCTIONS_KEY = re.compile(rb"^['\"]?instructions['\"]?\s*:", re.MULTILINE)
_INSTRUCTIONS = b"instructions"


@dataclass(frozen=True)
class WorkerPlace:
    """File of a worker."""

    name: str
    """Name of the worker at this place."""
    path: Path
    root: Path
    """Folder that no file the worker refers to may leave: the workshop, or the shipped workers."""
    shipped: bool = False
    template: bool = False
    """Whether the file is a template, whose `$name` a call fills in and whose text is never rendered otherwise."""

    @property
    def relative(self) -> PurePosixPath:
        """The file's path below the root."""
        return PurePosixPath(self.path.relative_to(self.root).as_posix())

    @property
    def folder(self) -> Path:
        """First folder in which Python files that the worker names are looked for; the root for a generated worker."""
        return self.root if self.generated else self.path.parent

    @property
    def label(self) -> str:
        """Path of the file, as messages name it."""
        return f"{PACKAGE_PREFIX}{self.relative}" if self.shipped else str(self.relative)

    @property
    def source(self) -> str:
        """Origin of the worker, as a pinned worker keeps it."""
        name = self.path.stem if self.template else self.name
        return f"{PACKAGE_PREFIX}{name}" if self.shipped else str(self.relative)

    @property
    def generated(self) -> bool:
        """Whether a model wrote the file, judged by its path and by the target of a link."""
        return not self.shipped and is_generated(self.path, self.root)


def is_ignored(path: PurePath) -> bool:
    """Return whether a path below the workshop belongs to another program, which keeps its own files beside ours.

    macOS writes `._x.worker` and `__MACOSX/` into archives, editors write `.#x.worker` and `~$x.worker`. No name of a
    worker leads to such a file.
    """
    return any(part.startswith((".", "~")) or part == "__MACOSX" for part in path.parts)


def is_generated(path: Path, root: Path) -> bool:
    """Return whether `path` is, or leads to, a file that `worker_create` may have written."""
    folder = root / GENERATED
    return path.is_relative_to(folder) or path.resolve().is_relative_to(folder.resolve())


def named_worker(path: Path) -> str:
    """Return the name of the worker that a file defines: the file's own, or its folder's for `N/worker.worker`."""
    return path.resolve().parent.name if path.stem == _IN_FOLDER else path.stem


def places_of(name: str, *, root: Path, shipped: Path) -> list[WorkerPlace]:
    """Return the files that define the worker `name`; the first of them is used."""
    own = [WorkerPlace(name, root / relative, root) for relative in own_candidates(name)]
    names = [f"{stem}{suffix}" for stem in (name, f"{name}/worker") for suffix in SUFFIXES]
    packaged = [WorkerPlace(name, shipped / relative, shipped, shipped=True) for relative in names]
    return [place for place in (*own, *packaged) if place.path.is_file() or place.path.is_symlink()]


def known_names(*, root: Path, shipped: Path) -> list[str]:
    """Return every name that has a file, sorted; whether the files are valid is not looked at."""
    workers, generated = root / "workers", root / GENERATED
    names = {path.stem for folder in (workers, generated, shipped) for path in _files(folder)}
    for inner in (inner for folder in (workers, shipped) if folder.is_dir() for inner in folder.iterdir()):
        if inner != generated and not is_ignored(PurePath(inner.name)):
            names |= {inner.name for path in _files(inner) if path.stem == _IN_FOLDER}
    # Other programs keep YAML files at the top of the workshop, too.
    for path in _files(root):
        is_yaml_worker = path.name not in _NOT_WORKERS and _INSTRUCTIONS_KEY.search(content_of(path, root)) is not None
        names |= {path.stem} if path.suffix == ".worker" or is_yaml_worker else set()
    return sorted(names)


def may_be_workers(root: Path, known: Iterable[str]) -> list[Path]:
    """Return the YAML files at the top of the workshop that may be workers and are not among `known`."""
    names = set(known)
    others = [path for path in _files(root) if path.stem not in names and path.name not in _NOT_WORKERS]
    return sorted(path for path in others if path.suffix != ".worker" and _INSTRUCTIONS in content_of(path, root))


def described_places(name: str) -> str:
    """Return the places at which `name` is looked for, in words."""
    own = ", ".join(relative for relative in own_candidates(name) if relative.endswith(".worker"))
    return f"{own} (each also as .yaml and .yml) and {PACKAGE_PREFIX}{name}"


def unreachable_files(root: Path) -> list[Path]:
    """Return the `.worker` files below `workers/` to which no name leads."""
    reachable = {
        place.path
        for name in known_names(root=root, shipped=SHIPPED)
        for place in places_of(name, root=root, shipped=SHIPPED)
    }
    found = (path for path in (root / "workers").rglob("*.worker") if not is_ignored(path.relative_to(root)))
    return sorted(path for path in found if path.is_file() and path not in reachable)


def own_candidates(name: str) -> Iterator[str]:
    """Yield the paths below the workshop at which a file defines the worker `name`; the first one there is counts."""
    stems = [f"workers/{name}", f"workers/{name}/worker", name, f"{GENERATED}/{name}"]
    if name == GENERATED.name:
        # What stands in workers/generated/ was written by a model, whatever its name.
        stems.remove(f"{GENERATED}/worker")
    for stem in stems:
        for suffix in SUFFIXES:
            if f"{stem}{suffix}" not in _NOT_WORKERS:
                yield f"{stem}{suffix}"


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        others = tuple(one.suffix for one in definition_files())
        found = (path for path in folder.iterdir() if path.suffix in SUFFIXES and not is_ignored(PurePath(path.name)))
        yield from (path for path in found if path.is_file() and not path.name.endswith(others))


def content_of(path: Path, root: Path) -> bytes:
    """Return the bytes of a file; none where it cannot be read."""
    try:
        return read_bytes(path, root)
    except Unreadable:
        return b""


TOOLS_FILE = "tools.py"


def has_function(name: str, place: WorkerPlace) -> bool:
    """Return whether a `tools.py` of the worker defines this name, or has mistakes that have to be reported.

    Known from its text: nothing of it is run.
    """
    given: set[str] = set()
    for path in tools_files(place):
        try:
            tree = parse_python(decode(read_bytes(path, place.root), label_of(path, place.root)))
        except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
            return True
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                given.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                given.add(node.id)
            elif isinstance(node, ast.alias):
                given.add(node.asname or node.name.partition(".")[0])
    # What `import *` gives, only running it would tell.
    return name in given or "*" in given


def tools_folders(place: WorkerPlace) -> list[Path]:
    """Return the folders in which a worker's `tools.py` may stand: its own, the one around its file, the root."""
    own = place.root / place.name if place.shipped else place.root / "workers" / place.name
    return list(dict.fromkeys((own, place.path.parent, place.root)))


def tools_files(place: WorkerPlace) -> list[Path]:
    """Return the `tools.py` files that are there, in the order in which a function is looked for."""
    paths = [folder / TOOLS_FILE for folder in tools_folders(place)]
    return [path for path in paths if path.exists() or path.is_symlink()]
