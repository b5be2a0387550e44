"""Turns that share batches: who leaves with whom, who looks, and what is looked for after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.models import Model, ModelResolutionContext
from pydantic_ai.models.batch import Batch, BatchResult, EncodedBatchRequest
from pydantic_ai.models.test import TestModel
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.activities.models import batches
from llm_do_temporal.activities.models.batches import (
    AbandonedBatches,
    BatchChecks,
    BatchNotSeen,
    Departures,
    NotWanted,
    Passenger,
    WaitingTurn,
    find,
)
from llm_do_temporal.activities.models.builder import build_model
from llm_do_temporal.messages.conversation import BatchedTurn
from llm_do_temporal.policy.models import ModelAlias, serving_id
from tests.support.dialects.batches import SPEAKERS, Account, BatchProviders, Job

NOW = datetime.now(UTC)
SHORT, NEVER = timedelta(milliseconds=20), timedelta(hours=1)
BATCH = Batch(
    id="b", model_name="m", provider_name="p", group="g", status="in_progress", created_at=NOW, request_count=1
)


class Provider(TestModel):
    """Keeps what is sent, and counts what is asked."""

    def __init__(self, *, most_bytes: int | None = None) -> None:
        super().__init__()
        self.sent: list[list[str]] = []
        self.most_bytes = most_bytes
        self.status = replace(BATCH)
        self.looks = self.reads = 0
        self.cancelled: asyncio.Queue[str] = asyncio.Queue()
        self.error: Exception | None = None

    @property
    def batch_max_bytes(self) -> int | None:
        """See Model."""
        return self.most_bytes

    async def batch_create(self, requests: Sequence[EncodedBatchRequest]) -> Batch:
        """See Model."""
        self.sent.append([request.custom_id for request in requests])
        if self.error is not None:
            raise self.error
        return replace(BATCH, request_count=len(requests))

    async def batch_status(self, batch: Batch) -> Batch:
        """See Model."""
        self.looks += 1
        return self.status

    async def batch_results(self, batch: Batch) -> list[BatchResult]:
        """See Model."""
        self.reads += 1
        return [BatchResult(custom_id="a", status="expired")]

    async def batch_cancel(self, batch: Batch) -> Batch:
        """See Model."""
        await self.cancelled.put(batch.id)
        return batch


class Server:
    """A Temporal client that finds no workflow, and does something else before it says so."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    def get_workflow_handle(self, _workflow_id: str, *, run_id: str) -> Server:
        """See Client."""
        return self

    async def describe(self) -> None:
        """See WorkflowHandle."""
        self._meanwhile()
        raise RPCError("not found", RPCStatusCode.NOT_FOUND, b"")


def passenger(custom_id: str, group: str = "g", *, wanted: bool = True) -> Passenger:
    async def is_wanted() -> bool:
        return wanted

    return Passenger(EncodedBatchRequest(custom_id=custom_id, group=group, body="x" * 99), is_wanted)


async def together(*joining: Awaitable[Batch]) -> list[Any]:
    return await asyncio.gather(*joining, return_exceptions=True)


async def test_requests_that_can_share_a_batch_leave_together() -> None:
    provider, departures = Provider(), Departures()
    ids = {"a": "g", "b": "g", "c": "other"}
    await together(
        *(departures.join(provider, passenger(one, group), SHORT, alone=False) for one, group in ids.items()),
        departures.join(provider, passenger("d"), NEVER, alone=True),
    )
    assert sorted(provider.sent) == [["a", "b"], ["c"], ["d"]]


async def test_a_full_batch_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST_REQUESTS", 2)
    provider, departures = Provider(), Departures()
    await together(*(departures.join(provider, passenger(one), NEVER, alone=False) for one in "abcd"))
    assert provider.sent == [["a", "b"], ["c", "d"]]


async def test_no_batch_is_larger_than_its_provider_takes() -> None:
    provider, departures = Provider(most_bytes=250), Departures()
    await together(*(departures.join(provider, passenger(one), SHORT, alone=False) for one in "abc"))
    assert provider.sent == [["a", "b"], ["c"]]


async def test_only_what_is_still_wanted_leaves() -> None:
    provider, departures = Provider(), Departures()
    cancelled = asyncio.create_task(departures.join(provider, passenger("b"), SHORT, alone=False))
    await asyncio.sleep(0)
    cancelled.cancel()
    stale, kept = await together(
        departures.join(provider, passenger("a", wanted=False), SHORT, alone=False),
        departures.join(provider, passenger("c"), SHORT, alone=False),
    )
    assert isinstance(stale, NotWanted)
    assert kept.request_count == 1
    assert provider.sent == [["c"]]


