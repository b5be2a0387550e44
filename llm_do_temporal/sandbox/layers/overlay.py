"""Overlays for commands: a command sees the layer over the base, and what it writes lands in a folder of its own.

Owns how a layer is laid out for overlayfs: as one more folder, read-only, between the base and the folder that takes
what the command writes. So after the command there is only its own work to read, however large the layer is. Called
by whoever runs commands on layers. Must not start commands, except to find out whether overlays can be had.

Folders of a command are scratch folders beside the files: each is removed in the end, or later, where its process was
killed. A process holds a lock in each of its folders for as long as it needs it; the lock goes with the process,
whatever ends it, so a folder that nobody has locked is nobody's.
"""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from threading import Lock
from typing import ClassVar
from uuid import uuid4

from llm_do_temporal.policy.layers.layer import (
    FileBase,
    Layer,
    LayerNode,
    NodeKind,
    above,
    is_file,
    is_folder,
    lies_below,
)
from llm_do_temporal.policy.layers.view import LayerView
from llm_do_temporal.sandbox.layers.contents import LayerContents

PREFIX = "llm-do-command-"
YOUNG_SECONDS = 600
"""Age below which an unlocked folder is left alone: it may be about to be locked."""
_LOCK = ".lock"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def scratch_folder(at: Path | None = None) -> Generator[Path]:
    """Make an empty folder that nobody else can enter, in `at`; None: among the temporary files of the machine.

    The first time in a process, what killed ones have left there is removed.
    """
    _clear_once(tempfile.gettempdir() if at is None else str(at))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=at))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        inner = folder / "in"
        inner.mkdir()
        yield inner
    finally:
        remove_folder(folder)
        os.close(lock)


@cache
def _clear_once(at: str) -> None:
    remove_leftovers(Path(at))


def remove_leftovers(at: Path | None = None, *, young_seconds: float = YOUNG_SECONDS) -> int:
    """Remove the scratch folders of processes that were killed; return how many. Others' folders are left alone."""
    removed = 0
    for folder in Path(tempfile.gettempdir() if at is None else at).glob(f"{PREFIX}*"):
        with suppress(OSError):
            facts = folder.lstat()
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if time.time() - os.fstat(lock).st_mtime < young_seconds:
                    continue
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_folder(folder)
                removed += 1
            finally:
                os.close(lock)
    return removed


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, however deep, also what nobody may enter. What cannot go stays."""
    with suppress(OSError):
        top = os.open(folder, _FOLDER)
        try:
            # Folders within others are moved up before they are emptied: a command can make them so deep that no path
            # is long enough, and neither calls nor open files can follow.
            prefix, numbers = f"{uuid4().hex}-", count()
            waiting = deque(_left_after_files(top))
            while waiting:
                name = waiting.popleft()
                with suppress(OSError):
                    os.chmod(name, 0o700, dir_fd=top)
                    inner = os.open(name, _FOLDER, dir_fd=top)
                    try:
                        for one in _left_after_files(inner):
                            with suppress(OSError):
                                os.chmod(one, 0o700, dir_fd=inner)
                                moved = f"{prefix}{next(numbers)}"
                                os.rename(one, moved, src_dir_fd=inner, dst_dir_fd=top)
                                waiting.append(moved)
                    finally:
                        os.close(inner)
                    os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        folder.rmdir()


def _left_after_files(folder: int) -> list[str]:
    """Remove what is no folder in an open folder; return the names of the folders."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, has_more in found:
        if not has_more:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
    return [name for name, has_more in found if has_more]


MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Largest layer that is kept: it takes room among the temporary files for as long as the process runs."""
_MAX_FOLDERS = 4


@dataclass(frozen=True)
class KeptLower:
    """Folder with a layer that a command has seen."""

    folder: Path
    nodes: Mapping[str, LayerNode]
    """Files of the layer by their paths below the workshop."""

    def linked(self, path: str, relative: str, node: LayerNode, target: Path) -> bool:
        """Link the file at `relative` in the folder to `target` where it is this node; return whether it was."""
        if self.nodes.get(path) != node:
            return False
        with suppress(OSError):
            os.link(f"{self.folder}/{relative}", target, follow_symlinks=False)
            return True
        return False


@dataclass
class KeptLowers:
    """Folders with layers, kept from one command to the next of a process: the last one for each folder of a workshop.

    A layer that a command begins with is nearly that of the command before. Files that are the same in both are linked,
    not written again; a folder is never changed once a command has seen it. Without them all is written again.
    """

    _kept: dict[str, KeptLower] = field(default_factory=dict[str, KeptLower])
    _lock: Lock = field(default_factory=Lock)
    _opened: ExitStack = field(default_factory=ExitStack)
    _scratch: Path | None = None

    def __post_init__(self) -> None:
        # The folder is not needed any more when nobody has this.
        self._end = weakref.finalize(self, self._opened.close)

    def take(self, at: str) -> KeptLower | None:
        """Return the folder that was kept last for the part below `at`, for the caller alone; None: there is none."""
        with self._lock:
            return self._kept.pop(at, None)

    def keep(self, at: str, lower: Path, layer: Mapping[str, LayerNode | None]) -> None:
        """Move the folder with the part of a layer below `at` here, where it is not too large."""
        nodes = {path: one for path, one in layer.items() if is_file(one)}
        if sum(node.bytes for node in nodes.values()) > MAX_KEPT_BYTES:
            return
        with self._lock:
            if self._scratch is None:
                self._scratch = self._opened.enter_context(scratch_folder())
            folder = self._scratch / uuid4().hex
            with suppress(OSError):
                lower.rename(folder)
                dropped = [self._kept.pop(at, None)]
                if len(self._kept) >= _MAX_FOLDERS:
                    dropped.append(self._kept.pop(next(iter(self._kept))))
                self._kept[at] = KeptLower(folder, nodes)
                for one in filter(None, dropped):
                    remove_folder(one.folder)

    def close(self) -> None:
        """Remove all folders."""
        self._end()


_PROBE_SECONDS = 60
"""A cold start on a busy machine; it usually takes milliseconds."""
_WHITEOUT = stat.S_IFCHR
_OPAQUE = "user.overlay.opaque"


@dataclass(frozen=True)
class OverlayFolders:
    """Folders of one overlay, on this machine."""

    lower: Path | None
    """Folder with the layer; None: the layer changes nothing here."""
    upper: Path
    """Folder that takes what the command writes."""
    work: Path
    takes_base: ClassVar[bool] = True
    """Whether the open base has to be handed to `bwrap`."""

    def options(self, base: int, inside: str, *, readonly: bool = False) -> tuple[str, ...]:
        """Return the options of `bwrap` that mount the overlay at `inside`, over the open folder `base`.

        One that is `readonly` takes nothing, and needs a layer: of a single folder there is no overlay.
        """
        lower = () if self.lower is None else ("--overlay-src", str(self.lower))
        # The open folder itself: a path could lead elsewhere by now. Whoever has it open can write to the base, and a
        # command gets all that `bwrap` has open but what it mounts: so it is mounted, read-only, and covered.
        source = ("--ro-bind-fd", str(base), inside, "--overlay-src", f"/proc/self/fd/{base}")
        if readonly:
            return (*source, *lower, "--ro-overlay", inside)
        return (*source, *lower, "--overlay", str(self.upper), str(self.work), inside)


@dataclass(frozen=True)
class CopiedFile:
    """Copy of a single file, of which there is no overlay."""

    upper: Path
    """Folder that has nothing but the copy."""
    name: str
    takes_base: ClassVar[bool] = False

    def options(self, base: int, inside: str, *, readonly: bool = False) -> tuple[str, ...]:
        """Return the options of `bwrap` that mount the copy at `inside`; the open file `base` is not needed."""
        del base
        return ("--ro-bind" if readonly else "--bind", str(self.upper / self.name), inside)


@dataclass(frozen=True)
class LayerMount:
    """Folder or file of a command that is seen through a layer."""

    overlay: OverlayFolders | CopiedFile
    names: tuple[str, ...]
    """Names in the folder, as the layer has it; none in a file."""
    shows_base: Callable[[str], bool]
    """Whether the base is seen at a path below the folder."""

    @property
    def is_unchanged(self) -> bool:
        """Whether the layer changes nothing here, so that what is only read needs no overlay."""
        return isinstance(self.overlay, OverlayFolders) and self.overlay.lower is None


@contextmanager
def overlay_folders(
    layer: Layer,
    base: FileBase,
    contents: LayerContents,
    *,
    at: str = "",
    scratch: Path | None = None,
    kept: KeptLowers | None = None,
) -> Generator[OverlayFolders]:
    """Lay out the part of a layer below the folder `at` (empty: all) for an overlay; removed again in the end.

    `scratch` is a folder outside of the workshop on a file system that overlays can write to; None: that of temporary
    files. What was laid out before may be in `kept`, and this is left there.
    """
    with scratch_folder(scratch) as folder:
        lower, upper, work = _made(folder, "lower", "upper", "work")
        _copy_mode(upper, layer, base, at)
        earlier = None if kept is None else kept.take(at)
        try:
            written = write_lower(lower, layer, base, contents, at=at, earlier=earlier)
        finally:
            if earlier is not None:
                remove_folder(earlier.folder)
        yield OverlayFolders(lower=lower if written else None, upper=upper, work=work)
        if kept is not None and written:
            kept.keep(at, lower, {path: one.now for path, one in layer.changes.items() if lies_below(path, at)})


def write_lower(
    folder: Path,
    layer: Layer,
    base: FileBase,
    contents: LayerContents,
    *,
    at: str = "",
    earlier: KeptLower | None = None,
) -> int:
    """Write the part of a layer below `at` into an empty folder, as overlayfs reads it; return how many paths.

    Files that an earlier one has, too, are linked from there.
    """
    changes = {path: entry for path, entry in layer.changes.items() if lies_below(path, at)}
    if not changes:
        return 0
    _copy_mode(folder, layer, base, at)
    modes: dict[str, int] = {}
    for path, entry in changes.items():
        if any(over in changes and not is_folder(changes[over].now) for over in above(path)):
            continue  # it goes with the folder that goes
        for one in reversed([over for over in above(path) if lies_below(over, at) and over not in modes]):
            node = base.look(one)
            modes[one] = 0o755 if node is None else node.mode
            (folder / _below(one, at)).mkdir()
        target = folder / _below(path, at)
        if is_folder(entry.now):
            modes[path] = entry.now.mode
            _make_folder(target, entry.base)
        elif entry.now is None:
            if entry.base is not None:
                os.mknod(target, _WHITEOUT, 0)
        elif earlier is None or not earlier.linked(path, _below(path, at), entry.now, target):
            write_node(target, entry.now, path, contents)
    for path, mode in reversed(modes.items()):
        (folder / _below(path, at)).chmod(mode)
    return len(changes)


def _make_folder(target: Path, base: LayerNode | None) -> None:
    """Make a folder of a layer where the base has had this node; None: nothing."""
    target.mkdir()
    if not is_folder(base):
        # Nothing shines through a new folder, whatever has been put there meanwhile.
        os.setxattr(target, _OPAQUE, b"y")


def overlay_problem(bwrap: str | None, scratch: Path | None = None) -> str | None:
    """Return the reason why commands cannot run on layers here; None where they can. Tries it, in a few milliseconds.

    `scratch` is as for `overlay_folders`.
    """
    if bwrap is None:
        return "commands cannot be isolated on this machine (bubblewrap), and layers need that"
    try:
        with scratch_folder(scratch) as folder:
            return _tried(bwrap, folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return f"an overlay cannot be tried in the folder for temporary files: {reason or type(error).__name__}"


def base_problem(bwrap: str, base: int) -> str | None:
    """Return the reason why nothing can be laid over the open folder `base`; None where it can. Tries it.

    Its file system may be no fit for an overlay where that of temporary files is.
    """
    with scratch_folder() as folder:
        upper, work = _made(folder, "upper", "work")
        return _mounted(bwrap, base, OverlayFolders(None, upper, work), "test -d /mnt")


def _made(folder: Path, *names: str) -> list[Path]:
    """Make empty folders with these names."""
    for name in names:
        (folder / name).mkdir()
    return [folder / name for name in names]


def _tried(bwrap: str, folder: Path) -> str | None:
    base, lower, upper, work = _made(folder, "base", "lower", "upper", "work")
    (base / "gone").touch()
    (base / "kept").touch()
    try:
        os.mknod(lower / "gone", _WHITEOUT, 0)
        os.setxattr(lower, "user.overlay.probe", b"y")
    except OSError as error:
        return f"the folder for temporary files cannot hold an overlay: {error.strerror}"
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    try:
        script = "test ! -e /mnt/gone && rm /mnt/kept && echo x > /mnt/new"
        problem = _mounted(bwrap, descriptor, OverlayFolders(lower, upper, work), script)
    finally:
        os.close(descriptor)
    if problem is not None:
        return problem
    left = upper / "kept"
    if not stat.S_ISCHR(left.lstat().st_mode) or (upper / "new").read_bytes() != b"x\n" or not (base / "kept").exists():
        return "overlays of this machine leave behind something else than is understood here"
    return None


def _mounted(bwrap: str, base: int, overlay: OverlayFolders, script: str) -> str | None:
    """Run a script with the overlay at `/mnt`; return the reason why that fails, None where it does not."""
    options = overlay.options(base, "/mnt")
    command = [bwrap, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", *options, "--", "sh", "-c", script]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS, check=False, pass_fds=(base,)
    )
    if done.returncode == 0:
        return None
    return f"overlays do not work on this machine: {done.stderr.decode(errors='replace').strip()[:200]}"


def write_node(target: Path, node: LayerNode, path: str, contents: LayerContents) -> None:
    """Make a file or a link of a layer at `target`, where nothing is."""
    if node.kind is NodeKind.LINK:
        target.symlink_to(node.target)
        return
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(contents.read(node, path))
        os.fchmod(file.fileno(), node.mode)


def _copy_mode(folder: Path, layer: Layer, base: FileBase, at: str) -> None:
    """Give a folder of the overlay the permissions of the folder that it stands for, as those of the topmost count."""
    node = LayerView(layer, base).look(at) if at else None
    folder.chmod(0o755 if node is None else node.mode)


def _below(path: str, at: str) -> str:
    return path[len(at) + 1 :] if at else path
