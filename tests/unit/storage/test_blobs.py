"""Blobs as files below a folder, open and sealed; and big values, which are kept there."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import threading
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
from llm_do_temporal.errors import BlobsUnreachable, EffectFailed, KeyMismatch
from llm_do_temporal.messages.sizes import KEPT_FROM_BYTES
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.storage.blobs import CHUNK_BYTES, BlobStore, BlobTooLarge, LocalBlobStore, blob_folder
from llm_do_temporal.storage.external_storage import is_kept_outside, keep_ahead, keeping_big_payloads

DATA = b"text"
DIGEST = hashlib.sha256(DATA).hexdigest()
EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return LocalBlobStore(tmp_path / "blobs")


def kept(tmp_path: Path) -> list[str]:
    """Every file below the store's folder."""
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("data", [b"", b"x", b"\x00\xff" * 1000, b"y" * (CHUNK_BYTES * 2 + 1)])
def test_what_is_put_is_read_back_by_its_digest(blobs: BlobStore, data: bytes) -> None:
    sha256 = blobs.put_bytes(data)
    assert sha256 == hashlib.sha256(data).hexdigest()
    assert blobs.size(sha256) == len(blobs.read(sha256))
    assert blobs.read(sha256) == data
    assert blobs.put_stream(io.BytesIO(data), len(data)) == (sha256, len(data))


def test_blobs_are_files_named_by_their_digest(tmp_path: Path) -> None:
    sha256 = LocalBlobStore(tmp_path).put_bytes(b"text")
    assert kept(tmp_path) == [f"sha256/{sha256[:2]}/{sha256}"]
    assert (tmp_path / "sha256" / sha256[:2] / sha256).stat().st_mode & 0o077 == 0


def test_a_workshops_blobs_lie_in_its_state_folder(tmp_path: Path) -> None:
    assert blob_folder(tmp_path).is_relative_to(tmp_path / STATE_FOLDER)


def test_putting_the_same_again_keeps_one_file(blobs: BlobStore, tmp_path: Path) -> None:
    assert blobs.put_bytes(b"text") == blobs.put_bytes(b"text") == blobs.put_stream(io.BytesIO(b"text"), 9)[0]
    assert len(kept(tmp_path)) == 1


@pytest.mark.parametrize(
    "sha256",
    ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "../" * 21 + "x", "/etc/passwd", "0" * 63 + "\n", "0" * 64 + "\n"],
)
def test_what_is_no_digest_never_becomes_a_path(blobs: BlobStore, sha256: str) -> None:
    for call in (blobs.read, blobs.size):
        with pytest.raises(EffectFailed, match="is not a digest"):
            call(sha256)


def test_a_missing_blob_is_an_error_that_names_it(blobs: BlobStore) -> None:
    with pytest.raises(EffectFailed, match="is not in the blob store"):
        blobs.size(EMPTY)
    with pytest.raises(EffectFailed, match=f"blob '{EMPTY}' is not in the blob store"):
        blobs.read(EMPTY)


@pytest.mark.parametrize("damage", [b"", b"tex", b"texT", b"text and more"])
def test_a_damaged_blob_is_an_error(blobs: BlobStore, tmp_path: Path, damage: bytes) -> None:
    sha256 = blobs.put_bytes(b"text")
    (tmp_path / kept(tmp_path)[0]).write_bytes(damage)
    with pytest.raises(EffectFailed, match=f"blob '{sha256}' is damaged"):
        blobs.read(sha256)


@pytest.mark.parametrize("damage", [b"", b"tex", b"text and more"])
def test_a_blob_that_was_cut_short_is_healed_by_putting_it_again(
    blobs: BlobStore, tmp_path: Path, damage: bytes
) -> None:
    sha256 = blobs.put_bytes(b"text")
    (tmp_path / kept(tmp_path)[0]).write_bytes(damage)
    blobs.put_bytes(b"text")
    assert blobs.read(sha256) == b"text"


@pytest.mark.parametrize(
    ("size", "limit"), [(1, 0), (11, 10), (CHUNK_BYTES + 1, CHUNK_BYTES), (CHUNK_BYTES * 3, CHUNK_BYTES * 2)]
)
def test_a_stream_past_its_limit_leaves_nothing_behind(blobs: BlobStore, tmp_path: Path, size: int, limit: int) -> None:
    with pytest.raises(BlobTooLarge, match=f"more than the {limit} bytes"):
        blobs.put_stream(io.BytesIO(b"y" * size), limit)
    assert kept(tmp_path) == []


