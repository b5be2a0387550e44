"""Blobs in object storage: the same as those in a folder, and what is said when the store is down."""

from __future__ import annotations

import hashlib
import io
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import obstore
import pytest

from llm_do_temporal.encryption.keys import NO_KEYS, Key, KeyRing
from llm_do_temporal.errors import BlobsUnreachable, EffectFailed, KeyMismatch
from llm_do_temporal.storage.blobs import CHUNK_BYTES, BlobTooLarge, ManagedBlobStore
from llm_do_temporal.storage.places import workshop_blobs
from tests.support.servers.object_store import ObjectStore, object_store

NOTHING = hashlib.sha256(b"never put").hexdigest()
RINGS = {"plain": NO_KEYS, "sealed": KeyRing.of(Key("k1", b"1" * 32))}


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def workshop(tmp_path: Path, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workshop that keeps its blobs in the store, below a prefix of its own."""
    for name, value in store.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LLM_DO_BLOBS_URL", f"{store.url}/{tmp_path.name}")
    (tmp_path / "workshop.yaml").write_text("name: test\n")
    return tmp_path


@pytest.fixture
def blobs(workshop: Path) -> ManagedBlobStore:
    return workshop_blobs(workshop, NO_KEYS)


def raw(store: ObjectStore, workshop: Path) -> obstore.store.ObjectStore:
    return obstore.store.from_url(f"{store.url}/{workshop.name}", client_options={"allow_http": True})


@pytest.mark.parametrize("ring", RINGS.values(), ids=RINGS)
@pytest.mark.parametrize("data", [b"", b"x", b"\x00\xff" * 1000, b"y" * (CHUNK_BYTES * 9 + 1)], ids=len)
def test_what_is_put_is_read_back_by_its_digest(workshop: Path, data: bytes, ring: KeyRing) -> None:
    blobs = workshop_blobs(workshop, ring)
    sha256 = blobs.put_bytes(data)
    assert (sha256 == hashlib.sha256(data).hexdigest()) is (ring is NO_KEYS)
    assert blobs.put_stream(io.BytesIO(data), len(data)) == (sha256, len(data))
    assert blobs.read(sha256) == data
    assert blobs.size(sha256) == len(data)
    assert [one.sha256 for one in blobs.stored()] == [sha256]


def test_sealed_blobs_need_their_key(workshop: Path, store: ObjectStore) -> None:
    sha256 = workshop_blobs(workshop, RINGS["sealed"]).put_bytes(b"a secret")
    (stored,) = [bytes(obstore.get(raw(store, workshop), f"sha256/{sha256[:2]}/{sha256}").bytes())]
    assert b"a secret" not in stored
    with pytest.raises(KeyMismatch):
        workshop_blobs(workshop, NO_KEYS).read(sha256)


def test_a_stream_past_its_limit_leaves_nothing_behind(blobs: ManagedBlobStore) -> None:
    with pytest.raises(BlobTooLarge, match="more than the 10 bytes"):
        blobs.put_stream(io.BytesIO(b"y" * 11), 10)
    assert blobs.stored() == []


def test_a_blob_that_is_not_there_is_an_error(blobs: ManagedBlobStore) -> None:
    for ask in (blobs.read, blobs.size):
        with pytest.raises(EffectFailed, match="is not in the blob store"):
            ask(NOTHING)
        with pytest.raises(EffectFailed, match="is not a digest"):
            ask("../../etc/passwd")


def test_a_damaged_blob_is_an_error_and_is_healed_by_putting_it_again(
    blobs: ManagedBlobStore, store: ObjectStore, workshop: Path
) -> None:
    sha256 = blobs.put_bytes(b"text")
    obstore.put(raw(store, workshop), f"sha256/{sha256[:2]}/{sha256}", b"texT")
    with pytest.raises(EffectFailed, match="is damaged"):
        blobs.read(sha256)
    blobs.put_bytes(b"text")
    assert blobs.read(sha256) == b"text"


def test_blobs_are_listed_and_removed_unless_they_were_put_since(
    blobs: ManagedBlobStore, store: ObjectStore, workshop: Path
) -> None:
    digests = {blobs.put_bytes(str(number).encode()) for number in range(3)}
    obstore.put(raw(store, workshop), "sha256/aa/somebody-elses", b"")
    stored = blobs.stored()
    assert {one.sha256 for one in stored} == digests
    assert {one.bytes for one in stored} == {1}
    assert not blobs.discard(stored[0].sha256, put_before=stored[0].put_at)
    assert blobs.discard(stored[0].sha256, put_before=time.time() + 60)
    assert not blobs.discard(stored[0].sha256, put_before=time.time() + 60)
    assert {one.sha256 for one in blobs.stored()} == digests - {stored[0].sha256}


def test_a_store_that_is_down_for_a_while_delays(blobs: ManagedBlobStore, store: ObjectStore) -> None:
    with ThreadPoolExecutor() as aside, store.down():
        putting = aside.submit(blobs.put_bytes, b"text")
        store.await_refused(2)
    assert blobs.read(putting.result()) == b"text"


def test_a_store_that_refuses_access_says_so_and_what_it_answers_is_not_repeated(
    workshop: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may repeat the request, with the token that is in it."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token-of-ours")
    with object_store() as other:
        monkeypatch.setenv("AWS_ENDPOINT_URL", other.endpoint)
        blobs = workshop_blobs(workshop, NO_KEYS)
        other.refuse()
        for ask in (lambda: blobs.put_bytes(b"text"), lambda: blobs.read(NOTHING), blobs.stored):
            with pytest.raises(BlobsUnreachable, match=r"^the blob store 's3://blobs/.*' refuses access$") as told:
                ask()
            assert (told.value.__cause__, told.value.next_step) == (None, "Check the credentials in this environment.")
    assert caplog.text.count("403 Forbidden") == 3
    assert "a-token-of-ours" not in caplog.text


@pytest.mark.timeout(25, func_only=True)  # the time in which the store starts does not count
def test_a_store_that_is_silent_is_given_up(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and says nothing, for which obstore itself has half a minute."""
    brief = timedelta(milliseconds=100)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(BlobsUnreachable, match="does not answer"):
            workshop_blobs(workshop, NO_KEYS, patience=brief, silence=brief).read(NOTHING)


@pytest.mark.parametrize(("how", "said"), [("refusing", "answer"), ("failing", "answer"), ("no bucket", "exist")])
def test_a_store_that_stays_away_is_an_error_that_says_so(
    workshop: Path, monkeypatch: pytest.MonkeyPatch, how: str, said: str
) -> None:
    with object_store() as other, ExitStack() as down:
        monkeypatch.setenv("AWS_ENDPOINT_URL", other.endpoint)
        if how == "no bucket":
            monkeypatch.setenv("LLM_DO_BLOBS_URL", "s3://nowhere/x")
        elif how == "refusing":
            other.stop()
        else:
            down.enter_context(other.down())
        blobs = workshop_blobs(workshop, NO_KEYS, patience=timedelta(milliseconds=1))
        with pytest.raises(BlobsUnreachable, match=rf"^the blob store 's3://\w+/.*' does not {said}$") as told:
            blobs.put_bytes(b"text")
    assert told.value.next_step
    assert told.value.exit_code == 4
