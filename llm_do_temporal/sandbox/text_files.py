"""Text files of a workshop: read, changed, or previewed as they would be changed.

Owns the work of the file tools once policy has let them. Called by the file activities, and by the page for a preview.
Judges again, on the real file, all that could have changed since: the place that the path leads to, the size, the
suffix, read-only. All of it may be done twice: reading is harmless, and writing the same again changes nothing.
"""

from __future__ import annotations

from pathlib import Path

from llm_do_temporal.definitions.protection import protection_of
from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.messages.activities import EditFileInput, FileChange, FileText, ReadFileInput, WriteFileInput
from llm_do_temporal.messages.sizes import MAX_READ_CHARS
from llm_do_temporal.policy.files.encodings import decoded, encoding_of, is_replaced, replaced, wrong_place
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.files.sandbox import Place, check_readable, check_size, check_writable
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.sandbox.changes import (
    OldFile,
    SandboxFiles,
    Spot,
    WorkshopFiles,
    check_as_shown,
    diff_of,
    see_open,
    seen_old,
)

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
