"""Blobs, journals and runs are removed where nothing needs them, and nothing else is."""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.encryption.keys import NO_KEYS, Key, KeyRing, Seal
from llm_do_temporal.errors import ConnectionFailed, EffectFailed, KeyMismatch, UsageError
from llm_do_temporal.extensions.maintenance import removal
from llm_do_temporal.extensions.maintenance.removal import (
    OUR_TYPES,
    Borrower,
    Borrowers,
    borrowers_of,
    collect,
    delete_run,
    mentioned,
    needed,
    our_workflows,
    read_borrowers,
)
from llm_do_temporal.messages.runs import RunMemo, StartRunInput
from llm_do_temporal.policy.layers.layer import CarriedLayer
from llm_do_temporal.storage.blobs import LocalBlobStore
from llm_do_temporal.workflows.invocation.workflow import LlmDoWorker
from llm_do_temporal.workflows.run.workflow import LlmDoRun
from tests.support.runs.run_server import RunServer

DIGEST = hashlib.sha256(b"one").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (DIGEST, {DIGEST}),
        (f'{{"base": ["{DIGEST}", "{OTHER}"]}}', {DIGEST, OTHER}),
        (f"llmdo-blob:sha256/{DIGEST}?as=text#deck.pdf", {DIGEST}),
        (f"{DIGEST}{OTHER}", {DIGEST, OTHER}),
        (f"abc{DIGEST}def", {DIGEST}),
        (f"\0{DIGEST[:63]}\0{DIGEST[1:]}\0", set[str]()),
        (DIGEST.upper(), set[str]()),
        ("f" * 64, set[str]()),
        ("", set[str]()),
    ],
)
def test_a_digest_is_found_wherever_it_stands(data: str, found: set[str]) -> None:
    assert mentioned(data.encode(), {DIGEST, OTHER}) == found


def test_a_digest_is_found_between_bytes_of_any_kind() -> None:
    assert mentioned(b"\xff\x00" + DIGEST.encode() + b"\xfe", {DIGEST}) == {DIGEST}


@pytest.mark.parametrize("workflow", [LlmDoRun, LlmDoWorker])
def test_the_histories_of_all_workflows_are_read(workflow: type) -> None:
    assert workflow.__name__.startswith(OUR_TYPES)
    assert f"STARTS_WITH '{OUR_TYPES}'" in our_workflows()


def test_histories_of_a_capability_that_is_not_installed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = our_workflows()
    monkeypatch.setattr("llm_do_temporal.extensions.maintenance.removal.run_starters", list)
    assert our_workflows() == alone


