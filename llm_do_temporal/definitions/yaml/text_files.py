"""Text files of a workshop: found by relative names, read whole, never outside their root.

All files that the definitions read are read here, so the limits hold for all of them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path, PurePosixPath
from types import MappingProxyType

MAX_FILE_BYTES = 1024 * 1024
"""Largest file. Definitions are written by hand; a larger file is a mistake, and would not fit a Temporal payload."""


_MAX_LINKS = 40
_SHOWN_NAME = 80
_UNSAVED: ContextVar[Mapping[Path, bytes]] = ContextVar("_UNSAVED", default=MappingProxyType[Path, bytes]({}))


class Unreadable(Exception):
    """File that is missing, outside its root, too large or not text; `str()` of it is for people."""


class Missing(Unreadable):
    """File that does not exist."""


def label_of(path: Path, root: Path) -> str:
    """Return the path of a file relative to `root`, as messages name it."""
    return path.relative_to(root).as_posix()


def places_on_the_way(path: str, root: Path) -> Iterator[str]:
    """Yield the file at `path` (relative to `root`) and every link on the way to it, as real paths below `root`.

    Writing any of these changes the text that is read. Ends at a link that leads out, or in a circle.
    """
    waiting, real, followed = list(reversed(PurePosixPath(path).parts)), PurePosixPath(), 0
    while waiting:
        part = waiting.pop()
        here = real.parent if part == ".." else real / part
        try:
            led_to = (root / here).readlink() if part != ".." else None
        except OSError:
            led_to = None
        if led_to is None:
            real = here
            continue
        yield here.as_posix()
        followed += 1
        if followed > _MAX_LINKS or (led_to.is_absolute() and not led_to.is_relative_to(root)):
            return
        if led_to.is_absolute():
            led_to, real = led_to.relative_to(root), PurePosixPath()
        waiting.extend(reversed(led_to.parts))
    yield real.as_posix()


def check_inside(path: Path, root: Path) -> None:
    """Raise Unreadable unless `path` is a file that still lies in `root` when symlinks are followed."""
    label = label_of(path, root)
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise Missing(f"'{label}' cannot be opened") from error
    if not real.is_relative_to(root):
        raise Unreadable(f"'{label}' is a link that leads out of the workshop")
    if not real.is_file():
        raise Unreadable(f"'{label}' is not a file")


@contextmanager
def unsaved(texts: Mapping[Path, bytes]) -> Generator[None]:
    """Let what an editor holds count in place of what the files at these real paths hold.

    For as long as the context lasts, and for its own task or thread alone. All other bounds stay.
    """
    token = _UNSAVED.set(texts)
    try:
        yield
    finally:
        _UNSAVED.reset(token)


def read_bytes(path: Path, root: Path) -> bytes:
    """Return the content of a file inside `root`. Raises Unreadable."""
    check_inside(path, root)
    held = _UNSAVED.get()
    content = held.get(path.resolve()) if held else None
    return _bounded(_read_file(path, root) if content is None else content, path, root)


def _read_file(path: Path, root: Path) -> bytes:
    """Return the file's bytes, one more than the largest file has at most."""
    try:
        # Not the path but what is opened counts: a link or a pipe may have taken the file's place meanwhile.
        descriptor = os.open(path.resolve(strict=True), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            _check_opened(descriptor, path, root)
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"'{label_of(path, root)}' cannot be read: {error.strerror}") from error


def _bounded(content: bytes, path: Path, root: Path) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise Unreadable(f"'{label_of(path, root)}' is larger than {MAX_FILE_BYTES} bytes, the most a file may have")
    return content


def _check_opened(descriptor: int, path: Path, root: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise Unreadable(f"'{label_of(path, root)}' is not a file")
    link = Path(f"/proc/self/fd/{descriptor}")
    if link.is_symlink() and not link.readlink().is_relative_to(root.resolve()):
        raise Unreadable(f"'{label_of(path, root)}' is a link that leads out of the workshop")


def decode(content: bytes, label: str) -> str:
    """Return `content` as text with plain newlines and no byte order mark. Raises Unreadable where it is not UTF-8."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"'{label}' is not UTF-8 text (line {line})") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def find_file(name: str, folders: Sequence[Path], root: Path) -> Path:
    """Return the first file called `name` in the folders, all of which lie in `root`. Raises Unreadable."""
    pure = PurePosixPath(name)
    if not name or "\0" in name or pure.is_absolute() or ".." in pure.parts:
        raise Unreadable(f"'{name}' is not a path inside the workshop; '..' and absolute paths are not allowed")
    for folder in folders:
        path = folder / pure
        try:
            is_there = path.exists() or path.is_symlink()
        except OSError as error:  # its text has the path on this machine
            raise Unreadable(f"'{name[:_SHOWN_NAME]}' cannot be opened: {error.strerror}") from error
        if is_there:
            check_inside(path, root)
            return path
    looked = " and ".join(f"'{label_of(folder, root)}/'" for folder in dict.fromkeys(folders) if folder != root)
    raise Missing(f"there is no file '{name}' in {looked + ' or ' if looked else ''}the workshop's folder")


def read_text(name: str, folders: Sequence[Path], root: Path) -> tuple[str, Path]:
    """Return the text of the first file called `name` in the folders, and its path. Raises Unreadable."""
    path = find_file(name, folders, root)
    return decode(read_bytes(path, root), label_of(path, root)), path
