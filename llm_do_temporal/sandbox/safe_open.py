"""Safe ways of opening files: nothing leads out of the folder that they are seen in.

Owns the way from a judged place (a mount and a path below it) to an open file. Called by the activities
that touch files. Symbolic links are followed here, one by one, and only while they stay below the
mount; what they come to is then opened with a call that follows no link at all. So a link put there
between the two is refused, and both ways of opening (the kernel's `openat2`, and one component after
the other where there is none) give the same answers.

Writing follows no link at all: a name that was judged stands for one file.

The folder of a mount is reached without any link: a worker's narrower tree must not turn into another
tree because somebody put a link where it begins.

Must not judge policy beyond what only the real file shows, and must not let a host path into a message.

Who reads a file knows neither of its openers: `WorkshopFolder` here, and `layers.files.LayeredFiles`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.files.sandbox import Place, check_not_state, has_suffix, join
from llm_do_temporal.sandbox.os_errors import naming


class _Sized(Protocol):
    @property
    def st_size(self) -> int: ...


class FolderEntry(Protocol):
    """Entry of a folder; that of a real one is an `os.DirEntry`."""

    @property
    def name(self) -> str:
        """Name of the entry."""
        ...

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        """Return whether it is a folder."""
        ...

    def is_file(self, *, follow_symlinks: bool) -> bool:
        """Return whether it is a regular file."""
        ...

    def is_symlink(self) -> bool:
        """Return whether it is a link."""
        ...

    def stat(self, *, follow_symlinks: bool) -> _Sized:
        """Return facts with the size in bytes. Raises FileNotFoundError for what was removed meanwhile."""
        ...


class OpenFolder(Protocol):
    """An open folder."""

    def entries(self, relative: str = ".") -> AbstractContextManager[Iterator[FolderEntry]]:
        """Entries of the folder `relative` below this one, in any order. Raises OSError."""
        ...


class FileOpener(Protocol):
    """Way from a judged place to an open file; its methods fail as those of WorkshopFolder do."""

    def found(self, place: Place) -> AbstractContextManager[tuple[BinaryIO, str]]:
        """The regular file at `place`, open for reading bytes, and its path below the workshop, links followed."""
        ...

    def size(self, place: Place) -> int:
        """Return the size in bytes of the regular file at `place`."""
        ...

    def folder(self, place: Place) -> AbstractContextManager[OpenFolder]:
        """The folder at `place`."""
        ...


MAX_LINKS = 40
"""Most links in one path; the kernel gives up after as many, too."""

MAX_LINK_STEPS = 200
"""Most folders that the links of one path may lead through: a link's text has room for two thousand."""

OpenBelow = Callable[[int, str, int], int]
"""Open a path below a folder (a descriptor) with `os.open` flags, following no symbolic link."""
ReadLink = Callable[[str, str], str | None]
"""Return the target of the link of this name in a folder, given by its path; None where it is no link."""

_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
# Without O_NONBLOCK, opening a fifo waits for somebody to write to it.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

_AT_FDCWD = -100
_SYS_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_by_kernel(folder: int, relative: str, flags: int) -> int:
    """Open `relative` below the descriptor `folder` with `openat2`. Raises OSError; ELOOP for a link."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS)
    descriptor = _libc().syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(folder),
        ctypes.c_char_p(os.fsencode(relative)),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(descriptor)


@cache
def _libc() -> ctypes.CDLL:
    # Made anew for each file, it would take as long as all the rest.
    return ctypes.CDLL(None, use_errno=True)


def open_by_component(folder: int, relative: str, flags: int) -> int:
    """Open `relative` below the descriptor `folder`, one component at a time. Raises OSError; ELOOP for a link."""
    parts = PurePosixPath(relative).parts or (".",)
    if ".." in parts or parts[0] == "/":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    current = os.dup(folder)
    for part in parts[:-1]:
        try:
            inner = _open_one(current, part, _SEARCH)
        finally:
            os.close(current)
        current = inner
    try:
        return _open_one(current, parts[-1], flags)
    finally:
        os.close(current)


def _open_one(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except NotADirectoryError:
        # For a link, too, when a folder is wanted; those who call want to tell the two apart.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


@cache
def best_way_to_open() -> OpenBelow:
    """`open_by_kernel` where the kernel has `openat2` and lets us use it, else `open_by_component`."""
    if sys.platform == "linux":
        try:
            os.close(open_by_kernel(_AT_FDCWD, ".", _SEARCH))
        except OSError:
            return open_by_component
        return open_by_kernel
    return open_by_component


@dataclass(frozen=True)
class Folder:
    """An open folder, and the way to open what is below it."""

    descriptor: int
    in_workshop: str
    """Path of the folder below the workshop, links followed."""
    open_below: OpenBelow

    @contextmanager
    def entries(self, relative: str = ".") -> Generator[Iterator[FolderEntry]]:
        """Entries of the folder `relative` below this one; a link on the way raises OSError."""
        descriptor = self.open_below(self.descriptor, relative, _FOLDER)
        try:
            with os.scandir(descriptor) as entries:
                yield entries
        finally:
            os.close(descriptor)


@dataclass(frozen=True)
class Target:
    """Target of a write: the open folder, None where it does not exist yet, and the name of the file in it."""

    folder: int | None
    name: str
    in_workshop: str
    """The file's path below the workshop, links followed."""


