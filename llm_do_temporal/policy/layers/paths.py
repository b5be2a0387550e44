"""Paths in a layer: those of the files below the workshop, links not followed, parts joined by `/`.

They are not virtual ones: two workers of one tree may see the same folder by two names, and it is one file.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, TEMPORARY_NAME, Place, join

MAX_NAME_BYTES = 255
"""Longest name of a file that common file systems take."""
MAX_PATH_BYTES = 3_500
"""Longest path: the kernel takes 4,096 bytes, and the workshop's own path stands before it."""
MAX_LINKS = 40
"""Most links on the way to one file; the kernel gives up after as many, too."""
MAX_LINK_PARTS = 200
"""Most names that the links on one way may lead through."""


def path_of(place: Place) -> str:
    """Return the path in a layer of a place in a worker's tree. Raises SandboxRefusal."""
    return checked_path(join(place.mount.root, place.relative))


def checked_path(path: str) -> str:
    """Return the path. Raises SandboxRefusal unless a file or folder of a layer can have it."""
    parts = path.split("/")
    if not all(parts) or not {".", ".."}.isdisjoint(parts):
        raise SandboxRefusal(f"'{path}' is no path of a layer: names joined by '/', and none of them '.' or '..'")
    for part in parts:
        check_name(part, path)
    if len(path.encode()) > MAX_PATH_BYTES:
        raise SandboxRefusal(f"the path '{path[:80]}…' has more than the {MAX_PATH_BYTES} bytes that a path may have")
    return path


def check_name(name: str, path: str) -> None:
    """Raise SandboxRefusal unless one part of the path can be the name of a file in a layer."""
    if not name.isascii() and any("\ud800" <= char <= "\udfff" for char in name):
        raise SandboxRefusal(f"the name of '{shown(path)}' is not UTF-8", next_step="Give the file another name.")
    if "\0" in name:
        raise SandboxRefusal("a path cannot contain a NUL character")
    if len(name) > MAX_NAME_BYTES or len(name.encode()) > MAX_NAME_BYTES:
        raise SandboxRefusal(f"the name '{name[:80]}…' has more than the {MAX_NAME_BYTES} bytes that a name may have")
    if folded_name(name) == STATE_FOLDER or TEMPORARY_NAME.fullmatch(name):
        raise SandboxRefusal(
            f"'{path}' is a name that llm-do-temporal keeps for its own files", next_step="Choose another name."
        )


def shown(path: str) -> str:
    """Return a path with bytes that are no UTF-8 as escapes, so that any message can hold it."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def above(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first, without the top."""
    while (cut := path.rfind("/")) >= 0:
        path = path[:cut]
        yield path


def parent_of(path: str) -> str:
    """Return the folder that the path lies in; empty at the top."""
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


def below(folder: str, name: str) -> str:
    """Return the path of `name` in `folder`; an empty folder is the top."""
    return f"{folder}/{name}" if folder else name


def lies_below(path: str, folder: str) -> bool:
    """Return whether the path lies below the folder, and is not the folder itself."""
    return not folder or path.startswith(f"{folder}/")


def folded_name(name: str) -> str:
    """Return the form in which names are the same file where a file system tells neither capitals nor composed
    characters apart."""
    return (name if name.isascii() else unicodedata.normalize("NFKC", name)).casefold()


def clashes(paths: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of paths, sorted, that such a file system takes for one: each has at least two."""
    groups: dict[str, set[str]] = {}
    for path in paths:
        # A clash of two folders is one of every file below them; the shortest paths tell it.
        for one in (path, *above(path)):
            groups.setdefault(folded_name(one), set()).add(one)
    found = [tuple(sorted(group)) for group in groups.values() if len(group) > 1]
    heads = {path for group in found for path in group}
    return tuple(sorted(group for group in found if not any(one in heads for path in group for one in above(path))))


def leads_out(path: str, target: str) -> bool:
    """Return whether a link at the path leads out of the workshop, or into the product's own state, by its text.

    An absolute one always does.
    """
    depth = path.count("/")
    for part in PurePosixPath(target).parts:
        if part == "/" or folded_name(part) == STATE_FOLDER:
            return True
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False
