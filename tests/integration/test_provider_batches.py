"""Turns through the batch APIs of OpenAI, Anthropic and Google, over HTTP, at a server in this process."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.activities.models.batches import BatchTimes
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.views.pending_work import WAITS, Trouble, note_troubles, read_tail
from llm_do_temporal.errors import ModelRefusal, RunFailed
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.storage.places import workshop_blobs
from tests.support.dialects.answers import Failure, Json, asks, says
from tests.support.dialects.batches import EXPIRED, SPEAKERS, BatchProviders, Given
from tests.support.runs.place import Place, served

TIMES = BatchTimes(window=timedelta(seconds=0.3), check=timedelta(seconds=0.3))
COSTS = {"responses": "0.0020250", "anthropic": "0.00270", "google": "0.0020250"}
"""Two turns of 900 tokens in and 90 out, at half of what the price list has for the model."""


@pytest.fixture(scope="module")
def providers() -> Iterator[BatchProviders]:
    """All three, for all of this file."""
    with BatchProviders() as providers:
        yield providers


@pytest_asyncio.fixture(loop_scope="session")
async def place(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Place]:
    """A workshop whose service looks at batches all the time."""
    async with served(server, tmp_path, batch_times=TIMES) as place:
        yield place


async def until(found: Callable[[], bool]) -> None:
    """Wait for something that sets no event."""
    while not found():  # noqa: ASYNC110 - it happens at a server
        await asyncio.sleep(0.02)


async def test_turns_go_through_batches_and_cost_half(place: Place, providers: BatchProviders) -> None:
    place.workshop(models={one: providers.alias(one, f"half-{one}") for one in SPEAKERS}, turns="batch")
    place.write("a.txt", "a")
    for one in SPEAKERS:
        place.worker(one, one, toolsets={"filesystem": {}})
        account = providers.accounts[f"half-{one}"]
        account.answer = lambda body: says("Done.") if "a.txt" in str(body) else asks("list_files", path="/")
    results = await asyncio.gather(*(place.run(one) for one in SPEAKERS))

    assert [result.output for result in results] == ["Done."] * 3
    assert [result.usage.cost_usd for result in results] == [Decimal(COSTS[one]) for one in SPEAKERS]
    for one, run in zip(SPEAKERS, place.started, strict=True):
        assert len(providers.accounts[f"half-{one}"].requests) == 2
        (history,) = await place.chain(run)
        turns = {
            event.event_id
            for event in history.events
            if event.activity_task_scheduled_event_attributes.activity_type.name == REQUEST_MODEL.name
        }
        begun = [event.activity_task_started_event_attributes.scheduled_event_id for event in history.events]
        # However often a batch was looked at.
        assert sorted(number for number in begun if number in turns) == sorted(turns)
        assert len(turns) == 2


def _late_once() -> Callable[[Json], Given]:
    late = [EXPIRED]

    def answer(body: Json) -> Given:
        if "be wrong" in str(body):
            return Failure(400, "this is wrong")
        return late.pop() if "be late" in str(body) and late else says("Done.")

    return answer


async def test_each_request_of_a_batch_has_an_end_of_its_own(place: Place, providers: BatchProviders) -> None:
    place.workshop(models={one: providers.alias(one, f"ends-{one}") for one in SPEAKERS})
    for one in SPEAKERS:
        place.worker(one, one, turns="batch")
        providers.accounts[f"ends-{one}"].answer = _late_once()
    prompts = ("be good", "be wrong", "be late")
    runs = [place.run(one, prompt) for one in SPEAKERS for prompt in prompts]
    results = await asyncio.gather(*runs, return_exceptions=True)

    for place_of_first, one in zip(range(0, 9, 3), SPEAKERS, strict=True):
        good, wrong, late = results[place_of_first : place_of_first + 3]
        assert (getattr(good, "output", good), getattr(late, "output", late)) == ("Done.", "Done.")
        assert isinstance(wrong, RunFailed)
        assert "this is wrong" in str(wrong)
        asked = [str(body) for body in providers.accounts[f"ends-{one}"].sent]
        assert [sum(prompt in body for body in asked) for prompt in prompts] == [1, 1, 2]


async def test_the_line_ends_of_other_alphabets_end_no_answer(place: Place, providers: BatchProviders) -> None:
    said = "one\u2028two\u2029three\u0085four"
    place.workshop(models={one: providers.alias(one, f"lines-{one}") for one in SPEAKERS}, turns="batch")
    for one in SPEAKERS:
        place.worker(one, one)
        providers.accounts[f"lines-{one}"].answer = lambda body: says(said)
    results = await asyncio.gather(*(place.run(one, said) for one in SPEAKERS))
    assert [result.output for result in results] == [said] * len(SPEAKERS)
    assert [len(providers.accounts[f"lines-{one}"].requests) for one in SPEAKERS] == [1] * len(SPEAKERS)


async def test_a_request_that_a_provider_refuses_takes_no_other_along(place: Place, providers: BatchProviders) -> None:
    account = providers.accounts["refused"]
    account.refuses = lambda body: "be wrong" in str(body)
    place.workshop(models={"m": providers.alias("responses", "refused")}, turns="batch")
    place.worker("one", "m")
    good, wrong = await asyncio.gather(
        place.run("one", "be good"), place.run("one", "be wrong"), return_exceptions=True
    )

    assert getattr(good, "output", good) == "done"
    assert isinstance(wrong, RunFailed)
    assert "a wrong line" in str(wrong)
    assert len(account.requests) == 1


async def _trouble(place: Place, run: str) -> Trouble:
    """Return the one trouble of a run, once the server knows of any: it hears last of an attempt that it has ended."""
    temporal = place.client.temporal
    while not (found := await note_troubles(temporal, await place.client.view(run))):  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.02)
    ((_, trouble),) = found
    return trouble


async def test_a_batch_that_nobody_waits_for_is_cancelled(place: Place, providers: BatchProviders) -> None:
    account = providers.accounts["cancelled"]
    account.runs = False
    place.workshop(models={"m": providers.alias("anthropic", "cancelled")}, turns="batch")
    place.worker("one", "m")
    one, other = await asyncio.gather(place.start("one", "this"), place.start("one", "the other"))
    await until(lambda: len(account.sent) == 2 and account.looks > 0)
    trouble = await _trouble(place, one)
    assert trouble.shown().startswith("its turn waits for a batch of anthropic since ")
    tail = await read_tail(place.client.temporal, one)
    assert (tail.part, tail.text) == (WAITS, trouble.failure) if tail else False
    await place.client.cancel(one)
    looks = account.looks
    await until(lambda: account.looks > looks)
    waited_for = next(job for job in account.jobs.values() if "the other" in str(job.requests))
    assert waited_for.state == "running"

    await place.client.temporal.get_workflow_handle(other).terminate()
    await until(lambda: all(job.state == "cancelled" for job in account.jobs.values()))


async def test_a_batch_of_which_nobody_heard_is_found_again(place: Place, providers: BatchProviders) -> None:
    place.workshop(models={one: providers.alias(one, f"lost-{one}") for one in SPEAKERS}, turns="batch")
    for one in SPEAKERS:
        place.worker(one, one)
        providers.accounts[f"lost-{one}"].answers_creation = False
    results = await asyncio.gather(*(place.run(one) for one in SPEAKERS))

    assert [result.output for result in results] == ["done"] * 3
    assert [len(providers.accounts[f"lost-{one}"].sent) for one in SPEAKERS] == [1, 1, 1]


@pytest.mark.extension("forks")
async def test_a_fork_sends_nothing_that_the_other_run_has_an_answer_to(
    place: Place, providers: BatchProviders
) -> None:
    place.workshop(models={"m": providers.alias("anthropic", "forked")}, turns="batch")
    place.worker("one", "m")
    run = await place.start("one")
    assert (await place.client.result(run)).output == "done"
    from llm_do_temporal.extensions.forks.client_forks import ForkRequest, plan_fork

    plan = await plan_fork(place.client.temporal, run, ForkRequest(), place.folder)
    start = plan.prepared(workshop_blobs(place.folder))
    assert (await place.client.result(await place.client.start(start))).output == "done"
    assert len(providers.accounts["forked"].sent) == 1


async def test_a_model_without_batches_is_refused_and_a_script_answers(place: Place, providers: BatchProviders) -> None:
    place.workshop(models={"chat": providers.alias("responses", "none") | {"model": "openai-chat:x"}}, turns="batch")
    place.worker("chat", "chat")
    place.worker("script", "offline:echo")
    with pytest.raises(ModelRefusal, match="has no batch API for `turns: batch`") as refused:
        await place.run("chat")
    assert "Set `turns: now`" in str(refused.value.next_step)
    assert (await place.run("script", "hello")).output == "hello"


@pytest.mark.thorough
async def test_killed_services_pay_for_nothing_twice(
    server: WorkflowEnvironment, tmp_path: Path, providers: BatchProviders
) -> None:
    """One turn waits for its batch, the other's batch was just made, and nobody has heard of it."""
    queue = f"test-{uuid4().hex}"
    place = Place(tmp_path / "workshop", LlmDoClient(server.client, task_queue=queue), queue)
    place.folder.mkdir()
    place.workshop(
        models={one: providers.alias("responses", f"killed-{one}") for one in ("waiting", "making")}, turns="batch"
    )
    waiting, making = providers.accounts["killed-waiting"], providers.accounts["killed-making"]
    waiting.runs, making.creation = False, threading.Event()
    for one in ("waiting", "making"):
        place.worker(one, one)
    service = await _service(place)
    try:
        runs = await asyncio.gather(place.start("waiting"), place.start("making"))
        await until(lambda: waiting.looks > 1 and bool(making.jobs))
        service.kill()
        await service.wait()
        making.creation.set()
        making.creation, waiting.runs = None, True
        service = await _service(place)
        results = await asyncio.gather(*(place.client.result(run) for run in runs))
    finally:
        service.kill()
        await service.wait()

    assert [result.output for result in results] == ["done", "done"]
    assert (len(waiting.sent), len(making.sent)) == (1, 1)


async def _service(place: Place) -> asyncio.subprocess.Process:
    told = {
        **os.environ,
        **place.variables,
        "LLM_DO_TASK_QUEUE": place.queue,
        "LLM_DO_BATCH_WINDOW_SECONDS": "0.2",
        "LLM_DO_BATCH_CHECK_SECONDS": "0.2",
    }
    arguments = ("-m", "worker_service", "--workshop", str(place.folder))
    root = Path(__file__).parents[2]
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=root, env=told)
