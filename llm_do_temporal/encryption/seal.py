"""Sealed blobs: the stored bytes are encrypted, and the name is a digest that cannot be computed without the key.

The plain SHA-256 as a name would confirm a guess that a certain file is there. The same bytes have the same
name under the same key, so they are still kept once; under another key they are another blob.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import GCM

from llm_do_temporal.encryption.keys import NO_KEYS, Key, KeyRing, wrong_key

MAGIC = b"llm-do blob 1\n"
HEAD_BYTES = len(MAGIC) + 1 + 32
"""Bytes at the begin of a stored blob that are enough to tell the size of the blob in it."""
_NONCE_BYTES = 12
_TAG_BYTES = 16


class Hasher(Protocol):
    """Digest that gives a blob its name."""

    def update(self, data: bytes, /) -> None:
        """Take in the next bytes."""
        ...

    def hexdigest(self) -> str:
        """64 hexadecimal digits."""
        ...


@dataclass(frozen=True)
class Sealer:
    """Name and stored form of one blob; without a key the name is its SHA-256, and the form its bytes as they are."""

    key: Key | None = None

    def hasher(self) -> Hasher:
        """Return a new hasher for the name of one blob."""
        return hashlib.sha256() if self.key is None else hmac.new(self.key.for_names, digestmod="sha256")

    @property
    def added_bytes(self) -> int:
        """Bytes that the stored form has more than the blob."""
        return 0 if self.key is None else _added_bytes(self.key.id)

    def sealed(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the stored form of the bytes in these pieces."""
        if self.key is None:
            yield from chunks
            return
        nonce = os.urandom(_NONCE_BYTES)
        encryptor = Cipher(AES256(self.key.for_blobs), GCM(nonce)).encryptor()
        yield MAGIC + bytes([len(self.key.id)]) + self.key.id.encode() + nonce
        for chunk in chunks:
            yield encryptor.update(chunk)
        yield encryptor.finalize() + encryptor.tag


class Seal:
    """Keys of a store of blobs: seals new blobs with the first, opens those of all."""

    def __init__(self, ring: KeyRing = NO_KEYS) -> None:
        self._ring = ring

    def sealer(self) -> Sealer:
        """Return the sealer of one blob; ask for a new one for each, as keys change."""
        return Sealer(self._ring.first)

    def opened(self, name: str, stored: bytes) -> bytes | None:
        """Return the bytes of the blob with this name; None where they are damaged. Raises KeyMismatch.

        A blob that was stored before there were keys is read as it is.
        """
        if hmac.compare_digest(hashlib.sha256(stored).hexdigest(), name):
            return stored
        key_id = _key_id(stored)
        if key_id is None:
            return None
        start = len(MAGIC) + 1 + len(key_id)
        nonce, sealed = stored[start : start + _NONCE_BYTES], stored[start + _NONCE_BYTES :]
        for key in self._ring.find(key_id):
            with suppress(InvalidTag, ValueError):
                data = AESGCM(key.for_blobs).decrypt(nonce, sealed, None)
                found = hmac.new(key.for_names, data, "sha256").hexdigest()
                return data if hmac.compare_digest(found, name) else None
        raise wrong_key(key_id)

    @staticmethod
    def size(head: bytes, stored_bytes: int) -> int:
        """Return the size of the blob in a stored form of `stored_bytes` that begins with `head`.

        `head` are its first HEAD_BYTES, or all where there are fewer.
        """
        key_id = _key_id(head)
        return stored_bytes if key_id is None else stored_bytes - _added_bytes(key_id)


def _added_bytes(key_id: str) -> int:
    return len(MAGIC) + 1 + len(key_id) + _NONCE_BYTES + _TAG_BYTES


def _key_id(stored: bytes) -> str | None:
    """The id of the key that a blob is sealed with; None where it is not sealed."""
    if not stored.startswith(MAGIC) or len(stored) <= len(MAGIC):
        return None
    start = len(MAGIC) + 1
    return stored[start : start + stored[len(MAGIC)]].decode("ascii", "replace")
