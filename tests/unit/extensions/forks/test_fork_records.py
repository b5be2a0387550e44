"""Records of other runs that forks reuse."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from temporalio.converter import DefaultPayloadConverter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ExecuteActivityInput

from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.extensions.forks.activities import ForkRecords, RecordedReads, ReuseActivities, chosen
from llm_do_temporal.extensions.forks.messages import (
    HEADER,
    INDEX_VERSION,
    ForkIndex,
    ForkSource,
    RecordedCall,
    RecordedEffect,
    RecordedRead,
    RecordedTurn,
    ReuseCallInput,
    ReusedCall,
)
from llm_do_temporal.messages.activities import READ_FILE, ReadFileInput
from llm_do_temporal.messages.approvals import ScriptedAnswer
from llm_do_temporal.messages.runs import item_of
from llm_do_temporal.policy.files.sandbox import Mount
from llm_do_temporal.storage.blobs import LocalBlobStore
from llm_do_temporal.storage.places import workshop_blobs

FORK = ForkSource(run="run", index="0" * 64)
IN_PLACE = FORK.model_copy(update={"in_place": True, "then": False})


def turns(*paths: str) -> tuple[RecordedTurn, ...]:
    return tuple(RecordedTurn(path=path, turn=1, answer={}) for path in paths)


def test_an_item_is_named_by_the_beginning_of_a_path() -> None:
    paths = ("main", "main/reader-1", "main/item-1", "main/item-12/reader-1/item-2")
    assert [item_of(path) for path in paths] == ["main", "main", "main/item-1", "main/item-12"]


@pytest.mark.parametrize(
    ("source", "path", "found"),
    [
        (FORK, "main/item-2", "main/item-2"),
        (FORK, "main/item-3", "main/item-1"),
        (IN_PLACE, "main/item-2", "main/item-2"),
        # another delegation of the same item may have had the number
        (IN_PLACE, "main/item-2/reader-2", "main/item-2"),
        # what was done for a twin is not done for this item
        (IN_PLACE, "main/item-3", None),
        (IN_PLACE, "main/item-22", None),
    ],
)
def test_in_place_only_steps_of_the_same_item_are_taken(source: ForkSource, path: str, found: str | None) -> None:
    record = ForkIndex(run="run", execution="1") if source.in_place else None
    one = chosen(turns("main/item-1", "main/item-2"), path, record)
    assert (None if one is None else one.path) == found
    assert chosen((), path, record) is None


def test_items_are_found_where_they_were_in_the_other_run() -> None:
    record = ForkIndex(run="run", execution="1", items={"main/item-1": "main/item-7", "main/item-2": "main/item-9"})
    recorded = turns("main/item-1", "main/item-7", "main/item-7/reader-1")
    found = [chosen(recorded, path, record) for path in ("main/item-1", "main/item-1/reader-1", "main/item-2")]
    assert [one.path if one else None for one in found] == ["main/item-7", "main/item-7/reader-1", None]


@pytest.mark.parametrize(
    ("record", "source", "says"),
    [
        (ForkIndex(run="other", execution="1"), FORK, "is not of run 'run'"),
        (ForkIndex(run="run", execution="1", version=INDEX_VERSION + 1), FORK, "this is version 1"),
        (
            ForkIndex(run="run", execution="1", answers=(ScriptedAnswer(decision="approve"),)),
            IN_PLACE,
            "is one for a fork",
        ),
        (ForkIndex(run="run", execution="1", reads={"k": RecordedRead(result=1)}), IN_PLACE, "is one for a fork"),
        (ForkIndex(run="run", execution="1", asked=("k",)), IN_PLACE, "is one for a fork"),
        (None, FORK, "is no record of a run"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(
    record: ForkIndex | None, source: ForkSource, says: str, tmp_path: Path
) -> None:
    blobs = LocalBlobStore(tmp_path)
    digest = blobs.put_bytes(b"[]" if record is None else record.model_dump_json().encode())
    with pytest.raises(EffectFailed, match=says):
        ForkRecords(blobs).index(source.model_copy(update={"index": digest}))


def test_a_record_that_was_altered_is_refused(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path)
    digest = blobs.put_bytes(ForkIndex(run="run", execution="1").model_dump_json().encode())
    (path,) = (path for path in tmp_path.rglob(digest))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b'"1"', b'"2"'))
    with pytest.raises(EffectFailed, match="is damaged"):
        ForkRecords(blobs).index(FORK.model_copy(update={"index": digest}))


def reused(workshop: Path, source: ForkSource, key: str, **record: Any) -> ReusedCall:
    """What is found under this key in a record of this content."""
    blobs = workshop_blobs(workshop)
    digest = blobs.put_bytes(ForkIndex(run="run", execution="1", **record).model_dump_json().encode())
    source = source.model_copy(update={"index": digest})
    return ReuseActivities(workshop, blobs, ForkRecords(blobs)).reuse_call(
        ReuseCallInput(fork=source, key=key, path="main")
    )


def test_in_place_an_outcome_is_told_and_no_file_is_touched(tmp_path: Path) -> None:
    done = RecordedCall(path="main", turn=1, tool="shell", outcome="returned", content="ok")
    assert reused(tmp_path, IN_PLACE, "k", calls={"k": (done,)}).call == done
    effect = RecordedEffect(activity="write_file", request={"mount": {"at": "/", "root": "."}, "relative": "a"})
    wrote = done.model_copy(update={"effects": (effect,)})
    found = reused(tmp_path, IN_PLACE, "k", calls={"k": (wrote,)})
    assert (found.call, found.layer, "no layer for that" in found.note) == (None, None, True)


def test_what_may_have_happened_is_said_and_never_taken_for_done(tmp_path: Path) -> None:
    found = reused(tmp_path, IN_PLACE, "k", doubtful=("k",))
    assert (found.call, found.doubtful) == (None, True)
    assert not reused(tmp_path, IN_PLACE, "other", doubtful=("k",)).doubtful


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[" * 100_000], ids=["gone", "empty", "other", "deep"])
async def test_a_record_that_cannot_be_read_is_a_final_failure(tmp_path: Path, content: bytes | None) -> None:
    blobs = workshop_blobs(tmp_path)
    index = "0" * 64 if content is None else blobs.put_bytes(content)
    fork = ForkSource(run="first", index=index, then=True)
    request = ReadFileInput(mount=Mount(at="/", root="."), relative="a.txt", path="/a.txt", max_chars=10, offset=0)
    headers = {HEADER: DefaultPayloadConverter().to_payload(fork.model_dump(mode="json"))}
    following: Any = None
    inbound = RecordedReads(blobs, ForkRecords(blobs)).intercept_activity(following)

    async def read() -> Any:
        return await inbound.execute_activity(
            ExecuteActivityInput(fn=read, args=[request], executor=None, headers=headers)
        )

    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, activity_type=READ_FILE.name)
    with pytest.raises(ApplicationError) as caught:
        await environment.run(read)
    assert caught.value.non_retryable
