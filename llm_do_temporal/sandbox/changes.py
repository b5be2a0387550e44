"""Files of a workshop as tools see and change them: opened, compared with an earlier look, read as text and changed.

Owns diffs, atomic replacement, the order of changes, and the work of the file tools once policy has let them. Called by
the file activities, and by the page for a preview. Works through the descriptors of folders that `safe_open` opened,
so that nothing done to the path meanwhile matters. Judges again, on the real file, all that could have changed since:
the place that the path leads to, the size, the suffix, read-only. All of it may be done twice: reading is harmless, and
writing the same again changes nothing.
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from llm_do_temporal.definitions.protection import protection_of
from llm_do_temporal.errors import EffectFailed, LlmDoError, SandboxRefusal, ShownDiffers
from llm_do_temporal.messages.activities import EditFileInput, FileChange, FileText, ReadFileInput, WriteFileInput
from llm_do_temporal.messages.sizes import MAX_DIFF_CHARS, MAX_READ_CHARS
from llm_do_temporal.policy.files.encodings import decoded, encoding_of, is_replaced, replaced, wrong_place
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, Place, check_readable, check_size, check_writable
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.layers.patch import ended_line, line_span, split_lines
from llm_do_temporal.redaction.hidden_characters import shown_name
from llm_do_temporal.sandbox.os_errors import is_passing
from llm_do_temporal.sandbox.safe_open import (
    FileOpener,
    WorkshopFolder,
    check_regular,
    open_by_component,
    writing_no_link,
)

MAX_COMPARED_LINES = 4_000
"""Most lines that are compared one by one, which grows with their square; the change of more is shown as one block."""
_CONTEXT_LINES = 3
_LOCKS = 256


@dataclass(frozen=True)
class OldFile:
    """A file before it is changed."""

    data: bytes
    """Content, or the beginning of it where the file is larger than the caller's limit."""
    size: int
    mode: int
    """Permission bits."""
    sha256: str = ""
    """Digest of its content."""


class Spot(Protocol):
    """File that a call may write to, and that may not exist yet."""

    in_workshop: str
    """Path below the workshop."""

    def old(self, max_bytes: int) -> OldFile | None:
        """Return the file with at most `max_bytes + 1` of its bytes; None where there is none.

        Raises OSError: EISDIR for a folder, ENXIO for anything else that is not a file.
        """
        ...

    def replace(self, data: bytes, old: OldFile | None) -> None:
        """Put `data` there, whole or not at all, with the permissions of `old`; None: the usual ones."""
        ...


class SandboxFiles(FileOpener, Protocol):
    """Files that can also be changed."""

    def spot(
        self, place: Place, *, apply: bool, create: bool, check: Callable[[str], None] | None = None
    ) -> AbstractContextManager[Spot]:
        """See WorkshopFiles."""
        ...


class WorkshopFiles(WorkshopFolder):
    """The workshop's own files, and the way of changing one of them."""

    @contextmanager
    def spot(
        self, place: Place, *, apply: bool, create: bool, check: Callable[[str], None] | None = None
    ) -> Generator[_FolderSpot]:
        """Open the place of a file to be written. It is for a preview only unless `apply`; see `target` for the rest.

        Raises as `target` does, meanwhile, too.
        """
        with self.target(place, create=create, check=check) as target:
            # A preview needs no lock: files are replaced as a whole.
            held = nullcontext() if target.folder is None or not apply else alone_in(target.folder, self.path)
            with held, writing_no_link(place.path):
                yield _FolderSpot(target.folder, target.name, target.in_workshop)


