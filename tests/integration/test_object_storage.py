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

from llm_do_temporal import blob_places
from llm_do_temporal.big_payloads import with_big_payloads
from llm_do_temporal.blob_places import workshop_blobs
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.collecting import collect
from llm_do_temporal.client.preparing import prepare
from llm_do_temporal.errors import BlobsUnreachable
from llm_do_temporal.testing import call, scripted
from tests.integration.conftest import Place, served
from tests.support.object_store import ObjectStore, object_store

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


async def test_attachments_and_large_values_are_in_the_store(remote: Place, tmp_path: Path) -> None:
    model = scripted(call("large"), LARGE)
    remote.worker(
        "main",
        model,
        attachment_policy={"allowed_suffixes": [".txt"]},
        toolsets={"custom": {"large": {"pre_approved": True}}},
    )
    (file := tmp_path / "notes.txt").write_text("Attached.")
    attached = prepare(remote.folder, "main").attach([file])
    run = await remote.start("main", LARGE, attachments=[one.model_dump() for one in attached])
    assert (await remote.client.result(run)).output == LARGE
    last = model.requests[-1]
    assert "Attached." in last.prompt
    assert [one.text for one in last.results("large")] == [LARGE]
    assert not list((remote.folder / ".llm-do").rglob("*"))

    lost = (blobs := workshop_blobs(remote.folder)).put_bytes(b"nobody needs this")
    collected = await collect(remote.client.temporal, blobs, older_than=timedelta(seconds=-60))
    assert lost in {one.sha256 for one in collected.removed}
    assert (await remote.client.result(run)).output == LARGE


async def test_a_store_that_is_down_for_a_while_delays_a_run_and_loses_nothing(
    remote: Place, store: ObjectStore
) -> None:
    """The model is not asked twice because what it answered cannot be kept at once."""
    down = ExitStack()

    def answer_while_down(_messages: list[ModelMessage]) -> str:
        down.enter_context(store.down())
        return LARGE

    model = scripted(call("large"), answer_while_down)
    remote.worker("main", model, toolsets={"custom": {"large": {"pre_approved": True}}})
    run = await remote.start("main")
    await asyncio.to_thread(store.await_refused, 3)
    down.close()
    assert (await remote.client.result(run)).output == LARGE
    assert len(model.requests) == 2


async def test_a_client_says_that_the_store_does_not_answer(
    remote: Place, store: ObjectStore, server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_places, "CLIENT_PATIENCE", timedelta(milliseconds=1))
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
            prepare(remote.folder, "main").attach([file])
