"""What a person sees of the task of a run that has no prompt of its own: the item of a batch, or the input."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.client.open_questions import read_run
from llm_do_temporal.messages.runs import Batch, BatchItem
from llm_do_temporal.testing import scripted
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place

ITEMS = Batch(
    items=(
        BatchItem(name="rows.jsonl:1", prompt="Reply to Bob"),
        BatchItem(name="rows.jsonl:2", input={"to": "Cleo"}),
        BatchItem(name="deck.pdf"),
    )
)


TASKS = {
    "main/item-1": "Reply to Bob",
    "main/item-2": '{"to": "Cleo"}',
    "main/item-3": "deck.pdf",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        ({"batch": ITEMS}, TASKS),
        ({"batch": ITEMS, "prompt": "Be brief."}, {path: f"{task}: Be brief." for path, task in TASKS.items()}),
        ({"input": {"n": 7}}, {"main": '{"n": 7}'}),
    ],
)
async def test_each_view_of_a_question_says_what_it_is_about(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: dict[str, Any],
    tasks: dict[str, str],
) -> None:
    for name, value in {**place.variables, "LLM_DO_TASK_QUEUE": place.queue}.items():
        monkeypatch.setenv(name, value)
    place.worker("main", scripted(write_call("/a.txt"), "Done."), toolsets=FILESYSTEM)
    run = await place.start("main", **{"prompt": "", **given})
    asked = await place.pending(run, len(tasks))
    assert {one.request.path: one.task for one in asked} == tasks
    ada = await signed_in_browser(place)
    await page_with(ada, f"/?run={run}&view=each", *tasks.values())
    assert {one.path: one.task for one in (await place.client.inbox(run)).entries} == tasks
    assert {
        one.path: one.task for group in (await read_run(place.client, run)).groups for one in group.entries
    } == tasks
    words = ["approvals", run, "--json", "--workshop", str(place.folder)]
    assert await asyncio.to_thread(run_command, words) == 0
    assert {one["path"]: one["task"] for one in json.loads(capsys.readouterr().out)} == tasks
    for one in asked:
        assert one.task in (await ada.open(f"/runs/{run}/approvals/{one.id}")).text
    await place.client.cancel(run)