async def test_a_batch_that_nobody_wants_is_not_sent() -> None:
    provider, departures = Provider(), Departures()
    with pytest.raises(NotWanted):
        await departures.join(provider, passenger("a", wanted=False), SHORT, alone=False)
    assert provider.sent == []


async def test_a_creation_that_fails_fails_for_all_of_it() -> None:
    provider, departures = Provider(), Departures()
    provider.error = ModelAPIError("m", "down")
    failures = await together(*(departures.join(provider, passenger(one), SHORT, alone=False) for one in "ab"))
    assert [str(failure) for failure in failures] == ["down", "down"]


async def test_turns_that_wait_for_one_batch_look_once_and_read_once() -> None:
    provider, checks = Provider(), BatchChecks()
    looks: Callable[[], Awaitable[Any]] = lambda: checks.look(provider, BATCH, NEVER)  # noqa: E731
    assert [answers for _, answers in await asyncio.gather(*(looks() for _ in range(9)))] == [None] * 9
    assert (provider.looks, provider.reads) == (1, 0)

    provider.status = replace(BATCH, status="ended")
    for _ in range(9):
        _, answers = await checks.look(provider, BATCH, timedelta(0))
        assert list(answers or ()) == ["a"]
    assert (provider.looks, provider.reads) == (2, 1)


async def test_a_batch_that_ends_while_somebody_looks_whether_it_is_wanted_is_not_cancelled() -> None:
    provider, abandoned = Provider(), AbandonedBatches()
    ended, unwanted = replace(BATCH, id="ended"), replace(BATCH, id="unwanted")
    client = cast("Client", Server(lambda: abandoned.ended(ended)))
    for batch in (ended, unwanted):
        abandoned.waits(client, provider, batch, "a", WaitingTurn("w", "r", "1"), SHORT)
    assert await provider.cancelled.get() == "unwanted"
    assert provider.cancelled.empty()


@pytest.fixture(scope="module")
def providers() -> Iterator[BatchProviders]:
    with BatchProviders() as providers:
        yield providers


async def _model(providers: BatchProviders, adapter: str, name: str) -> Model:
    alias = ModelAlias.model_validate(providers.alias(adapter, name))
    return await build_model(cast("ModelResolutionContext[Any]", None), serving_id({"m": alias}, "m"))


def _ended(account: Account, kind: str, custom_id: str, *, created: datetime = NOW) -> None:
    number = len(account.jobs) + 1
    job = Job(f"batches/{number}" if kind == "google" else f"batch_{number}", kind, {custom_id: {"model": "m"}})
    job.created, job.state, job.input_file = created.timestamp(), "running", f"file-{number}"
    account.jobs[job.id] = job
    account.files[job.input_file] = f'{{"custom_id": "{custom_id}"}}'.encode()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adapter", SPEAKERS)
async def test_a_request_is_looked_for_among_the_batches_of_its_time(providers: BatchProviders, adapter: str) -> None:
    account = providers.accounts[f"find-{adapter}"]
    model = await _model(providers, adapter, f"find-{adapter}")
    group = (await model.batch_encode(_request())).group
    turn = BatchedTurn(custom_id="mine", group=group, sent_at=NOW)
    with pytest.raises(BatchNotSeen):
        await find(model, turn, NOW)
    late = NOW + timedelta(minutes=2)
    assert await find(model, turn, late) is None

    _ended(account, adapter, "somebody-else")
    _ended(account, adapter, "mine", created=NOW - timedelta(days=1))
    assert await find(model, turn, late) is None

    _ended(account, adapter, "mine")
    found = await find(model, turn, NOW)
    assert found is not None
    assert found.id.endswith("3")


async def test_what_only_the_end_of_a_batch_tells_is_waited_for(providers: BatchProviders) -> None:
    account = providers.accounts["undecided"]
    account.runs = False
    model = await _model(providers, "anthropic", "undecided")
    turn = BatchedTurn(custom_id="mine", group=(await model.batch_encode(_request())).group, sent_at=NOW)
    _ended(account, "anthropic", "somebody-else")
    with pytest.raises(BatchNotSeen):
        await find(model, turn, NOW + timedelta(hours=5))
    account.runs = True
    assert await find(model, turn, NOW + timedelta(hours=5)) is None


async def test_an_account_that_cannot_be_listed_is_no_empty_one(providers: BatchProviders) -> None:
    model = await _model(providers, "anthropic", "down")
    turn = BatchedTurn(custom_id="mine", group="{}", sent_at=NOW)
    providers.accounts["down"].lists = False
    with pytest.raises(ModelAPIError, match="could not be listed"):
        await find(model, turn, NOW + timedelta(hours=5))


def _request() -> Any:
    from pydantic_ai.messages import ModelRequest
    from pydantic_ai.models.batch import BatchRequest

    return BatchRequest(custom_id="x", messages=[ModelRequest.user_text_prompt("hi")])
