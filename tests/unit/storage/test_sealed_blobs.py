"""Blobs whose files and names tell nothing to who has no key."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter

from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import Key, KeyRing
from llm_do_temporal.encryption.seal import Seal
from llm_do_temporal.errors import EffectFailed, KeyMismatch
from llm_do_temporal.storage.external_storage import keeping_big_payloads
from llm_do_temporal.storage.local import LocalBlobStore

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
