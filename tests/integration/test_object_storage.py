"""Runs whose blobs are in object storage, which may be down for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic_ai.messages import ModelMessage
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.start import load_local_worker
from llm_do_temporal.errors import BlobsUnreachable
from llm_do_temporal.service import build
from llm_do_temporal.storage import places
from llm_do_temporal.storage.external_storage import with_big_payloads
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.testing import call, scripted
from tests.support.runs.place import Place, served
from tests.support.servers.object_store import ObjectStore, object_store

LARGE = "x" * 900_000
TOOLS = f"""\
def large() -> str:
    return {LARGE!r}
"""


@pytest_asyncio.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ObjectStore]:
    """A store that everything in this process finds by the environment."""
    with object_store() as store:
        for name, value in store.variables.items():
            monkeypatch.setenv(name, value)
        yield store


@pytest_asyncio.fixture
async def remote(store: ObjectStore, server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Place]:
    """A place whose blobs are in the store."""
    async with served(server, tmp_path) as place:
        place.write("tools.py", TOOLS)
        yield place


@pytest.mark.extension("maintenance")
async def test_attachments_and_large_values_are_in_the_store(remote: Place, tmp_path: Path) -> None:
    from llm_do_temporal.extensions.maintenance.removal import collect

    model = scripted(call("large"), LARGE)
    remote.worker(
        "main",
        model,
        attachment_policy={"allowed_suffixes": [".txt"]},
        toolsets={"custom": {"large": {"pre_approved": True}}},
    )
    (file := tmp_path / "notes.txt").write_text("Attached.")
    attached = load_local_worker(remote.folder, "main").attach([file])
    run = await remote.start("main", LARGE, attachments=[one.model_dump() for one in attached])
    assert (await remote.client.result(run)).output == LARGE
    last = model.requests[-1]
    assert "Attached." in last.prompt
    assert [one.text for one in last.results("large")] == [LARGE]
    assert not list((remote.folder / ".llm-do").rglob("*"))

    while not (await remote.client.temporal.count_workflows(f"WorkflowId = '{run}'")).count:  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # the server lists a run a moment after it has begun
    lost = (blobs := workshop_blobs(remote.folder)).put_bytes(b"nobody needs this")
    collected = await collect(remote.client.temporal, blobs, older_than=timedelta(seconds=-60))
    assert lost in {one.sha256 for one in collected.removed}
    assert (await remote.client.result(run)).output == LARGE


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("methods", "answer"), [((), "503 Service Unavailable"), (("PUT",), "403 Forbidden")], ids=["down", "full"]
)
async def test_a_store_that_is_down_for_a_while_delays_a_run_and_loses_nothing(
    remote: Place, store: ObjectStore, methods: tuple[str, ...], answer: str
) -> None:
    """The model is not asked twice because what it answered cannot be kept at once."""
    down = ExitStack()

    def answer_while_down(_messages: list[ModelMessage]) -> str:
        down.enter_context(store.down(*methods, answer=answer))
        return LARGE

    model = scripted(call("large"), answer_while_down)
    remote.worker("main", model, toolsets={"custom": {"large": {"pre_approved": True}}})
    run = await remote.start("main")
    await asyncio.to_thread(store.await_refused, 2)
    down.close()
    assert (await remote.client.result(run)).output == LARGE
    assert len(model.requests) == 2


@pytest.mark.thorough
async def test_a_large_result_waits_for_a_store_that_is_down_beyond_all_patience(
    store: ObjectStore, server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What made it is not done twice, and nobody is asked whether it has happened."""
    monkeypatch.setattr(build, "SERVICE_PATIENCE", timedelta(milliseconds=1))
    made = tmp_path / "made.txt"
    async with served(server, tmp_path) as place:
        place.write("tools.py", TOOLS.replace("return", f"open({str(made)!r}, 'a').write('made ')\n    return"))
        model = scripted(call("large"), "done")
        place.worker("main", model, toolsets={"custom": {"large": {}}})
        run = await place.start("main")
        await place.pending(run)
        with store.down():
            await place.decide(run)
            await asyncio.to_thread(store.await_refused, 2)
            assert made.read_text() == "made "
        assert (await place.client.result(run)).output == "done"
        assert len((await place.client.desk(run)).approvals) == 1
    assert made.read_text() == "made "
    assert [one.text for one in model.requests[-1].results("large")] == [LARGE]


@pytest.mark.thorough
async def test_a_call_whose_arguments_cannot_be_read_at_once_is_made_later_and_once(
    remote: Place, store: ObjectStore, tmp_path: Path
) -> None:
    """Nobody is asked whether it has happened."""
    kept = tmp_path / "kept.txt"
    remote.write(
        "tools.py", f"def keep(text: str):\n    with open({str(kept)!r}, 'a') as to:\n        to.write('kept ')\n"
    )
    remote.worker(
        "main", scripted(call("keep", text=LARGE), "done"), toolsets={"custom": {"keep": {"pre_approved": True}}}
    )
    with store.unreadable(b'"idempotency_key"'):
        run = await remote.start("main")
        await asyncio.to_thread(store.await_refused)
        handle = remote.client.temporal.get_workflow_handle(run)
        async for event in handle.fetch_history_events(wait_new_event=True):
            if event.user_metadata.summary.data == b'"wait for the blob store"':
                break
    assert (await remote.client.result(run)).output == "done"
    assert kept.read_text() == "kept "
    assert (await remote.client.desk(run)).approvals == ()


async def test_a_client_says_that_the_store_does_not_answer(
    remote: Place, store: ObjectStore, server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "CLIENT_PATIENCE", timedelta(milliseconds=1))
    remote.worker("main", scripted(LARGE), attachment_policy={"allowed_suffixes": [".txt"]})
    await remote.client.result(run := await remote.start("main"))
    file = remote.write("notes.txt", "Attached.")
    with store.down():
        impatient = with_big_payloads(server.client, workshop_blobs(remote.folder))
        with pytest.raises(BlobsUnreachable, match="'s3://blobs/some/prefix' does not answer"):
            await LlmDoClient(impatient).result(run)
        with pytest.raises(BlobsUnreachable, match="'s3://blobs/some/prefix' does not answer"):
            await LlmDoClient(impatient).view(run)
        with pytest.raises(BlobsUnreachable, match="'s3://blobs/some/prefix' does not answer"):
            load_local_worker(remote.folder, "main").attach([file])
