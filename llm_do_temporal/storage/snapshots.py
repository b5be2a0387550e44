"""Copying files into the blob store as they are at one moment.

Owns the copying and the guess of a media type. Called by the attachment activity for files of a tree,
and by the command line for files that a person attaches. Light to import: no Temporal, no Pydantic AI.
Must not decide which files a worker accepts.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import BinaryIO

from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.files.attachments import Attachment, kind_of, real_type
from llm_do_temporal.storage.blobs import BlobStore, BlobTooLarge, Readable

SNIFFED_BYTES = 64 * 1024
"""Bytes at the begin of a file from which its media type is guessed."""

_BY_CONTENT: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
# Not the mimetypes module: its answers depend on the machine.
_BY_SUFFIX: dict[str, str] = {
    ".bmp": "image/bmp",
    ".css": "text/css",
    ".csv": "text/csv",
    ".doc": "application/msword",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".epub": "application/epub+zip",
    ".gif": "image/gif",
    ".gz": "application/gzip",
    ".heic": "image/heic",
    ".htm": "text/html",
    ".html": "text/html",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".js": "text/javascript",
    ".json": "application/json",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".mov": "video/quicktime",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ogg": "audio/ogg",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".ppt": "application/vnd.ms-powerpoint",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".rtf": "application/rtf",
    ".svg": "image/svg+xml",
    ".tar": "application/x-tar",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".tsv": "text/tab-separated-values",
    ".txt": "text/plain",
    ".wav": "audio/wav",
    ".webm": "video/webm",
    ".webp": "image/webp",
    ".xls": "application/vnd.ms-excel",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".zip": "application/zip",
}


_SUFFIX_OF: dict[str, str] = {
    **{media_type: suffix for suffix, media_type in _BY_SUFFIX.items()},
    "audio/mp3": ".mp3",
    "audio/vnd.wave": ".wav",
    "audio/x-wav": ".wav",
    "image/jpg": ".jpg",
}
"""Suffixes of media types, in the other spellings in which they are sent, too."""


Look = Callable[[Attachment, bytes], None]
"""Takes an attachment and all of its bytes, as they are stored."""


class UnreadableFile(OSError):
    """A file that is open, and whose bytes cannot be read."""


class _Watched:
    """Reader that remembers the beginning of the stored bytes, as the file may be another one by now.

    It tells what is wrong with the file from what is wrong with the store: it raises UnreadableFile.
    """

    def __init__(self, reader: Readable, most: int) -> None:
        self._reader = reader
        self._most = most
        self.seen = bytearray()

    def read(self, size: int, /) -> bytes:
        try:
            data = bytes_of(self._reader.read(size))
        except OSError as error:
            raise UnreadableFile(error.errno, error.strerror) from error
        self.seen += data[: self._most - len(self.seen)]
        return data


def bytes_of(read: bytes | None) -> bytes:
    """Return what a read has given. Raises BlockingIOError where it gave nothing, and it is not the end of the file."""
    if read is None:
        raise BlockingIOError(errno.EAGAIN, "it has no bytes to read now")
    return read


def named_type(name: str) -> str | None:
    """Return the media type that a file's suffix says; None where it says none."""
    return _BY_SUFFIX.get(PurePath(name).suffix.lower())


def guess_media_type(name: str, head: bytes) -> str:
    """The media type of a file called `name` that begins with `head`: content, else suffix, else text or bytes.

    A file that is called a text, and begins as only others do, is what it begins as.
    """
    for magic, media_type in _BY_CONTENT:
        if head.startswith(magic):
            return media_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    by_suffix = named_type(name)
    if by_suffix is not None:
        return real_type(head, by_suffix) if kind_of(by_suffix) == "text" else by_suffix
    return "text/plain" if _is_text(head[:SNIFFED_BYTES]) else "application/octet-stream"


def suffix_of(media_type: str) -> str:
    """Return the suffix of files of a media type, whatever its parameters; empty where none is known."""
    return _SUFFIX_OF.get(media_type.partition(";")[0].strip().lower(), "")


def copy_into(blobs: BlobStore, reader: Readable, *, path: str, max_bytes: int, look: Look | None = None) -> Attachment:
    """Store all that `reader` gives, as the attachment called `path`.

    Raises BlobTooLarge past `max_bytes`, and UnreadableFile.
    """
    watched = _Watched(reader, SNIFFED_BYTES if look is None else max(SNIFFED_BYTES, max_bytes))
    sha256, size = blobs.put_stream(watched, max_bytes)
    media_type = guess_media_type(path, bytes(watched.seen[:SNIFFED_BYTES]))
    attachment = Attachment(path=path, sha256=sha256, bytes=size, media_type=media_type)
    if look is not None:
        look(attachment, bytes(watched.seen))
    return attachment


def snapshot_host_files(
    paths: Sequence[Path],
    blobs: BlobStore,
    max_total_bytes: int,
    *,
    were_sent: bool = False,
    look: Look | None = None,
) -> tuple[Attachment, ...]:
    """Copy files of the person who starts a run; an attachment goes by its file's name. Each file is read once.

    Raises UsageError, with the path as it was typed, for one that is missing, empty, unreadable or not a file, and
    where all together have more than `max_total_bytes`. Files that `were_sent` lie where their sender has no business
    to know: an error has their names alone.
    """
    attachments: list[Attachment] = []
    left = max_total_bytes
    for path in paths:
        shown = path.name if were_sent else str(path)
        try:
            with _open_host_file(path, shown) as file:
                if os.fstat(file.fileno()).st_size > left:
                    raise BlobTooLarge(f"more than {left} bytes")
                attachment = copy_into(blobs, file, path=path.name, max_bytes=left, look=look)
        except BlobTooLarge as error:
            raise UsageError(
                f"the file '{shown}' is too large to attach: all files together may have {max_total_bytes} bytes",
                next_step="Attach fewer or smaller files.",
            ) from error
        except UnreadableFile as error:
            raise UsageError(f"the file '{shown}' cannot be read: {error.strerror}") from error
        if attachment.bytes == 0:
            raise UsageError(f"the file '{shown}' is empty; attach one with content")
        left -= attachment.bytes
        attachments.append(attachment)
    return tuple(attachments)


def _open_host_file(path: Path, shown: str) -> BinaryIO:
    try:
        # Without O_NONBLOCK, opening a fifo waits for somebody to write to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UsageError(f"there is no file '{shown}'; check its path") from None
    except OSError as error:
        raise UsageError(f"the file '{shown}' cannot be opened: {error.strerror}") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise UsageError(f"'{shown}' is {what}; only files can be attached")
    return os.fdopen(descriptor, "rb")


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The last character may have been cut in two.
        return len(head) == SNIFFED_BYTES and error.reason == "unexpected end of data"
    return True
