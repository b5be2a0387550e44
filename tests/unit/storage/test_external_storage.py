"""Big values: encrypted once, under the same name each time, and never sent as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.exceptions import ApplicationError

from llm_do_temporal.encryption.codec import EncryptionCodec, encrypting, is_encrypted
from llm_do_temporal.encryption.keys import Key, KeyRing, Seal
from llm_do_temporal.messages.sizes import KEPT_FROM_BYTES
from llm_do_temporal.storage.blobs import LocalBlobStore
from llm_do_temporal.storage.external_storage import is_kept_outside, keep_ahead, keeping_big_payloads

RING = KeyRing.of(Key("k", b"k" * 32))
SECRET = "the-word-of-kelpworks"
BIG = SECRET * (KEPT_FROM_BYTES // 20)


class CountingCodec(EncryptionCodec):
    """Counts the bytes that the codec encrypts."""

    def __init__(self) -> None:
        super().__init__(RING)
        self.encrypted_bytes: list[int] = []

    def encrypted(self, payload: Payload) -> Payload:
        """See EncryptionCodec."""
        self.encrypted_bytes.append(payload.ByteSize())
        return super().encrypted(payload)


class CountingStore(LocalBlobStore):
    """Counts the bytes that it is to seal."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Seal(RING))
        self.put: list[int] = []

    def put_bytes(self, data: bytes) -> str:
        """See BlobStore."""
        self.put.append(len(data))
        return super().put_bytes(data)


def with_codec(codec: PayloadCodec | None, store: LocalBlobStore) -> DataConverter:
    return keeping_big_payloads(replace(encrypting(pydantic_data_converter, RING), payload_codec=codec), store)


def plain(value: Any) -> Payload:
    return pydantic_data_converter.payload_converter.to_payloads([value])[0]


def seen_by_others(folder: Path, sent: bytes) -> bytes:
    return sent + b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("values", [[BIG], [BIG, "small", BIG + "!"]])
async def test_a_big_value_is_encrypted_once_by_the_store(tmp_path: Path, values: list[str]) -> None:
    converter = with_codec(codec := CountingCodec(), store := CountingStore(tmp_path))
    payloads = await converter.encode(values)
    assert codec.encrypted_bytes == [plain(value).ByteSize() for value in values if value == "small"]
    assert store.put == [plain(value).ByteSize() for value in values if value != "small"]
    assert [is_kept_outside(payload) for payload in payloads] == [value != "small" for value in values]
    assert await converter.decode(payloads) == values


async def test_the_same_value_is_the_same_blob(tmp_path: Path) -> None:
    converter = with_codec(EncryptionCodec(RING), store := LocalBlobStore(tmp_path, Seal(RING)))
    assert await converter.encode([BIG]) == await converter.encode([BIG])
    assert len(store.stored()) == 1


@pytest.mark.parametrize("more", range(-90, 10, 5))
async def test_no_value_around_the_bound_leaves_as_it_is(tmp_path: Path, more: int) -> None:
    """Whatever the driver does not take is encrypted: the two must agree on the size to the byte."""
    value = SECRET + "x" * (KEPT_FROM_BYTES - len(SECRET) + more)
    converter = with_codec(EncryptionCodec(RING), LocalBlobStore(tmp_path, Seal(RING)))
    (payload,) = await converter.encode([value])
    assert is_encrypted(payload) != is_kept_outside(payload)
    assert is_kept_outside(payload) == (plain(value).ByteSize() >= KEPT_FROM_BYTES)
    assert SECRET.encode() not in seen_by_others(tmp_path, payload.SerializeToString())
    assert await converter.decode([payload]) == [value]


async def test_a_failure_with_big_details_tells_nothing(tmp_path: Path) -> None:
    """Its message, its stack and its details take another way through the SDK than values do."""
    converter = with_codec(EncryptionCodec(RING), LocalBlobStore(tmp_path, Seal(RING)))
    await converter.encode_failure(ApplicationError(BIG, BIG, "small"), failure := Failure())
    assert SECRET.encode() not in seen_by_others(tmp_path, failure.SerializeToString())
    error = await converter.decode_failure(failure)
    assert isinstance(error, ApplicationError)
    assert (error.message, list(error.details)) == (BIG, [BIG, "small"])


async def test_what_is_kept_ahead_is_not_encrypted_or_put_again(tmp_path: Path) -> None:
    converter = with_codec(codec := CountingCodec(), store := CountingStore(tmp_path))
    reference = await keep_ahead(converter, plain(BIG))
    assert reference is not None
    assert await converter.encode([reference]) == [reference.payload]
    assert await converter.decode([reference.payload]) == [BIG]
    assert (codec.encrypted_bytes, len(store.put)) == ([], 1)


async def test_values_of_before_are_read(tmp_path: Path) -> None:
    """Also a blob that holds a payload as the codec encrypted it."""
    store = LocalBlobStore(tmp_path, Seal(RING))
    converter = with_codec(EncryptionCodec(RING), store)
    (payload,) = await converter.encode([BIG])
    (sealed,) = await EncryptionCodec(RING).encode([plain(BIG)])
    digest = store.put_bytes(plain(BIG).SerializeToString(deterministic=True))
    assert digest.encode() in payload.data
    payload.data = payload.data.replace(digest.encode(), store.put_bytes(sealed.SerializeToString()).encode())
    assert await converter.decode([payload, *await EncryptionCodec(RING).encode([plain(BIG)])]) == [BIG, BIG]


class Reversing(PayloadCodec):
    """Somebody else's codec."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See PayloadCodec."""
        return [Payload(metadata={"encoding": b"reversed"}, data=one.SerializeToString()[::-1]) for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See PayloadCodec."""
        return [Payload.FromString(payload.data[::-1]) for payload in payloads]


async def test_with_another_codec_the_value_itself_is_encoded(tmp_path: Path) -> None:
    """That codec would encode a reference, too, and nobody would know it again."""
    converter = with_codec(Reversing(), CountingStore(tmp_path))
    assert await keep_ahead(converter, plain(BIG)) is None
    assert await converter.decode(await converter.encode([BIG])) == [BIG]


async def test_a_small_value_is_not_kept_ahead(tmp_path: Path) -> None:
    converter = with_codec(CountingCodec(), store := CountingStore(tmp_path))
    assert await keep_ahead(converter, plain("small")) is None
    assert store.put == []
