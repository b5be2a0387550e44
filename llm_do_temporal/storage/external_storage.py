"""Values too big for a history: kept in the blob store, with a reference in their place.

Temporal carries 2 MiB a value. The SDK converts a value to a payload, hands that to the codec, hands what comes of it
to the driver here if it has KEPT_FROM_BYTES or more, and asks the driver for it again, in every process whose client
has the driver. Of a big value, the codec leaves the payload open, and the blob store seals it: encrypted once, and
named by a digest of what is in it. Owns what a reference looks like. Must not know what the values mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.converter import (
    DataConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
)
from temporalio.exceptions import ApplicationError

from llm_do_temporal.encryption.codec import EncryptionCodec, is_encrypted
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.sizes import KEPT_FROM_BYTES, MAX_VALUE_BYTES, TOO_LARGE
from llm_do_temporal.storage.blobs import BlobStore

REFERENCE_TYPE = b"temporal.api.sdk.v1.ExternalStorageReference"
"""Message type by which the SDK marks references."""
KEPT_OUTSIDE = "(kept in the blob store of its workshop, which is not at hand here)"
"""Text shown in place of a value that cannot be shown."""
_MAX_STORED_BYTES = 2 * MAX_VALUE_BYTES
"""Larger than all that is checked before it is sent, so only the result of an activity can be refused here."""
_DIGEST = "sha256"
_PUTS = ThreadPoolExecutor(16, thread_name_prefix="put")
_GETS = ThreadPoolExecutor(16, thread_name_prefix="get")
"""Threads of their own for puts and gets: puts to a store that is down wait for minutes, and nothing else must wait
behind them."""
M = TypeVar("M")
T = TypeVar("T")


class BlobDriver(StorageDriver):
    """Keeps payloads in a blob store. The same payload is the same blob, however often it is stored."""

    def __init__(self, blobs: BlobStore, read_from: BlobStore | None = None) -> None:
        """`read_from` is the same store with other settings for reading; None: `blobs`."""
        self.blobs = blobs
        self._read_from = read_from or blobs

    def name(self) -> str:
        """See StorageDriver. References carry it, so it never changes."""
        return "llmdo-blobs"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """See StorageDriver. Raises ApplicationError for a payload that is too large to be worked on."""
        return [await _in(_PUTS, self._put, payload) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """See StorageDriver. Raises EffectFailed for a payload that is missing or damaged."""
        return [await _in(_GETS, self._get, claim) for claim in claims]

    def _put(self, payload: Payload) -> StorageDriverClaim:
        data = payload.SerializeToString(deterministic=True)
        if len(data) > _MAX_STORED_BYTES:
            raise ApplicationError(f"it has {len(data)} bytes", type=TOO_LARGE, non_retryable=True)
        return StorageDriverClaim({_DIGEST: self.blobs.put_bytes(data)})

    def _get(self, claim: StorageDriverClaim) -> Payload:
        digest = claim.claim_data.get(_DIGEST, "")
        try:
            return Payload.FromString(self._read_from.read(digest))
        except DecodeError as error:
            raise EffectFailed(f"blob '{digest}' is no value of a history") from error


async def _in(threads: ThreadPoolExecutor, work: Callable[[M], T], argument: M) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, work, argument)


def keeping_big_payloads(
    converter: DataConverter, blobs: BlobStore, *, read_from: BlobStore | None = None
) -> DataConverter:
    """Return the converter with `blobs` for big payloads; one that has a place for them already stays as it is.

    `blobs` seals with the keys of the converter's codec, which leaves big payloads to it. `read_from` is the same
    store with other settings for reading; None: `blobs`.
    """
    if converter.external_storage is not None:
        return converter
    driver = BlobDriver(blobs, read_from)
    codec = converter.payload_codec
    if not isinstance(codec, EncryptionCodec):
        return replace(converter, external_storage=ExternalStorage([driver], payload_size_threshold=KEPT_FROM_BYTES))

    def select(_context: StorageDriverSelectContext, payload: Payload) -> StorageDriver | None:
        # What only encryption made big stays in the history: encrypted, the same value is never the same blob.
        return None if is_encrypted(payload) else driver

    storage = ExternalStorage([driver], driver_selector=select, payload_size_threshold=KEPT_FROM_BYTES)
    return replace(converter, payload_codec=codec.without(_is_sealed_by_the_store), external_storage=storage)


def _is_sealed_by_the_store(payload: Payload) -> bool:
    """Return whether the driver takes the payload next, or has taken it: then only its digest is left, a keyed one."""
    return payload.ByteSize() >= KEPT_FROM_BYTES or is_kept_outside(payload)


def with_big_payloads(client: Client, blobs: BlobStore, *, read_from: BlobStore | None = None) -> Client:
    """Return the same connection with a place for big payloads: see `keeping_big_payloads`."""
    config = client.config()
    config["data_converter"] = keeping_big_payloads(config["data_converter"], blobs, read_from=read_from)
    return Client(**config)


def blobs_of(converter: DataConverter) -> BlobStore | None:
    """Return the blob store to which the converter leaves big payloads; None where it leaves them to no such store."""
    drivers = () if converter.external_storage is None else converter.external_storage.drivers
    return next((driver.blobs for driver in drivers if isinstance(driver, BlobDriver)), None)


async def keep_ahead(converter: DataConverter, payload: Payload) -> RawValue | None:
    """Keep a big payload before the SDK asks for it, and return the reference that the SDK takes for the value.

    Return None, for the value itself to be encoded once more, where the converter has a codec that is not ours and
    would encode the reference, or another place for big payloads that takes only larger ones. Raises like the store.
    """
    (encoded,) = await converter.encode([RawValue(payload)])
    is_ours = converter.payload_codec is None or isinstance(converter.payload_codec, EncryptionCodec)
    return RawValue(encoded) if is_ours and is_kept_outside(encoded) else None


def is_kept_outside(payload: Payload) -> bool:
    """Return whether the payload is a reference to another one."""
    return payload.metadata.get("messageType") == REFERENCE_TYPE