def test_a_stream_of_exactly_its_limit_is_kept(blobs: BlobStore) -> None:
    assert blobs.put_stream(io.BytesIO(b"y" * 10), 10)[1] == 10
    assert blobs.put_stream(io.BytesIO(b""), 0) == (EMPTY, 0)


def test_an_endless_stream_is_not_read_to_its_end(blobs: BlobStore) -> None:
    class Endless:
        def __init__(self) -> None:
            self.given = 0

        def read(self, size: int, /) -> bytes:
            self.given += size
            return b"y" * size

    endless = Endless()
    with pytest.raises(BlobTooLarge):
        blobs.put_stream(endless, 10)
    assert endless.given == CHUNK_BYTES


def test_a_reader_that_breaks_leaves_nothing_behind(blobs: BlobStore, tmp_path: Path) -> None:
    class Breaking:
        def __init__(self) -> None:
            self.pieces = [b"some", b"more"]

        def read(self, size: int, /) -> bytes:
            if not self.pieces:
                raise OSError("the disk is gone")
            return self.pieces.pop()

    with pytest.raises(OSError, match="the disk is gone"):
        blobs.put_stream(Breaking(), 100)
    assert kept(tmp_path) == []


@pytest.mark.parametrize("in_the_way", ["blobs", "blobs/sha256", f"blobs/sha256/{DIGEST[:2]}"])
def test_a_folder_that_cannot_be_used_is_an_error_that_passes_and_does_not_name_it(
    blobs: LocalBlobStore, tmp_path: Path, in_the_way: str
) -> None:
    """The text may go into a history; who runs the service is told the folder beside it."""
    file = tmp_path / in_the_way
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("in the way")
    for ask in (
        lambda: blobs.put_bytes(DATA),
        lambda: blobs.put_stream(io.BytesIO(DATA), 100),
        lambda: blobs.read(DIGEST),
    ):
        with pytest.raises(
            BlobsUnreachable, match=r"^the blob store cannot be used: (Not a directory|File exists)$"
        ) as told:
            ask()
        assert str(tmp_path) in str(told.value.next_step)
    file.unlink()
    assert blobs.read(blobs.put_bytes(DATA)) == DATA
    assert kept(tmp_path) == [f"blobs/sha256/{DIGEST[:2]}/{DIGEST}"]


def test_a_blob_is_not_there_before_it_is_whole(blobs: BlobStore) -> None:
    data = b"first" + b"second"
    sha256 = hashlib.sha256(data).hexdigest()

    class Watching:
        def __init__(self) -> None:
            self.pieces = [b"second", b"first"]

        def read(self, size: int, /) -> bytes:
            with pytest.raises(EffectFailed, match="is not in the blob store"):
                blobs.size(sha256)
            return self.pieces.pop() if self.pieces else b""

    assert blobs.put_stream(Watching(), 100) == (sha256, len(data))
    assert blobs.size(sha256) == len(blobs.read(sha256))


def test_writers_of_the_same_content_do_not_disturb_each_other(blobs: BlobStore, tmp_path: Path) -> None:
    data = b"z" * (CHUNK_BYTES + 1)
    start, found = threading.Barrier(8), set[str]()

    def put() -> None:
        start.wait()
        for _ in range(5):
            found.add(blobs.put_stream(io.BytesIO(data), len(data))[0])
            found.add(blobs.put_bytes(data))
            assert blobs.read(next(iter(found))) == data

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(kept(tmp_path)) == 1


def test_several_processes_share_a_store(tmp_path: Path) -> None:
    spawning = multiprocessing.get_context("spawn")
    with spawning.Pool(3) as pool:
        digests = pool.map(LocalBlobStore(tmp_path).put_bytes, [b"a", b"b", b"a", b"b", b"a", b"b"])
    assert {LocalBlobStore(tmp_path).read(sha256) for sha256 in digests} == {b"a", b"b"}
    assert len(kept(tmp_path)) == 2


OLD, NEW = Key("old", b"o" * 32), Key("new", b"n" * 32)
DECK = b"%PDF the deck of Kelpworks" * 200_000


