"""Keys: their sources, and the search for one by its id.

The one place that reads `LLM_DO_ENCRYPTION`, `LLM_DO_ENCRYPTION_KEYS` and `LLM_DO_ENCRYPTION_KEY_FILE`. A key never
appears in an error, a log or a `repr`; its id does.

Sealed blobs: the stored bytes are encrypted, and the name is a digest that cannot be computed without the key. A
plain SHA-256 would confirm a guess that a certain file is there. The same bytes have the same name under the same
key, so they are still kept once; under another key they are another blob.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import GCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from llm_do_temporal.environment import KEY_FILE_VARIABLE, check_spelling
from llm_do_temporal.errors import KeyMismatch, UsageError

KEYS_VARIABLE = "LLM_DO_ENCRYPTION_KEYS"
"""Keys as `id:base64`, separated by spaces, commas or new lines. The first encrypts, all decrypt."""
ENCRYPTION_VARIABLE = "LLM_DO_ENCRYPTION"
"""`required`: a process without a key does nothing. Empty: a process without a key encrypts nothing."""
KEY_BYTES = 32
_ID = re.compile(r"[A-Za-z0-9._-]{1,32}")
_MAKE_ONE = 'Make a key with: echo "2026-11:$(openssl rand -base64 32)"'
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Key:
    """Key with an id. Each purpose has a key of its own that is derived from it."""

    id: str
    secret: bytes = field(repr=False)

    @cached_property
    def for_payloads(self) -> bytes:
        """Key that encrypts payloads."""
        return self._derived(b"payloads")

    @cached_property
    def for_blobs(self) -> bytes:
        """Key that encrypts blobs."""
        return self._derived(b"blobs")

    @cached_property
    def for_names(self) -> bytes:
        """Key of the digests that blobs are named by."""
        return self._derived(b"blob names")

    @cached_property
    def fingerprint(self) -> str:
        """Eight digits that differ for another key with the same id, and tell nothing of the key."""
        return self._derived(b"fingerprint")[:4].hex()

    def _derived(self, purpose: bytes) -> bytes:
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"llm-do-temporal 1 " + purpose).derive(self.secret)


class KeyRing:
    """Keys by their ids. The first encrypts, all decrypt; without any nothing is encrypted."""

    def __init__(self, read: Callable[[], tuple[Key, ...]]) -> None:
        """`read` is asked each time for the keys there are now."""
        self._read = read

    @classmethod
    def of(cls, *keys: Key) -> KeyRing:
        """A ring with these keys."""
        return cls(partial(tuple, keys))

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys there are now."""
        return self._read()

    @property
    def first(self) -> Key | None:
        """The key that encrypts; None: nothing is encrypted."""
        return next(iter(self.keys), None)

    def find(self, key_id: str) -> tuple[Key, ...]:
        """The keys with this id, at least one; any of them may be the one. Raises KeyMismatch."""
        if found := tuple(key for key in self.keys if key.id == key_id):
            return found
        known = ", ".join(f"'{key.id}'" for key in self.keys) or "none"
        shown = shown_id(key_id)
        raise KeyMismatch(
            f"this is encrypted with the key '{shown}', which this process does not have (it has: {known})",
            key=shown,
            next_step=f"Add the key to {KEYS_VARIABLE}, or to the file that {KEY_FILE_VARIABLE} names.",
        )


NO_KEYS = KeyRing.of()
"""Encrypts nothing."""


def wrong_key(key_id: str) -> KeyMismatch:
    """Return the error of a value that the key with its id does not open."""
    shown = shown_id(key_id)
    return KeyMismatch(
        f"this is encrypted with a key '{shown}' that is not the key this process has under that name, "
        "or it was changed since",
        key=shown,
        next_step=f"Give this process the same key '{shown}' as the others have. "
        "Where one of those had another by mistake, add that one behind it, with the same id.",
    )


def shown_id(key_id: str) -> str:
    """An id as it may stand in a message: it may come from anybody who can write to the server."""
    return key_id if _ID.fullmatch(key_id) else ascii(key_id[:32])[1:-1] or "(unnamed)"