class Graph:
    """Blobs that mention each other in every way there is, and what refers to them from outside."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.blobs: dict[str, bytes] = {}
        self.mentions: dict[str, set[str]] = {}
        for number in range(chance.randint(1, 30)):
            earlier = sorted(self.mentions)
            below = chance.sample(earlier, min(len(earlier), chance.choice([0, 0, 1, 2, 5])))
            gap = chance.choice(["", ",", "\0", "f", " and "])
            data = f"{number} of {seed}:{gap}{gap.join(below)}{gap}".encode() + chance.randbytes(chance.randint(0, 99))
            digest = hashlib.sha256(data).hexdigest()
            self.blobs[digest], self.mentions[digest] = data, set(below)
        digests = sorted(self.mentions)
        # What a history may mention, too: blobs that are gone, or that were never here.
        self.roots = {*chance.sample(digests, chance.randint(0, min(4, len(digests)))), "0" * 64}

    def reachable(self) -> set[str]:
        """What the roots lead to, found one step at a time until nothing new is found."""
        found = self.roots & set(self.mentions)
        while more := {below for one in found for below in self.mentions[one]} - found:
            found |= more
        return found


@pytest.mark.parametrize("seed", range(300))
def test_what_a_root_leads_to_is_needed_and_nothing_else(seed: int) -> None:
    graph = Graph(seed)
    assert needed(graph.roots, graph.blobs.keys(), graph.blobs.__getitem__) == graph.reachable()


def test_a_needed_blob_that_is_damaged_is_an_error(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path)
    digest = blobs.put_bytes(b"text")
    (tmp_path / "sha256" / digest[:2] / digest).write_bytes(b"texT")
    with pytest.raises(EffectFailed, match="is damaged"):
        needed({digest}, {digest}, blobs.read)


def test_a_blob_that_was_put_again_is_left(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path)
    digest = blobs.put_bytes(b"text")
    path = tmp_path / "sha256" / digest[:2] / digest
    os.utime(path, (1000, 1000))
    assert [one.put_at for one in blobs.stored()] == [1000]
    blobs.put_bytes(b"text")
    assert not blobs.discard(digest, put_before=2000)
    assert blobs.read(digest) == b"text"
    os.utime(path, (1000, 1000))
    assert blobs.discard(digest, put_before=2000)
    assert not blobs.discard(digest, put_before=2000)
    assert blobs.stored() == []


def test_what_is_put_while_others_remove_is_there_afterwards(tmp_path: Path) -> None:
    """A blob that is old is put again by one thread, while another one removes all that is old."""
    blobs = LocalBlobStore(tmp_path)
    digest = blobs.put_bytes(b"text")
    path = tmp_path / "sha256" / digest[:2] / digest
    done = threading.Event()

    def remove() -> None:
        while not done.is_set():
            blobs.discard(digest, put_before=2000)

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        for _ in range(300):
            blobs.put_bytes(b"text")
            assert blobs.read(digest) == b"text"
            os.utime(path, (1000, 1000))
    except FileNotFoundError:
        pytest.fail("it was removed after it had been put")
    finally:
        done.set()
        remover.join()


def test_what_a_dead_process_was_writing_is_removed_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path)
    blobs.put_bytes(b"text")
    for name, at in ((".incoming-dead", 1000), (".incoming-alive", 3000)):
        (tmp_path / "sha256" / name).write_bytes(b"half")
        os.utime(tmp_path / "sha256" / name, (at, at))
    blobs.discard_unfinished(begun_before=2000)
    assert [path.name for path in (tmp_path / "sha256").glob(".*")] == [".incoming-alive"]
    assert len(blobs.stored()) == 1


class Unreachable:
    """A client of a server that breaks off: after the list of workflows, or while one history is read."""

    data_converter = DataConverter.default

    def __init__(self, *, listed: bool, status: RPCStatusCode = RPCStatusCode.UNAVAILABLE) -> None:
        self._listed = listed
        self._error = RPCError("gone", status, b"")

    async def list_workflows(self, _query: str) -> AsyncIterator[Any]:
        yield SimpleNamespace(id="run", run_id="1")
        if not self._listed:
            raise self._error

    def get_workflow_handle(self, _workflow_id: str, *, run_id: str) -> Unreachable:
        assert run_id == "1"
        return self

    async def list_schedules(self) -> AsyncIterator[Any]:
        return _nothing()

    async def fetch_history_events(self) -> AsyncIterator[HistoryEvent]:
        yield HistoryEvent(event_id=1)
        if self._listed:
            raise self._error


async def _nothing() -> AsyncIterator[Any]:
    for one in ():
        yield one


@pytest.mark.parametrize("listed", [False, True])
async def test_nothing_is_removed_where_the_histories_cannot_be_read(listed: bool, tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path)
    blobs.put_bytes(b"text")
    with pytest.raises(ConnectionFailed, match="so nothing was removed"):
        await collect(cast("Client", Unreachable(listed=listed)), blobs, older_than=timedelta(0))
    assert len(blobs.stored()) == 1


class WithoutSchedules(Unreachable):
    """A client of a server that breaks off after all histories, when it is asked for schedules."""

    async def list_schedules(self) -> AsyncIterator[Any]:
        raise RPCError("gone", RPCStatusCode.UNAVAILABLE, b"")


async def test_nothing_is_removed_where_the_schedules_cannot_be_read(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path)
    blobs.put_bytes(b"text")
    client = cast("Client", WithoutSchedules(listed=True, status=RPCStatusCode.NOT_FOUND))
    with pytest.raises(ConnectionFailed, match="so nothing was removed"):
        await collect(client, blobs, older_than=timedelta(0))
    assert len(blobs.stored()) == 1


async def test_a_history_that_was_deleted_meanwhile_needs_nothing(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path)
    blobs.put_bytes(b"text")
    client = cast("Client", Unreachable(listed=True, status=RPCStatusCode.NOT_FOUND))
    collected = await collect(client, blobs, older_than=timedelta(0))
    assert (len(collected.removed), collected.left, blobs.stored()) == (1, (), [])


async def test_what_something_recent_mentions_is_left(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path)
    old, lost = blobs.put_bytes(b"old"), blobs.put_bytes(b"lost")
    for digest in (old, lost):
        os.utime(tmp_path / "sha256" / digest[:2] / digest, (1000, 1000))
    blobs.put_bytes(f'{{"base": ["{old}"]}}'.encode())
    client = cast("Client", Unreachable(listed=True, status=RPCStatusCode.NOT_FOUND))
    collected = await collect(client, blobs)
    assert [one.sha256 for one in collected.removed] == [lost]


@pytest.mark.extension("forks")
@pytest.mark.parametrize("ring", [NO_KEYS, KeyRing.of(Key("k", b"k" * 32))])
def test_the_record_of_a_fork_leads_to_all_that_it_names(ring: KeyRing, tmp_path: Path) -> None:
    from llm_do_temporal.extensions.forks.messages import ForkIndex, RecordedCall, RecordedEffect, RecordedTurn

    blobs = LocalBlobStore(tmp_path, Seal(ring))
    content, attached, manifest_of = (blobs.put_bytes(name) for name in (b"content", b"attached", b"below"))
    manifest = blobs.put_bytes(f'{{"entries": [["/a.txt", "{manifest_of}"]]}}'.encode())
    lost = blobs.put_bytes(b"nobody's")
    call = RecordedCall(
        path="main",
        turn=1,
        tool="write_file",
        outcome="returned",
        effects=(
            RecordedEffect(
                activity="write_file",
                request={"content": f"llmdo-blob:{content}"},
                began=CarriedLayer(manifest=manifest),
            ),
        ),
    )
    answer = {"parts": [{"part_kind": "file", "url": f"llmdo-blob:sha256/{attached}"}]}
    record = ForkIndex(
        run="run",
        execution="1",
        turns={"k": (RecordedTurn(path="main", turn=1, answer=answer),)},
        calls={"k": (call,)},
    )
    index = blobs.put_bytes(record.model_dump_json().encode())
    # The history of the fork names the record alone; that of the other run is gone.
    found = needed({index}, {one.sha256 for one in blobs.stored()}, blobs.read)
    assert found == {index, content, attached, manifest, manifest_of}
    assert lost in {one.sha256 for one in blobs.stored()}


NEWEST = "third"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Server:
    """A server with the executions of a run and of what is below it; it finds a run by the newest one only."""

    namespace = "default"

    def __init__(self, *, answers: int) -> None:
        self.left = {"below": ("run/main", 40), "first": ("run", 10), NEWEST: ("run", 30), "second": ("run", 20)}
        self.answers = answers
        """So many deletions are carried out."""
        self.workflow_service = self

    async def read_run(self, _client: Client, run: str) -> None:
        if NEWEST not in self.left:
            raise UsageError(f"there is no run '{run}'")

    async def list_workflows(self, _query: str) -> AsyncIterator[Any]:
        for run_id, (workflow_id, _) in self.left.items():
            yield SimpleNamespace(id=workflow_id, run_id=run_id)

    def get_workflow_handle(self, workflow_id: str, *, run_id: str | None) -> Any:
        found = run_id or NEWEST

        async def describe() -> Any:
            closed = datetime.fromtimestamp(self.left[found][1], UTC)
            return SimpleNamespace(id=workflow_id, run_id=found, close_time=closed)

        return SimpleNamespace(describe=describe)

    async def delete_workflow_execution(self, request: DeleteWorkflowExecutionRequest, *, retry: bool) -> None:
        if self.answers == 0:
            raise RPCError("gone", RPCStatusCode.UNAVAILABLE, b"")
        assert retry
        self.answers -= 1
        del self.left[request.workflow_execution.run_id]


@pytest.mark.parametrize("answers", range(4))
async def test_what_was_broken_off_is_begun_again(answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(answers=answers)
    monkeypatch.setattr(removal, "read_run", server.read_run)
    client = cast("Client", server)
    with pytest.raises(ConnectionFailed, match="does not delete the run: gone"):
        await delete_run(client, "run", None)
    assert len(server.left) == 4 - answers
    server.answers = 4
    assert (await delete_run(client, "run", None)).histories == 4 - answers
    assert server.left == {}


def started(run: str, of: str) -> tuple[str, Borrower]:
    return run, Borrower(run, of, is_open=False)


def test_borrowers_of_borrowers_come_after_those_they_borrow_from() -> None:
    listed = dict([started("a", "c"), started("b", "run"), started("c", "run"), started("d", "a"), started("e", "x")])
    assert [one.run for one in borrowers_of("run", listed)] == ["b", "c", "a", "d"]


def test_a_memo_that_says_nonsense_makes_no_circle() -> None:
    listed = dict([started("run", "run"), started("a", "run"), started("b", "b"), started("run", "a")])
    assert [one.run for one in borrowers_of("run", listed)] == ["a"]


def test_a_run_that_starts_with_a_record_says_whose_it_is() -> None:
    assert RunMemo.of(StartRunInput(worker="w", copies_of="run")).fork_of == "run"
    assert "fork_of" not in RunMemo.of(StartRunInput(worker="w")).model_dump()


async def test_the_memos_of_the_newest_executions_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    server = RunServer()
    await server.put("open", "Running", RunMemo(worker="w", fork_of="run"), began=NOW)
    await server.put("ended", "Failed", RunMemo(worker="w", fork_of="run"), began=NOW, ended=NOW)
    await server.put("other", "Completed", RunMemo(worker="w"), began=NOW, ended=NOW)
    await server.put("sealed", "Completed", RunMemo(worker="w", fork_of="run"), began=NOW, ended=NOW)
    read = removal.read_begun

    async def without_its_key(info: Any, converter: Any) -> RunMemo:
        if info.execution.workflow_id == "sealed":
            raise KeyMismatch("no key", key="old")
        return await read(info, converter)

    monkeypatch.setattr(removal, "read_begun", without_its_key)
    found = await read_borrowers(cast("Any", server), "run")
    assert found == Borrowers((Borrower("ended", "run", False), Borrower("open", "run", True)), locked=1)
    assert "ExecutionStatus != 'ContinuedAsNew'" in server.queries[0]