@dataclass(frozen=True)
class _Reached:
    """A place with its links followed."""

    root: int
    """The mount's folder, open."""
    begin: str
    """Path of the mount's folder below the workshop."""
    real: str
    """Path of the place below the mount's folder."""

    @property
    def below_root(self) -> tuple[int, str]:
        return self.root, self.real


class WorkshopFolder:
    """The workshop's folder, and the only way from it to a file of a tree.

    Every method raises SandboxRefusal where a path leads out of its mount or into our own state, and
    EffectFailed, naming the virtual path, where it cannot be opened for another reason.
    """

    def __init__(self, path: Path, open_below: OpenBelow | None = None) -> None:
        self.path = path
        self._open_below = open_below or best_way_to_open()

    @contextmanager
    def file(self, place: Place) -> Generator[BinaryIO]:
        """The regular file at `place`, open for reading bytes."""
        with self.found(place) as (file, _):
            yield file

    @contextmanager
    def found(self, place: Place) -> Generator[tuple[BinaryIO, str]]:
        """The regular file at `place`, open for reading bytes, and its path below the workshop, links followed."""
        with naming(place.path), ExitStack() as opened:
            reached = self._reach(place, opened)
            descriptor = self._open_below(*reached.below_root, _FILE)
            opened.callback(os.close, descriptor)
            check_regular(descriptor)
            yield opened.enter_context(os.fdopen(descriptor, "rb", closefd=False)), join(reached.begin, reached.real)

    def size(self, place: Place) -> int:
        """Return the size in bytes of the regular file at `place`."""
        with self.file(place) as file:
            return os.fstat(file.fileno()).st_size

    @contextmanager
    def folder(self, place: Place) -> Generator[Folder]:
        """The folder at `place`."""
        with naming(place.path), ExitStack() as opened:
            reached = self._reach(place, opened)
            descriptor = self._open_below(*reached.below_root, _FOLDER)
            opened.callback(os.close, descriptor)
            in_workshop = join(reached.begin, reached.real)
            yield Folder(descriptor=descriptor, in_workshop=in_workshop, open_below=self._open_below)

    @contextmanager
    def target(self, place: Place, *, create: bool, check: Callable[[str], None] | None = None) -> Generator[Target]:
        """Open the folder that the file at `place` is written to; with `create`, missing folders are made.

        No link below the mount is followed: the file that was judged, and shown to a person, is that of this name.

        `check` is given the file's real path below the workshop before anything is made, and raises where nothing
        may be written there.
        """
        with naming(place.path), ExitStack() as opened:
            workshop = self._workshop(opened)
            begin = root_path(place, self._links(workshop))
            wanted = PurePosixPath(place.relative)
            if not wanted.name:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if check is not None:
                check(join(begin, place.relative))
            with writing_no_link(place.path):
                root = self._enter(workshop, begin, opened, create=create)
                folder = None if root is None else self._enter(root, str(wanted.parent), opened, create=create)
            yield Target(folder=folder, name=wanted.name, in_workshop=join(begin, place.relative))

    def _workshop(self, opened: ExitStack) -> int:
        descriptor = os.open(self.path, _SEARCH | os.O_CLOEXEC)
        opened.callback(os.close, descriptor)
        return descriptor

    def _links(self, folder: int) -> ReadLink:
        return partial(read_link, folder, open_below=self._open_below)

    def _reach(self, place: Place, opened: ExitStack) -> _Reached:
        workshop = self._workshop(opened)
        begin = root_path(place, self._links(workshop))
        root = self._open_below(workshop, begin, _SEARCH)
        opened.callback(os.close, root)
        return _Reached(root=root, begin=begin, real=real_path(place, begin, self._links(root)))

    def _enter(self, start: int, relative: str, opened: ExitStack, *, create: bool) -> int | None:
        try:
            descriptor = self._open_below(start, relative, _FOLDER)
        except FileNotFoundError:
            if not create:
                return None
            descriptor = _make_folders(start, relative)
        opened.callback(os.close, descriptor)
        return descriptor


