"""Bytes kept outside Temporal, named by their SHA-256, or sealed and named by a keyed one: see `encryption.seal`.

Owns how blobs are stored and checked, here as files below a folder of this machine. Called by the activities and by the
client when a run starts with files. A blob never changes, so writing one again is harmless, whoever else does it
meanwhile. Must not know what the bytes mean, and must not be called from workflow code.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from llm_do_temporal.encryption.keys import HEAD_BYTES, Seal, Sealer
from llm_do_temporal.errors import BlobsUnreachable, EffectFailed
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER

CHUNK_BYTES = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Readable(Protocol):
    """Source of bytes that is read piece by piece."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""
        ...


class BlobTooLarge(EffectFailed):
    """A reader has more bytes than its caller allows."""


class BlobStore(Protocol):
    """Store of blobs. A digest is 64 lower-case hexadecimal digits."""

    def put_bytes(self, data: bytes) -> str:
        """Keep the bytes and return their digest."""
        ...

    def put_stream(self, reader: Readable, max_bytes: int) -> tuple[str, int]:
        """Keep all that `reader` gives and return its digest and its size in bytes.

        Raises BlobTooLarge past `max_bytes`; nothing is kept then.
        """
        ...

    def read(self, sha256: str) -> bytes:
        """The bytes with this digest. Raises EffectFailed when they are missing or damaged."""
        ...

    def size(self, sha256: str) -> int:
        """Return the size of the blob with this digest in bytes. Raises EffectFailed when there is none."""
        ...


@dataclass(frozen=True)
class StoredBlob:
    """A blob that is there."""

    sha256: str
    bytes: int
    put_at: float
    """Time of the last put, in seconds since 1970."""


class ManagedBlobStore(BlobStore, Protocol):
    """Store that can also list its blobs and remove them."""

    def stored(self) -> list[StoredBlob]:
        """Every blob that is there."""
        ...

    def discard(self, sha256: str, *, put_before: float) -> bool:
        """Remove the blob, unless it was put at `put_before` or later; return whether it was removed."""
        ...

    def discard_unfinished(self, *, begun_before: float) -> None:
        """Remove unfinished files of processes that died while they wrote."""
        ...


def is_digest(name: str) -> bool:
    """Whether a blob may have this name."""
    return _SHA256.fullmatch(name) is not None


def blob_path(sha256: str) -> str:
    """Return the path of a blob below the folder `sha256` of a store. Raises EffectFailed for a malformed digest."""
    if not is_digest(sha256):
        raise EffectFailed(f"'{sha256[:80]}' is not a digest; a blob is named by 64 hexadecimal digits")
    return f"{sha256[:2]}/{sha256}"


def damaged(sha256: str) -> EffectFailed:
    """The error of a blob that is not what its name says."""
    return EffectFailed(
        f"blob '{sha256}' is damaged: its bytes do not have that digest",
        next_step="Start the run again with the original file, which stores it anew.",
    )


def missing(sha256: str) -> EffectFailed:
    """The error of a blob that is not there."""
    return EffectFailed(
        f"blob '{sha256}' is not in the blob store",
        next_step="Every process of a workshop needs the same blob store; check where this one keeps it.",
    )


def chunks_of(reader: Readable, max_bytes: int) -> Iterator[bytes]:
    """All that `reader` gives, piece by piece. Raises BlobTooLarge past `max_bytes`."""
    total = 0
    while chunk := reader.read(CHUNK_BYTES):
        total += len(chunk)
        if total > max_bytes:
            raise BlobTooLarge(f"there are more than the {max_bytes} bytes that may be stored")
        yield chunk