def key_ring(environment: Mapping[str, str] = os.environ) -> KeyRing:
    """The keys that the environment names; none where it names none.

    Raises UsageError, without repeating a key, also for none where `LLM_DO_ENCRYPTION` requires one and for a variable
    whose name is nearly one of ours.
    """
    check_spelling(environment)
    value = environment.get(ENCRYPTION_VARIABLE, "").strip()
    if value not in ("", "required"):
        # What stands there may be a key.
        raise UsageError(
            f"{ENCRYPTION_VARIABLE} can be 'required' or empty, and is something else",
            next_step=f"Keys belong into {KEYS_VARIABLE}.",
        )
    required = value == "required"
    given, file = environment.get(KEYS_VARIABLE, ""), environment.get(KEY_FILE_VARIABLE, "")
    if given.strip() and file:
        raise UsageError(f"{KEYS_VARIABLE} and {KEY_FILE_VARIABLE} are both set; keep one of them")
    if file:
        return KeyRing(_KeyFile(Path(file)))
    if given.strip():
        return KeyRing.of(*read_keys(given, KEYS_VARIABLE))
    if required:
        raise UsageError(
            f"{ENCRYPTION_VARIABLE} is 'required', and there is no key: {KEYS_VARIABLE} and {KEY_FILE_VARIABLE} are "
            "empty or not set",
            next_step=f"Set one of the two. {_MAKE_ONE}",
        )
    return NO_KEYS


def read_keys(text: str, source: str) -> tuple[Key, ...]:
    """The keys in a text, at least one; `#` begins a comment. Raises UsageError, which names `source`."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    entries = [entry for line in lines for entry in re.split(r"[\s,]+", line) if entry]
    keys = tuple(_read_key(entry, number, source) for number, entry in enumerate(entries, 1))
    if not keys:
        raise UsageError(f"{source} holds no key", next_step=_MAKE_ONE)
    twice = {key.id for key in keys if keys.count(key) > 1}
    if twice:
        raise UsageError(f"{source}: the key '{min(twice)}' stands there twice")
    return keys


def _read_key(entry: str, number: int, source: str) -> Key:
    key_id, colon, encoded = entry.partition(":")
    if not colon or not _ID.fullmatch(key_id):
        raise UsageError(
            f"{source}: entry {number} is not `id:key`; an id has 1 to 32 letters, digits and signs of `._-`",
            next_step=_MAKE_ONE,
        )
    try:
        secret = base64.b64decode(encoded.translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise UsageError(f"{source}: the key '{key_id}' is not {KEY_BYTES} bytes in base64", next_step=_MAKE_ONE)
    return Key(key_id, secret)


class _KeyFile:
    """The keys of a file as it is now; while what stands there cannot be read, the keys that stood there before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warned = ""
        self._seen = self._version()
        self._keys = self._load()

    def __call__(self) -> tuple[Key, ...]:
        try:
            version = self._version()
            if version != self._seen:
                self._keys = self._load()
                self._seen = version
                told = ", ".join(f"'{key.id}' (fingerprint {key.fingerprint})" for key in self._keys)
                _log.info("encryption keys read again: %s", told)
            self._warned = ""
        except UsageError as error:
            # It is read for every value.
            if self._warned != str(error):
                _log.warning("the encryption keys stay as they were: %s", error)
            self._warned = str(error)
        return self._keys

    def _version(self) -> tuple[int, ...]:
        try:
            facts = self._path.stat()
        except OSError as error:
            raise self._unreadable(os.strerror(error.errno or 0)) from error
        return facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size

    def _load(self) -> tuple[Key, ...]:
        try:
            text = self._path.read_text(encoding="utf-8")
        except OSError as error:
            raise self._unreadable(os.strerror(error.errno or 0)) from error
        except UnicodeDecodeError as error:
            raise self._unreadable("it is not text") from error
        return read_keys(text, str(self._path))

    def _unreadable(self, reason: str) -> UsageError:
        return UsageError(f"the key file '{self._path}' cannot be read: {reason}")


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