@contextmanager
def writing_no_link(path: str) -> Generator[None]:
    """Say that a link is in the way of writing the file with the virtual `path`. Raises SandboxRefusal."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise SandboxRefusal(
            f"'{path}' is a symbolic link, or lies behind one; nothing is written through links",
            next_step="Name the file itself.",
        ) from error


def check_regular(descriptor: int) -> os.stat_result:
    """The facts of an open file. Raises OSError unless it is a regular one: EISDIR for a folder, else ENXIO."""
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        number = errno.EISDIR if stat.S_ISDIR(facts.st_mode) else errno.ENXIO
        raise OSError(number, os.strerror(number))
    return facts


def _make_folders(start: int, relative: str) -> int:
    current = os.dup(start)
    for part in PurePosixPath(relative).parts:
        try:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=current)
            inner = _open_one(current, part, _FOLDER)
        finally:
            os.close(current)
        current = inner
    return current


def root_path(place: Place, links: ReadLink) -> str:
    """Return the folder of the mount, relative to the workshop, once the place in it is checked by its name.

    `links` reads those below the workshop. Raises SandboxRefusal, and OSError as `real_path` does.
    """
    root, base = PurePosixPath(place.mount.root), PurePosixPath(place.mount.base)
    led_to = _follow_links(str(base), links)
    begin = join(led_to, str(root.relative_to(base)) if root.is_relative_to(base) else "..")
    _check_reachable(place, begin, place.relative)
    return begin


def real_path(place: Place, begin: str, links: ReadLink) -> str:
    """Return the place below its mount's folder `begin`, with links followed and their targets checked again.

    `links` reads those below that folder. Raises SandboxRefusal, and OSError: EXDEV where a link leads out (an absolute
    one always does), ELOOP for a circle.
    """
    real = _follow_links(place.relative, links)
    _check_reachable(place, begin, real)
    allowed = place.mount.suffixes
    # A folder has no suffix to check; a link with an allowed one must not open a file with another.
    if allowed is not None and has_suffix(place.path, allowed) and not has_suffix(real, allowed):
        raise SandboxRefusal(
            f"'{place.path}' is a link to a file with a suffix that is not allowed here; allowed: {', '.join(allowed)}"
        )
    return real


def _follow_links(relative: str, links: ReadLink) -> str:
    """Return `relative` with every symbolic link followed. Raises OSError as `real_path` does."""
    waiting = list(reversed(PurePosixPath(relative).parts))
    real: list[str] = []
    followed = steps = 0
    while waiting:
        part = waiting.pop()
        if part == "/" or (part == ".." and not real):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        if part == "..":
            real.pop()
        elif (led_to := links("/".join(real) or ".", part)) is None:
            real.append(part)
        elif (followed := followed + 1) > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        else:
            parts = PurePosixPath(led_to).parts
            if (steps := steps + len(parts)) > MAX_LINK_STEPS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            waiting.extend(reversed(parts))
    return "/".join(real) or "."


def read_link(root: int, folder: str, name: str, open_below: OpenBelow) -> str | None:
    """Return the target of the link `name` in a folder below the open folder `root`; None where it is no link, or
    nothing at all."""
    try:
        descriptor = open_below(root, folder, _SEARCH)
    except (FileNotFoundError, NotADirectoryError):
        return None  # opening the whole path will say so
    try:
        return os.readlink(name, dir_fd=descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
    finally:
        os.close(descriptor)


def _check_reachable(place: Place, begin: str, real: str) -> None:
    parts = PurePosixPath(join(begin, real)).parts
    if ".." in parts or parts[:1] == ("/",):
        raise SandboxRefusal(f"'{place.path}' leads out of this worker's files")
    check_not_state(place, join(begin, real))