class SealedChunks:
    """Pieces of a blob as they are stored; tells the blob's digest and size once all of them have passed."""

    def __init__(self, chunks: Iterable[bytes], sealer: Sealer) -> None:
        self._chunks = chunks
        self._sealer = sealer
        self._hasher = sealer.hasher()
        self._size = 0

    def __iter__(self) -> Iterator[bytes]:
        return self._sealer.sealed(self._passing())

    def _passing(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._hasher.update(chunk)
            self._size += len(chunk)
            yield chunk

    @property
    def passed(self) -> tuple[str, int]:
        """Digest and size in bytes of all that has passed, before it was sealed."""
        return self._hasher.hexdigest(), self._size


_INCOMING = ".incoming-"
_log = logging.getLogger(__name__)


class LocalBlobStore:
    """Blobs as files `sha256/ab/<digest>` below a folder, which is made when the first one is kept.

    Files are readable by their owner alone: a blob may be a copy of a file that others cannot read. The methods raise
    BlobsUnreachable where the disk is full, or the folder cannot be used.
    """

    def __init__(self, folder: Path, seal: Seal | None = None) -> None:
        self._folder = folder / "sha256"
        self._seal = seal or Seal()

    def put_bytes(self, data: bytes) -> str:
        """Keep the bytes and return their digest."""
        sealer = self._seal.sealer()
        hasher = sealer.hasher()
        hasher.update(data)
        sha256 = hasher.hexdigest()
        with self._reached():
            if not self._touch(sha256, len(data) + sealer.added_bytes):
                self._store([data], sealer)
        return sha256

    def put_stream(self, reader: Readable, max_bytes: int) -> tuple[str, int]:
        """Keep all that `reader` gives and return its digest and its size in bytes.

        Raises BlobTooLarge past `max_bytes`; nothing is kept then.
        """
        with self._reached():
            return self._store(_passing_on(chunks_of(reader, max_bytes)), self._seal.sealer())

    def read(self, sha256: str) -> bytes:
        """The bytes with this digest. Raises EffectFailed when they are missing or damaged, and KeyMismatch."""
        path = self._path(sha256)
        with self._reached(sha256):
            stored = path.read_bytes()
        data = self._seal.opened(sha256, stored)
        if data is None:
            raise damaged(sha256)
        return data

    def size(self, sha256: str) -> int:
        """Return the size of the blob with this digest in bytes. Raises EffectFailed when there is none."""
        with self._reached(sha256), self._path(sha256).open("rb") as file:
            return self._seal.size(file.read(HEAD_BYTES), os.fstat(file.fileno()).st_size)

    def stored(self) -> list[StoredBlob]:
        """Every blob that is there."""
        found: list[StoredBlob] = []
        for path in self._folder.glob("??/*"):
            with self._reached(), suppress(FileNotFoundError):
                if not is_digest(path.name):
                    continue
                facts = path.stat()
                found.append(StoredBlob(path.name, facts.st_size, facts.st_mtime))
        return found

    def discard(self, sha256: str, *, put_before: float) -> bool:
        """Remove the blob, unless it was put at `put_before` or later; return whether it was removed."""
        path = self._path(sha256)
        with self._reached(), suppress(FileNotFoundError), self._locked(fcntl.LOCK_EX):
            if path.stat().st_mtime < put_before:
                path.unlink()
                return True
        return False

    def discard_unfinished(self, *, begun_before: float) -> None:
        """Remove what processes that died were writing."""
        for path in self._folder.glob(f"{_INCOMING}*"):
            with self._reached(), suppress(FileNotFoundError):
                if path.stat().st_mtime < begun_before:
                    path.unlink()

    @contextmanager
    def _reached(self, sha256: str | None = None) -> Generator[None]:
        """Turn errors of the disk into ours; `sha256` is the blob that is read, None where none is."""
        try:
            yield
        except _SourceBroke as broke:
            raise broke.error from None
        except OSError as error:
            if sha256 is not None and isinstance(error, FileNotFoundError):
                raise missing(sha256) from None
            # Where the folder is would otherwise go into logs and histories.
            reason = error.strerror or type(error).__name__
            _log.warning("the blob store cannot be used: %s", reason)
            raise BlobsUnreachable(
                f"the blob store cannot be used: {reason}", next_step=f"Look at the folder '{self._folder}'."
            ) from None

    def _path(self, sha256: str) -> Path:
        return self._folder / blob_path(sha256)

    def _touch(self, sha256: str, size: int) -> bool:
        """Return whether the blob is there already; if so it counts as put now."""
        path = self._path(sha256)
        try:
            with self._locked(fcntl.LOCK_SH):
                # A file of another size was cut short by a failing disk; storing again heals it.
                if path.stat().st_size != size:
                    return False
                os.utime(path)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _locked(self, how: int) -> Generator[None]:
        """Lock the folder: LOCK_EX to remove blobs, alone; LOCK_SH to put some, beside others that put."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)

    def _store(self, chunks: Iterable[bytes], sealer: Sealer) -> tuple[str, int]:
        _make_folder(self._folder)
        temporary = self._folder / f"{_INCOMING}{secrets.token_hex(8)}"
        try:
            sealed = SealedChunks(chunks, sealer)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                for piece in sealed:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            sha256, size = sealed.passed
            path = self._path(sha256)
            path.parent.mkdir(exist_ok=True, mode=0o700)
            with self._locked(fcntl.LOCK_SH):
                temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
        return sha256, size


class _SourceBroke(Exception):
    """Reading the source of a blob has failed, and not the store."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error


def _passing_on(chunks: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from chunks
    except OSError as error:
        raise _SourceBroke(error) from error


def _make_folder(folder: Path) -> None:
    """Make the folder and those above it that are missing, each its owner's alone."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True, mode=0o700)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def blob_folder(workshop: Path) -> Path:
    """Return the folder of a workshop's blobs, unless it is configured otherwise."""
    return workshop / STATE_FOLDER / "blobs"
