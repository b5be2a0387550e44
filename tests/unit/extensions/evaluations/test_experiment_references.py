"""Experiments named by people, and their records: blobs that say everything, or that they cannot be read."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from llm_do_temporal.errors import EffectFailed, UsageError
from llm_do_temporal.extensions.evaluations.client import ExperimentListing, find_experiment, read_record
from llm_do_temporal.extensions.evaluations.messages import EvaluationMemo
from llm_do_temporal.storage.blobs import LocalBlobStore
from tests.support.extensions.evaluations.example_records import BEGAN, example_record


def listing(name: str, digest: str, age_hours: int) -> ExperimentListing:
    facts = EvaluationMemo(name=name, digest=f"1-{digest}", worker="evaluator")
    return ExperimentListing(f"eval-{name}-{digest[:12]}", "completed", BEGAN - timedelta(hours=age_hours), None, facts)


NEWEST = listing("decks", "1aaa" + "0" * 60, 1)
OTHER = listing("tones", "2bbb" + "0" * 60, 2)
OLDER = listing("decks", "1aab" + "0" * 60, 3)
ALL = [NEWEST, OTHER, OLDER]


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("decks", NEWEST),
        ("decks@0", NEWEST),
        ("decks@-1", OLDER),
        ("tones", OTHER),
        ("1aab", OLDER),
        ("2bbb0000", OTHER),
        ("1-" + OLDER.digits, OLDER),
        ("eval-decks-1aab00000000", OLDER),
    ],
)
def test_a_reference_finds_its_experiment(reference: str, found: ExperimentListing) -> None:
    assert find_experiment(ALL, reference) is found


@pytest.mark.parametrize(
    ("reference", "says", "step"),
    [
        ("decks@-2", "'decks@-2' names none of the 2 experiments of 'decks'", "the oldest 'decks@-1'"),
        ("decks@1", "names none of the 2", "The newest is 'decks'"),
        ("tones@-1", "names none of the 1 experiment of 'tones'", "The only one is 'tones'"),
        ("words@-1", "there is no experiment of 'words'", "There are experiments of: decks, tones"),
        ("1aa", "there is no experiment '1aa'", "`eval list`"),
        ("9999", "there is no experiment '9999'", "decks"),
    ],
)
def test_a_reference_that_names_none_says_what_there_is(reference: str, says: str, step: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        find_experiment(ALL, reference)
    assert caught.value.next_step is not None
    assert step in caught.value.next_step


def test_the_beginning_of_several_digests_names_them() -> None:
    twin = listing("tones", "1aaa" + "1" * 60, 4)
    with pytest.raises(UsageError, match="begins the digests of 2 experiments") as caught:
        find_experiment([*ALL, twin], "1aaa")
    assert caught.value.next_step == "Name one of: 1aaa00000000, 1aaa11111111."


def test_without_any_experiment_the_next_step_is_to_run_one() -> None:
    with pytest.raises(UsageError) as caught:
        find_experiment([], "decks")
    assert caught.value.next_step == "There are none yet: `eval FILE` runs an evaluation."


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