@dataclass
class _FolderSpot:
    folder: int | None
    name: str
    in_workshop: str

    def old(self, max_bytes: int) -> OldFile | None:
        if self.folder is None:
            return None
        try:
            descriptor = open_by_component(self.folder, self.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except FileNotFoundError:
            return None
        try:
            return old_of(descriptor, max_bytes)
        finally:
            os.close(descriptor)

    def replace(self, data: bytes, old: OldFile | None) -> None:
        assert self.folder is not None
        replace_file(self.folder, self.name, data, None if old is None else old.mode)


def old_of(descriptor: int, max_bytes: int) -> OldFile:
    """Return an open file, as `Spot.old` does."""
    facts = check_regular(descriptor)
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        data = file.read(max_bytes + 1)
    size, mode = max(facts.st_size, len(data)), stat.S_IMODE(facts.st_mode)
    return OldFile(data=data, size=size, mode=mode, sha256=content_digest(data, facts))


def content_digest(data: bytes, facts: os.stat_result) -> str:
    """The digest of a file of which `data` is all, or the beginning; of the rest the file system's word counts."""
    digest = hashlib.sha256(data)
    if facts.st_size > len(data):
        digest.update(f"{facts.st_size} {facts.st_dev} {facts.st_ino} {facts.st_mtime_ns} {facts.st_ctime_ns}".encode())
    return digest.hexdigest()


@contextmanager
def alone_in(folder: int, workshop: Path) -> Generator[None]:
    """Keep other changes of files in `folder`, in this process and others, waiting meanwhile.

    Two edits of one turn run side by side; without this the second could undo the first. What is locked lies in the
    workshop's own state, where no worker and no isolated command gets: one that locks the folder holds nobody up.
    """
    with alone_in_all([os.fstat(folder)], workshop):
        yield


@contextmanager
def alone_in_all(folders: Iterable[os.stat_result], workshop: Path) -> Generator[None]:
    """Keep other changes of files in all these folders waiting meanwhile; see `alone_in`."""
    with ExitStack() as held:
        # Some file systems have no locks, some workshops cannot be written. Each replacement is atomic there, too.
        with suppress(OSError):
            # In one order, or two callers could wait for each other.
            # Few files for any number of folders: two that share one wait for each other now and then.
            for name in sorted({f"{(one.st_dev * 31 + one.st_ino) % _LOCKS:02x}" for one in folders}):
                # An open file, own to every caller, by which changes in the folders of this name exclude each other.
                locks = workshop / STATE_FOLDER / "locks"
                locks.parent.mkdir(mode=0o700, exist_ok=True)
                locks.mkdir(mode=0o700, exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                lock = os.open(locks / name, flags, 0o600)
                held.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def replace_file(folder: int, name: str, data: bytes, mode: int | None) -> None:
    """Put `data` at `name` in `folder`, whole or not at all; `mode` are the permission bits, None the usual ones."""
    temporary = f".llm-do-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode & 0o700, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def diff_of(path: str, old: OldFile | None, new: str) -> str:
    """Return the change of the file with the virtual `path` as a unified diff; empty where nothing changes.

    Past 64 KiB it ends in a line that says so.
    """
    # A line end in a path would make lines of a change that is none.
    path = shown_name(path) if "\n" in path else path
    head = f"--- {path if old is not None else '/dev/null'}\n+++ {path}\n"
    before = "" if old is None else _text_of(old)
    if before is None:
        return f"{head}(all that was there is replaced: not text, or too large to compare)\n"
    if before == new and old is not None:
        return ""
    return _cut(head + "".join(ended_line(line) for line in _changed_lines(split_lines(before), split_lines(new))))


def _text_of(old: OldFile) -> str | None:
    try:
        return old.data.decode() if old.size == len(old.data) else None
    except UnicodeDecodeError:
        return None


def _changed_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    if len(old) + len(new) <= MAX_COMPARED_LINES:
        # The first two lines are the names, which the caller writes itself.
        lines = difflib.unified_diff(old, new, n=_CONTEXT_LINES)
        next(lines, None)
        next(lines, None)
        yield from lines
        return
    shortest = min(len(old), len(new))
    start = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    end = next((i for i in range(shortest - start) if old[-1 - i] != new[-1 - i]), shortest - start)
    removed, added = old[start : len(old) - end], new[start : len(new) - end]
    yield f"@@ -{line_span(start, len(removed))} +{line_span(start, len(added))} @@\n"
    yield from (f"-{line}" for line in removed)
    yield from (f"+{line}" for line in added)


def _cut(diff: str) -> str:
    if len(diff) <= MAX_DIFF_CHARS:
        return diff
    kept = diff[:MAX_DIFF_CHARS]
    kept = kept[: kept.rfind("\n") + 1] or f"{kept}\n"
    return f"{kept}... the diff is cut here: {len(diff) - len(kept)} of {len(diff)} characters are not shown\n"


MAX_HASHED_BYTES = 32_000_000
"""Bytes in a digest; of larger files the beginning counts, and facts of the file system: some exceed any disk."""
MAX_COPIED_BYTES = 256 * 1024 * 1024
"""Largest file of a layer, of which there is only a copy to look at."""


def seen_old(place: Place, in_workshop: str, old: OldFile | None, new: bytes) -> SeenFile:
    """Return the facts of a file that is to have the bytes `new`, as it is before."""
    return SeenFile(
        path=place.path,
        place=in_workshop,
        sha256=None if old is None else old.sha256,
        mode=None if old is None else old.mode,
        after=hashlib.sha256(new).hexdigest(),
    )


def see_open(file: BinaryIO, path: str, in_workshop: str) -> SeenFile:
    """Return the facts of an open file, which is read from its begin and left there."""
    facts = os.fstat(file.fileno())
    # A copy without a name, as of a file in a layer, is another one each time: all of its bytes count.
    is_copy = facts.st_nlink == 0 and facts.st_size <= MAX_COPIED_BYTES
    file.seek(0)
    sha256 = content_digest(file.read(MAX_COPIED_BYTES if is_copy else MAX_HASHED_BYTES), facts)
    file.seek(0)
    return SeenFile(path=path, place=in_workshop, sha256=sha256, mode=stat.S_IMODE(facts.st_mode))


def see_file(folder: FileOpener, place: Place) -> SeenFile:
    """Return the file at a place, without a digest where there is none that can be read.

    Raises an OSError that may pass: a file that cannot be read for a moment is not a file that is gone.
    """
    try:
        with folder.found(place) as (file, in_workshop):
            return see_open(file, place.path, in_workshop)
    except LlmDoError:
        return SeenFile(path=place.path)
    except OSError as error:
        if is_passing(error):
            raise
        return SeenFile(path=place.path)


def check_as_shown(expected: SeenFile | None, found: SeenFile) -> None:
    """Raise ShownDiffers where a file is not as it was shown; `expected` None: nobody was shown any."""
    if expected is not None and not expected.is_like(found):
        raise ShownDiffers(f"'{found.path}' has changed since it was shown", next_step="Try it again.")


MAX_READ_BYTES = 10_000_000
"""Size of the largest file that is read as text where its mount sets no `max_file_bytes`."""


class TextFiles:
    """Text files of one workshop. All methods raise SandboxRefusal, EffectFailed, and an OSError that may pass."""

    def __init__(self, workshop: Path, files: SandboxFiles | None = None) -> None:
        """`files` are those to work on; None: the workshop's own."""
        self._workshop = workshop
        self._files = files or WorkshopFiles(workshop)

    def read(self, asked: ReadFileInput) -> FileText:
        """Return the file's text from character `offset` on, at most `max_chars` (and 1,000,000) of it."""
        place = Place(mount=asked.mount, relative=asked.relative, path=asked.path)
        check_readable(place)
        if asked.offset < 0:
            raise EffectFailed(f"offset is {asked.offset}; it counts characters from 0 on")
        if asked.max_chars < 1:
            raise EffectFailed(f"max_chars is {asked.max_chars}; it must be 1 or more")
        with self._files.found(place) as (file, in_workshop):
            if asked.expected is not None:
                check_as_shown(asked.expected, see_open(file, place.path, in_workshop))
            size = file.seek(0, 2)
            _check_read_size(place, size)
            file.seek(0)
            data = file.read(_read_limit(place) + 1)
            _check_read_size(place, len(data))
            text = _wide_text(data)
            text = _decode_utf8(data, place) if text is None else text
        end = asked.offset + min(asked.max_chars, MAX_READ_CHARS)
        return FileText(content=text[asked.offset : end], truncated=end < len(text), total_chars=len(text))

    def keep(self, asked: WriteFileInput | EditFileInput) -> None:
        """Write the file once more as it is: a layer has it then, whatever becomes of the file below."""
        place = Place(mount=asked.mount, relative=asked.relative, path=asked.path)
        with self._files.spot(place, apply=True, create=False) as spot:
            old = spot.old(_read_limit(place))
            if old is not None:
                spot.replace(old.data, old)

    def change(self, asked: WriteFileInput | EditFileInput, *, apply: bool, retried: bool = False) -> FileChange:
        """Return the change of a file, whole or not at all; only with `apply` it is made.

        It is not made where the file is changed so already. `retried` says that an earlier attempt may have edited it.
        """
        place = Place(mount=asked.mount, relative=asked.relative, path=asked.path)
        check_writable(place)
        # A size that is known beforehand is judged before any folder is made.
        if isinstance(asked, WriteFileInput):
            check_size(place, len(_encode(asked.content, place)))
        create = apply and isinstance(asked, WriteFileInput)

        def check(in_workshop: str) -> None:
            # A file that defines is refused: the call was not judged as writing one.
            if not asked.definitions:
                check_defines_nothing(place, in_workshop, protection_of(self._workshop))

        with self._files.spot(place, apply=apply, create=create, check=check) as spot:
            old = spot.old(_read_limit(place))
            if apply and old is not None and _is_as_agreed(asked.expected, spot, old):
                seen = seen_old(place, spot.in_workshop, old, old.data)
                return FileChange(path=place.path, bytes=old.size, created=False, diff="", seen=seen)
            new = asked.content if isinstance(asked, WriteFileInput) else _edited(asked, place, old, retried=retried)
            data = _encode(new, place)
            check_size(place, len(data))
            check_not_write_protected(place, old)
            seen = seen_old(place, spot.in_workshop, old, data)
            if apply and (old is None or old.data != data):
                check_as_shown(asked.expected, seen)
                spot.replace(data, old)
            diff = diff_of(place.path, old, new)
            return FileChange(path=place.path, bytes=len(data), created=old is None, diff=diff, seen=seen)


def check_defines_nothing(place: Place, in_workshop: str, protection: Protection) -> None:
    """Raise SandboxRefusal where the file at `place`, with this path below the workshop, is a definition."""
    if protection.protects(in_workshop):
        raise SandboxRefusal(
            f"'{place.path}' is one of the files that define workers; writing it needs the capability "
            "sandbox.write.definitions",
            next_step="Write to another file. Workers are made with worker_create, where that is enabled.",
        )


def check_not_write_protected(place: Place, old: OldFile | None) -> None:
    """Raise EffectFailed for a file that nobody may write to; None: there is no file yet."""
    if old is not None and not old.mode & 0o222:
        # Replacing works without write permission; somebody took it away from everybody on purpose.
        raise EffectFailed(f"'{place.path}' is write-protected", next_step="Write to another file.")


def _is_as_agreed(expected: SeenFile | None, spot: Spot, old: OldFile) -> bool:
    """Return whether the file has exactly the change that was agreed to, from an earlier attempt or another program."""
    if expected is None or expected.after is None:
        return False
    return expected.after == old.sha256 and expected.place in (None, spot.in_workshop)


def _edited(asked: EditFileInput, place: Place, old: OldFile | None, *, retried: bool) -> str:
    """Return the edited text. Raises EffectFailed if `old_text` names no one place, or nothing changes."""
    if old is None:
        raise EffectFailed(f"'{place.path}' does not exist", next_step="Create it with write_file.")
    _check_read_size(place, old.size)
    text = _decode_utf8(old.data, place)
    if retried and is_replaced(text, asked.old_text, asked.new_text):
        return text
    if not asked.old_text:
        raise EffectFailed(
            f"old_text is empty; it must be the text in '{asked.path}' to replace",
            next_step="Give the text to replace, or use write_file to write the whole file.",
        )
    if asked.old_text == asked.new_text:
        raise EffectFailed(f"old_text and new_text are the same; '{asked.path}' stays as it is")
    count, new = replaced(text, asked.old_text, asked.new_text)
    if count == 0:
        raise EffectFailed(
            f"old_text does not occur in '{asked.path}'; it must occur exactly once",
            next_step="Read the file and copy the text exactly, with its spaces.",
        )
    if count > 1:
        raise EffectFailed(
            f"old_text occurs {count} times in '{asked.path}'; it must occur exactly once",
            next_step="Add lines before or after it until it names one place.",
        )
    if new == text:
        raise EffectFailed(
            f"old_text and new_text differ in line ends alone, and '{asked.path}' keeps its own; it stays as it is",
            next_step="Write the whole file with write_file to change its line ends.",
        )
    return new


def _read_limit(place: Place) -> int:
    limit = place.mount.max_file_bytes
    return MAX_READ_BYTES if limit is None else limit


def _check_read_size(place: Place, size: int) -> None:
    check_size(place, size)
    if size > _read_limit(place):
        raise EffectFailed(
            f"'{place.path}' is larger than the {MAX_READ_BYTES} bytes that are read as text",
            next_step="Attach the file to a worker, or set max_file_bytes in the sandbox to allow more.",
        )


def _wide_text(data: bytes) -> str | None:
    """Return a text in UTF-16 or UTF-32; None where no mark names one of these, or not all of the file is in it."""
    if encoding_of(data).startswith("utf-8"):
        return None
    try:
        text = decoded(data)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _decode_utf8(data: bytes, place: Place) -> str:
    """Return a text to be changed, in the one encoding in which it can be written. Raises EffectFailed."""
    step = "Hand files such as PDFs and images to a worker as attachments."
    if _wide_text(data) is not None:
        raise EffectFailed(
            f"'{place.path}' is {encoding_of(data).upper()} text, and only UTF-8 text is edited",
            next_step="Read it and write the whole file with write_file, which makes it UTF-8.",
        )
    # A small PDF can be nothing but letters, and is no text all the same.
    if data.startswith(b"%PDF-"):
        raise EffectFailed(f"'{place.path}' is not UTF-8 text", next_step=step)
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise EffectFailed(f"'{place.path}' is not UTF-8 text: line {line} has a NUL byte", next_step=step)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EffectFailed(
            f"'{place.path}' is not UTF-8 text: {wrong_place(error)}",
            next_step=f"{step} Text of another encoding must be converted to UTF-8.",
        ) from error


def _encode(text: str, place: Place) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise EffectFailed(f"the text for '{place.path}' holds half a character at {error.start}") from error
