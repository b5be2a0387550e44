"""Bytes kept outside Temporal, named by their SHA-256, or sealed and named by a keyed one: see `encryption.seal`.

Owns how blobs are stored and checked. Called by the activities and by the client when a run starts
with files. A blob never changes, so writing one again is harmless, whoever else does it meanwhile.
Must not know what the bytes mean, and must not be called from workflow code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from llm_do_temporal.encryption.seal import Sealer
from llm_do_temporal.errors import EffectFailed

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
