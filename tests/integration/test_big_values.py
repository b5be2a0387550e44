"""Values that are too big for a history: they travel by way of the blob store, and `gc` knows what is needed of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.activities.models import conversations
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.record.results import read_results
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.sizes import KEPT_FROM_BYTES
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE
from llm_do_temporal.testing import call, scripted
from tests.support.runs.batch_items import batch_of
from tests.support.runs.garbage import blobs_of, collect_garbage, plant_garbage
from tests.support.runs.place import Place

LARGE = "語" * 1_000_000
"""3 MB, which Temporal does not carry."""
TOOLS = """\
def large() -> str:
    return "x" * 3_000_000
"""
CUSTOM: dict[str, Any] = {"custom": {"large": {"pre_approved": True}}}


def largest_event(histories: list[WorkflowHistory]) -> int:
    return max(len(event.SerializeToString()) for history in histories for event in history.events)


async def test_prompts_results_and_answers_larger_than_temporal_carries(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    """Also where the conversation is put together from the history each time."""

    def forget(_conversations: object, _run: str, _whole: object) -> None:
        """Keep nothing."""

    monkeypatch.setattr(conversations.Conversations, "_remember", forget)
    place.write("tools.py", TOOLS)
    model = scripted(call("large"), call("large"), LARGE)
    place.worker("main", model, toolsets=CUSTOM)
    result = await place.run("main", LARGE)
    assert result.output == LARGE
    last = model.requests[-1]
    assert last.prompt == LARGE
    assert [one.text for one in last.results("large")] == ["x" * 3_000_000] * 2
    assert largest_event(await place.histories()) < KEPT_FROM_BYTES + 50_000


async def test_a_client_without_the_blob_store_says_what_it_cannot_read(
    place: Place, server: WorkflowEnvironment
) -> None:
    place.worker("main", scripted(LARGE))
    run = await place.start("main", LARGE)
    await place.client.result(run)
    elsewhere = LlmDoClient(server.client)
    with pytest.raises(UsageError, match="kept in the blob store of its workshop"):
        await elsewhere.result(run)
    (node,) = (await elsewhere.view(run)).ordered
    assert (node.path, node.worker, node.status) == ("main", "main", "completed")
    told = [event.data["text"] async for event in elsewhere.follow(run).events() if event.type == "turn.completed"]
    assert told == [KEPT_OUTSIDE]
    told = [event.data["text"] async for event in place.client.follow(run).events() if event.type == "turn.completed"]
    assert told == [LARGE]
    assert (await place.client.view(run)).usage.requests == 1


@pytest.mark.thorough
async def test_a_table_says_which_results_are_not_at_hand(place: Place, server: WorkflowEnvironment) -> None:
    place.worker("main", scripted(LARGE))
    batch = await place.start("main", prompt="", batch=batch_of("a"))
    large = await place.start("main", LARGE)
    for run in (batch, large):
        await place.client.result(run)
    (whole,) = await read_results(place.client.temporal, batch)
    (other,) = await read_results(server.client, batch)
    assert (whole.item.output, other.item.output) == (LARGE, KEPT_OUTSIDE)
    assert [one.item.output for one in await read_results(place.client.temporal, large)] == [LARGE]
    with pytest.raises(UsageError, match="kept in the blob store of its workshop"):
        await read_results(server.client, large)


async def test_a_question_with_large_arguments_is_shown_whole_and_answered(
    place: Place, server: WorkflowEnvironment
) -> None:
    content = "x" * 900_000
    place.worker(
        "main", scripted(call("write_file", path="/a.txt", content=content), "Written."), toolsets={"filesystem": {}}
    )
    run = await place.start("main")
    (question,) = await place.pending(run)
    assert question.request.args["content"] == content
    with pytest.raises(UsageError, match="kept in the blob store of its workshop"):
        await LlmDoClient(server.client).approvals(run)
    await place.decide(run, id=question.id)
    assert (await place.client.result(run)).output == "Written."
    assert (place.folder / "a.txt").read_text() == content


async def listed(place: Place, run: str) -> None:
    """Wait until the server lists the run: `gc` reads the histories of those that it lists."""
    while run not in {one.run for one in await place.client.runs(RunFilter(begins=run))}:  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0.05)


@pytest.mark.thorough
@pytest.mark.extension("maintenance")
async def test_gc_removes_what_no_run_needs_and_nothing_else(place: Place) -> None:
    place.write("notes.txt", "Attached.")
    reader = scripted("Read.")
    place.worker("reader", reader, attachment_policy={"allowed_suffixes": [".txt"]})
    delegate = call("worker_call", worker_name="reader", input_data="go", attachments=["/notes.txt"])
    place.worker("asking", scripted(delegate, LARGE), toolsets={"delegation": {"allow_workers": ["reader"]}})
    run, other = await place.start("asking", LARGE), await place.start("reader")
    await place.client.result(other)
    await place.pending(run)
    for one in (run, other):
        await listed(place, one)
    lost = plant_garbage(place)
    needed = {one.sha256 for one in blobs_of(place).stored()} - {lost}
    assert len(needed) >= 2

    recent = await collect_garbage(place, timedelta(days=400))
    assert recent.removed == ()
    planned = await collect_garbage(place, dry_run=True)
    # A workflow's task that is tried again may leave a value behind that no history has come to need.
    assert lost in (useless := {one.sha256 for one in planned.removed})
    assert blobs_of(place).size(lost)
    done = await collect_garbage(place)
    assert {one.sha256 for one in done.removed} == useless
    assert {one.sha256 for one in done.left} >= needed - useless
    assert done.workflows >= 2

    await place.decide(run, id="a1")
    assert (await place.client.result(run)).output == LARGE
    assert "Attached." in reader.requests[-1].prompt
    await collect_garbage(place)
    assert (await place.client.result(run)).output == LARGE
