"""Records of experiments: blobs that say everything, or that they cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.client.evaluations.records import read_record
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.storage.blobs import LocalBlobStore
from tests.unit.client.evaluations.example_records import example_record


def test_a_record_is_read_as_it_was_kept(tmp_path: Path) -> None:
    blobs, record = LocalBlobStore(tmp_path), example_record(errors=("deck-3",))
    assert read_record(blobs, blobs.put_bytes(record.model_dump_json().encode())) == record


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 1}'])
def test_other_blobs_are_no_record(tmp_path: Path, content: bytes) -> None:
    blobs = LocalBlobStore(tmp_path)
    with pytest.raises(EffectFailed, match="is no record of an experiment that this version reads"):
        read_record(blobs, blobs.put_bytes(content))


def test_a_record_of_a_later_version_is_refused(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path)
    later = example_record().model_copy(update={"version": 2}).model_dump_json().encode()
    with pytest.raises(EffectFailed, match="that this version reads"):
        read_record(blobs, blobs.put_bytes(later))