def store(folder: Path, *keys: Key) -> LocalBlobStore:
    return LocalBlobStore(folder, Seal(KeyRing.of(*keys)))


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("data", [b"", b"x", b"y" * 47, DECK])
def test_what_is_put_is_read_back(tmp_path: Path, data: bytes) -> None:
    blobs = store(tmp_path, NEW)
    name = blobs.put_bytes(data)
    assert blobs.put_stream(io.BytesIO(data), len(data)) == (name, len(data))
    assert (blobs.read(name), blobs.size(name)) == (data, len(data))
    assert len(files(tmp_path)) == 1


def test_neither_file_nor_name_tells_what_is_in_it(tmp_path: Path) -> None:
    name = store(tmp_path, NEW).put_bytes(DECK)
    (file,) = files(tmp_path)
    assert b"Kelpworks" not in file.read_bytes()
    assert name != hashlib.sha256(DECK).hexdigest()
    assert name != store(tmp_path, OLD).put_bytes(DECK)


def test_putting_the_same_again_changes_nothing_on_the_disk(tmp_path: Path) -> None:
    blobs = store(tmp_path, NEW)
    blobs.put_bytes(DECK)
    (file,) = files(tmp_path)
    before = file.read_bytes()
    blobs.put_bytes(DECK)
    assert file.read_bytes() == before


def test_blobs_of_an_older_key_and_of_no_key_are_still_read(tmp_path: Path) -> None:
    names = [
        store(tmp_path).put_bytes(DECK),
        store(tmp_path, OLD).put_bytes(DECK),
        store(tmp_path, NEW).put_bytes(DECK),
    ]
    assert len(set(names)) == 3
    blobs = store(tmp_path, NEW, OLD)
    assert [blobs.read(name) for name in names] == [DECK] * 3
    assert [blobs.size(name) for name in names] == [len(DECK)] * 3


def test_without_the_key_a_blob_is_an_error_that_names_it(tmp_path: Path) -> None:
    name = store(tmp_path, NEW).put_bytes(b"text")
    for keys, says in (
        ((), "'new', which this process does not have"),
        ((OLD,), "'new', which"),
        ((Key("new", b"x" * 32),), "not the key"),
    ):
        with pytest.raises(KeyMismatch, match=says):
            store(tmp_path, *keys).read(name)


def test_blobs_of_a_mistaken_key_of_the_same_id_are_read_where_both_are_there(tmp_path: Path) -> None:
    mistaken = Key("new", b"x" * 32)
    names = [store(tmp_path, key).put_bytes(b"text") for key in (NEW, mistaken)]
    blobs = store(tmp_path, NEW, mistaken)
    assert [blobs.read(name) for name in names] == [b"text", b"text"]
    assert blobs.put_bytes(b"text") == names[0]


def test_a_blob_under_the_name_of_another_is_damaged(tmp_path: Path) -> None:
    blobs = store(tmp_path, NEW)
    one, other = blobs.put_bytes(b"one"), blobs.put_bytes(b"other")
    path = {file.name: file for file in files(tmp_path)}
    path[one].write_bytes(path[other].read_bytes())
    with pytest.raises(EffectFailed, match="is damaged"):
        blobs.read(one)


def test_a_plain_blob_may_begin_like_a_sealed_one(tmp_path: Path) -> None:
    store(tmp_path, NEW).put_bytes(b"text")
    sealed = files(tmp_path)[0].read_bytes()
    name = store(tmp_path).put_bytes(sealed)
    assert store(tmp_path, NEW).read(name) == sealed


async def test_big_values_are_sealed_once_and_kept_once(tmp_path: Path) -> None:
    blobs = store(tmp_path, NEW)
    converter = keeping_big_payloads(encrypting(pydantic_data_converter, KeyRing.of(NEW)), blobs)
    value = {"said": DECK.decode()}
    (first,), (again,) = await converter.encode([value]), await converter.encode([value])
    assert first.data == again.data
    (file,) = files(tmp_path)
    assert b"Kelpworks" not in file.read_bytes() + first.data
    # What removes blobs looks for the names of others in what is kept.
    assert b"Kelpworks" in blobs.read(file.name)
    assert await converter.decode([first]) == [value]


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
