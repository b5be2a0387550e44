"""Journals of commits: kept while a run may ask again, removed with it, and told where a commit has not ended."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Collection
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.errors import ConnectionFailed
from llm_do_temporal.extensions.review.commit import (
    CommitJournal,
    CommitOutcome,
    CommitRecord,
    Disk,
    ended_commits,
    examine_commits,
)
from llm_do_temporal.extensions.review.policy.review import CommitStep, StepKind
from llm_do_temporal.policy.layers.layer import folder_node

HOUR = timedelta(hours=1)
GONE, THERE, BELOW = "gone#1-abc@x", "there#1-abc@x", "gone/main/editor-1#2-abc@x"


class _Server:
    def __init__(self, *ids: str) -> None:
        self._ids = ids

    async def list_workflows(self, _query: str) -> AsyncIterator[Any]:
        for one in self._ids:
            if one == "broken":
                raise RPCError("no answer", RPCStatusCode.UNAVAILABLE, b"")
            yield SimpleNamespace(id=one)


def server(*ids: str) -> Client:
    return cast("Client", _Server(*ids))


def keep(workshop: Path, keys: Collection[str], *, ended: bool = True, age: int = 7_200) -> CommitJournal:
    journal = CommitJournal(workshop, Disk())
    for key in keys:
        step = CommitStep(kind=StepKind.MAKE, path="a", before=None, after=folder_node())
        outcome = CommitOutcome(committed=True, paths=1) if ended else None
        journal.write(CommitRecord(key=key, reviewed="0" * 64, steps=() if ended else (step,), outcome=outcome))
        (path,) = [one for one in _files(workshop) if key in one.read_text()]
        written_at = path.stat().st_mtime - age
        os.utime(path, (written_at, written_at))
    return journal


def _files(workshop: Path) -> list[Path]:
    return sorted((workshop / ".llm-do/commits").glob("*"))


@pytest.mark.extension("maintenance")
async def test_only_ended_commits_of_runs_that_are_gone_are_removed(tmp_path: Path) -> None:
    from llm_do_temporal.extensions.maintenance.removal import discard_leftovers

    journal = keep(tmp_path, [GONE, THERE, BELOW])
    keep(tmp_path, ["unfinished#1-abc@x"], ended=False)
    keep(tmp_path, ["young#1-abc@x"], age=0)
    client = server("there", "there/main/editor-1")

    assert await discard_leftovers(client, tmp_path, older_than=HOUR, dry_run=True) == 2
    assert len(_files(tmp_path)) == 5
    assert await discard_leftovers(client, tmp_path, older_than=HOUR) == 2
    assert [journal.read(key) is None for key in (GONE, THERE, BELOW)] == [True, False, True]
    assert len(_files(tmp_path)) == 3
    assert await discard_leftovers(client, tmp_path, older_than=HOUR) == 0


@pytest.mark.extension("maintenance")
async def test_nothing_is_removed_where_the_server_does_not_answer_or_there_is_nothing(tmp_path: Path) -> None:
    from llm_do_temporal.extensions.maintenance.removal import discard_leftovers

    assert await discard_leftovers(server("broken"), tmp_path, older_than=HOUR) == 0
    keep(tmp_path, [GONE])
    with pytest.raises(ConnectionFailed, match="no journal of a commit was removed"):
        await discard_leftovers(server("broken"), tmp_path, older_than=HOUR)
    assert len(_files(tmp_path)) == 1


@pytest.mark.extension("maintenance")
async def test_a_damaged_journal_stays_and_is_told(tmp_path: Path) -> None:
    from llm_do_temporal.extensions.maintenance.removal import discard_leftovers

    keep(tmp_path, [GONE])
    (tmp_path / ".llm-do/commits/damaged.json").write_text("{")
    assert await discard_leftovers(server(), tmp_path, older_than=HOUR) == 1
    assert [path.name for path in _files(tmp_path)] == ["damaged.json"]
    (finding,) = examine_commits(tmp_path)
    assert (finding.status, "'damaged.json', cannot be read" in finding.message) == ("error", True)


def test_a_commit_that_has_not_ended_is_told(tmp_path: Path) -> None:
    assert examine_commits(tmp_path) == []
    keep(tmp_path, [GONE])
    assert examine_commits(tmp_path) == []
    keep(tmp_path, [f"r{number}#1-abc@x" for number in range(5)], ended=False)
    (finding,) = examine_commits(tmp_path)
    assert finding.status == "warning"
    assert ", and 2 more (5 files, some may be changed already)" in finding.message


@pytest.mark.parametrize(
    ("key", "workflow"), [("r1#1-abc@x", "r1"), ("a#b/main/w-1#12-abc@x", "a#b/main/w-1"), ("odd", "")]
)
def test_a_key_names_its_workflow(tmp_path: Path, key: str, workflow: str) -> None:
    keep(tmp_path, [key])
    assert {one: found for one, (found, _) in ended_commits(tmp_path, time.time()).items()} == {key: workflow}
