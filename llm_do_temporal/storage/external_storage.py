"""Values too big for a history: kept in the blob store, with a reference in their place.

Temporal carries 2 MiB a value. The SDK hands everything from a quarter of a MiB on to the driver here, and asks it
for it again, in every process whose client has it. Owns what a reference looks like. Must not know what the values
mean.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import (
    DataConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)
from temporalio.exceptions import ApplicationError

from llm_do_temporal.encryption.codec import EncryptionCodec
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.sizes import KEPT_FROM_BYTES, MAX_VALUE_BYTES, TOO_LARGE
from llm_do_temporal.storage.blobs import BlobStore

REFERENCE_TYPE = b"temporal.api.sdk.v1.ExternalStorageReference"
"""What the SDK marks references with."""
KEPT_OUTSIDE = "(kept in the blob store of its workshop, which is not at hand here)"
"""Stands for a value that cannot be shown."""
_MAX_STORED_BYTES = 2 * MAX_VALUE_BYTES
"""Above all that is checked before it is sent, so only the result of an activity can be refused here."""
_DIGEST = "sha256"
_LATELY_SECONDS = 5.0
"""Far less than those who remove blobs leave alone what was put."""
_PUTS = ThreadPoolExecutor(16, thread_name_prefix="put")
_GETS = ThreadPoolExecutor(16, thread_name_prefix="get")
"""A store that is down keeps those who put something waiting for minutes; nobody else must wait behind them."""
M = TypeVar("M")
T = TypeVar("T")


class BlobDriver(StorageDriver):
    """Keeps payloads in a blob store. The same payload is the same blob, however often it is stored.

    Encrypted ones are opened first: no two of them are the same. The blob store seals them again. What is
    stored a second time within a moment is not sent to it: `HeartbeatInterceptor` does that with large results.
    """

    def __init__(
        self, blobs: BlobStore, codec: EncryptionCodec | None = None, read_from: BlobStore | None = None
    ) -> None:
        """`read_from` is the same store where it is asked otherwise for what it has."""
        self._blobs = blobs
        self._codec = codec
        self._read_from = read_from or blobs
        self._lately: dict[bytes, tuple[float, StorageDriverClaim]] = {}
        """When what has this SHA-256 was stored."""
        self._guard = threading.Lock()

    def name(self) -> str:
        """See StorageDriver. References carry it, so it never changes."""
        return "llmdo-blobs"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """See StorageDriver. Raises ApplicationError for a payload that is too large to be worked on."""
        opened = payloads if self._codec is None else await self._codec.decode(payloads)
        return [await _in(_PUTS, self._put, payload) for payload in opened]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """See StorageDriver. Raises EffectFailed for a payload that is missing or damaged."""
        return [await _in(_GETS, self._get, claim) for claim in claims]

    def _put(self, payload: Payload) -> StorageDriverClaim:
        data = payload.SerializeToString(deterministic=True)
        if len(data) > _MAX_STORED_BYTES:
            raise ApplicationError(f"it has {len(data)} bytes", type=TOO_LARGE, non_retryable=True)
        name = hashlib.sha256(data).digest()
        if (claim := self._taken(name)) is None:
            claim = StorageDriverClaim({_DIGEST: self._blobs.put_bytes(data)})
            with self._guard:
                self._lately[name] = (time.monotonic(), claim)
        return claim

    def _taken(self, name: bytes) -> StorageDriverClaim | None:
        """The claim of what was stored a moment ago, once."""
        now = time.monotonic()
        with self._guard:
            self._lately = {key: one for key, one in self._lately.items() if now - one[0] < _LATELY_SECONDS}
            found = self._lately.pop(name, None)
        return None if found is None else found[1]

    def _get(self, claim: StorageDriverClaim) -> Payload:
        digest = claim.claim_data.get(_DIGEST, "")
        try:
            return Payload.FromString(self._read_from.read(digest))
        except DecodeError as error:
            raise EffectFailed(f"blob '{digest}' is no value of a history") from error


async def _in(threads: ThreadPoolExecutor, work: Callable[[M], T], one: M) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, work, one)


def keeping_big_payloads(
    converter: DataConverter, blobs: BlobStore, *, read_from: BlobStore | None = None
) -> DataConverter:
    """The converter, with a place for big payloads; one that has such a place already stays as it is.

    `read_from` is the same store where it is asked otherwise for what it has.
    """
    if converter.external_storage is not None:
        return converter
    codec = converter.payload_codec if isinstance(converter.payload_codec, EncryptionCodec) else None
    storage = ExternalStorage(drivers=[BlobDriver(blobs, codec, read_from)], payload_size_threshold=KEPT_FROM_BYTES)
    return replace(converter, external_storage=storage)


def with_big_payloads(client: Client, blobs: BlobStore, *, read_from: BlobStore | None = None) -> Client:
    """The same connection, with a place for big payloads: see `keeping_big_payloads`."""
    config = client.config()
    config["data_converter"] = keeping_big_payloads(config["data_converter"], blobs, read_from=read_from)
    return Client(**config)


def is_kept_outside(payload: Payload) -> bool:
    """Whether the payload is a reference to another one."""
    return payload.metadata.get("messageType") == REFERENCE_TYPE
