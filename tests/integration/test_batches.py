"""One run for many inputs: so many at once, one that fails stops no other, and the rest can be done again."""

from __future__ import annotations

import asyncio
import csv
import html
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.errors import BudgetExceeded, RunCancelled, UsageError
from llm_do_temporal.messages.runs import Batch, BatchItem, ItemCounts, ItemResult
from llm_do_temporal.testing import Turn, call, scripted
from llm_do_temporal.workflows.run import notifications
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.runs.batch_items import batch_of
from tests.support.runs.place import Place
from tests.support.servers.receiver import Receiver

POLL_SECONDS = 0.1


def numbered(count: int) -> tuple[str, ...]:
    return tuple(f"n{number:02}" for number in range(count))


def told(messages: list[ModelMessage]) -> str:
    return json.dumps(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))


def echo(messages: list[ModelMessage]) -> str:
    """The name of the item; one with `bad` in it breaks."""
    said = told(messages)
    if "item bad" in said:
        raise AssertionError("this one cannot be read")
    return said.split("item ")[1][:3]


async def outputs(place: Place, run: str) -> dict[str, Any]:
    """What became of each item, by name."""
    view = await place.client.view(run)
    return {item.name: (item.status, item.output) for item in view.items.values()}


async def test_as_many_items_as_were_asked_for_are_worked_on_at_once(place: Place) -> None:
    together = asyncio.Barrier(3)
    at_work: set[int] = set()
    peaks: list[int] = []

    async def answer(messages: list[ModelMessage]) -> Turn:
        at_work.add(id(messages))
        peaks.append(len(at_work))
        await together.wait()
        at_work.remove(id(messages))
        return echo(messages)

    place.worker("main", scripted(answer))
    names = numbered(9)
    run = await place.start("main", prompt="", batch=batch_of(*names, concurrency=3))
    result = await place.client.result(run)
    assert result.items == tuple(ItemResult(name=name, status="completed") for name in names)
    assert result.usage.requests == 9
    assert max(peaks) == 3
    assert await outputs(place, run) == {name: ("completed", name) for name in names}


async def test_an_item_that_fails_stops_no_other(place: Place) -> None:
    place.worker("main", scripted(echo))
    run = await place.start("main", prompt="Look.", batch=batch_of("bad", "n01", "n02", concurrency=1))
    result = await place.client.result(run)
    assert result.items is not None
    assert [(item.name, item.status) for item in result.items] == [
        ("bad", "failed"),
        ("n01", "completed"),
        ("n02", "completed"),
    ]
    counts = ItemCounts(total=3, completed=2, failed=1)
    assert (await place.client.status(run)).items == counts  # with no history read
    view = await place.client.view(run)
    assert view.counts == counts
    bad, first, _ = view.items.values()
    assert (bad.status, bad.output) == ("failed", None)
    assert bad.error is not None
    assert "this one cannot be read" in bad.error["message"]
    assert (first.output, first.usage.requests, first.path) == ("n01", 1, "main/item-2")
    assert [node.path for node in view.ordered] == ["main/item-1", "main/item-2", "main/item-3"]
    assert view.delegations == (0, 0)


@pytest.mark.extension("export")
async def test_the_results_of_a_batch_are_a_table_on_the_page_and_in_a_file(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, value in {**place.variables, "LLM_DO_TASK_QUEUE": place.queue}.items():
        monkeypatch.setenv(name, value)

    def answer(messages: list[ModelMessage]) -> str:
        return f'=cmd|{echo(messages)}, "two"\nlines'

    place.worker("main", scripted(answer))
    run = await place.start("main", prompt="Look.", batch=batch_of("bad", "n01", "n02", concurrency=2))
    await place.client.result(run)
    file = tmp_path / "results.csv"
    words = ["export", run, "-o", str(file), "--workshop", str(place.folder)]
    assert await asyncio.to_thread(run_command, words) == 0, capsys.readouterr()
    assert file.read_bytes().startswith(b"\xef\xbb\xbfitem,file,given,status,output,error,")
    with file.open(encoding="utf-8-sig", newline="") as opened:
        bad, *good = list(csv.DictReader(opened))
    assert [(one["item"], one["given"], one["status"], one["output"], one["path"]) for one in good] == [
        (name, f"item {name}", "completed", f'\'=cmd|{name}, "two"\nlines', f"main/item-{number}")
        for number, name in ((2, "n01"), (3, "n02"))
    ]
    assert all(float(one["seconds"]) > 0 and int(one["output_tokens"]) > 0 for one in good)
    assert (bad["item"], bad["status"], bad["output"]) == ("bad", "failed", "")
    assert "this one cannot be read" in bad["error"]

    ada = await signed_in_browser(place)
    page = await page_with(ada, f"/runs/{run}", "Results 2 of 3", "=cmd|n02", "Download as CSV")
    assert page.text.index("Results 2 of 3") < page.text.index("Failed 1")
    sent = await ada.client.get(f"/runs/{run}/results.csv")
    assert sent.headers["content-disposition"].startswith("attachment;")
    assert sent.content == file.read_bytes()

    alone = await place.start("main", prompt="item n07")
    await place.client.result(alone)
    capsys.readouterr()
    words = ["export", alone, "--format", "csv", "--workshop", str(place.folder)]
    assert await asyncio.to_thread(run_command, words) == 0
    (row,) = list(csv.DictReader(io.StringIO(capsys.readouterr().out, newline="")))
    assert (row["item"], row["status"], row["run"]) == ("item n07", "completed", alone)
    assert row["output"].startswith("'=cmd|n07")


@pytest.mark.extension("export")
async def test_an_item_whose_file_cannot_be_used_stands_wherever_its_run_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**place.variables, "LLM_DO_TASK_QUEUE": place.queue}.items():
        monkeypatch.setenv(name, value)
    place.worker("main", scripted(echo))
    empty = BatchItem(name="in/empty.csv", unusable="the file 'in/empty.csv' is empty")
    items = (empty, BatchItem(name="n01", prompt="item n01"))
    run = await place.start("main", prompt="Look.", batch=Batch(items=items).model_dump(mode="json"))
    await place.client.result(run)

    async def printed(*words: str) -> str:
        assert await asyncio.to_thread(run_command, [*words, "--workshop", str(place.folder)]) == 0
        return capsys.readouterr().out

    line = "main/item-1 (in/empty.csv) failed, no invocation: the file 'in/empty.csv' is empty"
    assert line in (await printed("show", run)).splitlines()
    assert line in (await printed("export", run)).splitlines()
    assert line in html.unescape(await printed("export", run, "--format", "html"))
    for words in (("show", run, "--json"), ("export", run, "--format", "json")):
        record = json.loads(await printed(*words))
        assert [item["item"] for item in record["items"]] == ["in/empty.csv", "n01"]
        assert record["items"][0]["error"]["message"] == "the file 'in/empty.csv' is empty"
        assert [one["path"] for one in record["invocations"]] == ["main/item-2"]
    (bad, _) = csv.DictReader(io.StringIO(await printed("export", run, "--format", "csv"), newline=""))
    assert (bad["item"], bad["file"], bad["status"]) == ("in/empty.csv", "empty.csv", "failed")


async def test_what_failed_is_done_again_by_itself(place: Place) -> None:
    place.worker("main", scripted(echo))
    run = await place.start("main", prompt="Look.", batch=batch_of("n00", "bad", "n02"), mode="approve_all")
    await place.client.result(run)
    again = await place.client.unfinished(run)
    assert (again.worker, again.prompt, again.mode) == ("main", "Look.", "approve_all")
    assert again.batch is not None
    assert [item.name for item in again.batch.items] == ["bad"]
    place.worker("main", scripted("Read after all."))
    second = await place.client.start(again)
    place.started.append(second)
    await place.client.result(second)
    assert await outputs(place, second) == {"bad": ("completed", "Read after all.")}
    with pytest.raises(UsageError, match=r"all 1 items of run .* have completed"):
        await place.client.unfinished(second)


async def test_what_a_cancelled_batch_never_did_is_left_over(place: Place) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def answer(messages: list[ModelMessage]) -> Turn:
        if "item n01" in told(messages):
            begun.set()
            await never.wait()
        return echo(messages)

    place.worker("main", scripted(answer))
    run = await place.start("main", prompt="", batch=batch_of(*numbered(4), concurrency=1))
    await begun.wait()
    with pytest.raises(UsageError, match="has not ended"):
        await place.client.unfinished(run)
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)
    assert {name: status for name, (status, _) in (await outputs(place, run)).items()} == {
        "n00": "completed",
        "n01": "cancelled",
        "n02": "not done",
        "n03": "not done",
    }
    assert (await place.client.status(run)).items == ItemCounts(total=4, completed=1)
    again = (await place.client.unfinished(run)).batch
    assert again is not None
    assert [item.name for item in again.items] == ["n01", "n02", "n03"]


async def test_a_run_without_items_has_nothing_to_do_again(place: Place) -> None:
    place.worker("main", scripted("Done."))
    run = await place.start("main")
    await place.client.result(run)
    with pytest.raises(UsageError, match="is no batch") as refused:
        await place.client.unfinished(run)
    assert f"`llm-do-temporal fork {run}`" in str(refused.value.next_step)
    with pytest.raises(UsageError, match="there is no run 'nobody'"):
        await place.client.unfinished("nobody")


async def test_questions_of_all_items_are_answered_at_the_run(place: Place) -> None:
    write = call("write_file", path="/done.txt", content="done")
    place.worker("main", scripted(write, "Done."), toolsets={"filesystem": {}})
    run = await place.start("main", batch=batch_of("n00", "n01"))
    pending = await place.pending(run, 2)
    assert {one.request.path for one in pending} == {"main/item-1", "main/item-2"}
    for one in pending:
        await place.decide(run, id=one.id)
    result = await place.client.result(run)
    assert [item.status for item in result.items or ()] == ["completed", "completed"]


@pytest.mark.thorough
async def test_items_that_wait_for_a_person_hold_up_no_other_and_go_on_when_answered(place: Place) -> None:
    write = call("write_file", path="/done.txt", content="done")

    def first(messages: list[ModelMessage]) -> Turn:
        return write if "item n0" in told(messages) else echo(messages)

    place.worker("main", scripted(first, "Done."), toolsets={"filesystem": {}})
    asking, others = numbered(10), ("x00", "x01", "x02")
    run = await place.start("main", prompt="", batch=batch_of(*asking, *others, concurrency=2))
    pending = await place.pending(run, 10)
    found = await outputs(place, run)
    while any(found[name] != ("completed", name) for name in others):
        await asyncio.sleep(POLL_SECONDS)
        found = await outputs(place, run)
    assert {found[name] for name in asking} == {("not done", None)}
    for one in pending:
        await place.decide(run, id=one.id)
    result = await place.client.result(run)
    assert [item.status for item in result.items or ()] == ["completed"] * 13


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.mark.thorough
async def test_a_batch_goes_on_as_new_and_forgets_nothing(
    hasty: Place, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A slow machine is no target that does not answer.
    monkeypatch.setattr(notifications, "FAREWELL", timedelta(minutes=2))
    told_at_the_end = {"url": receiver.url, "format": "slack", "events": ["run.completed"]}
    told_of_failures = told_at_the_end | {"events": ["run.failed"]}
    hasty.workshop(limits={"turns": 100, "invocations": 14}, notify=[told_at_the_end, told_of_failures])
    write = call("write_file", path="/done.txt", content="done")
    all_answered = asyncio.Event()

    async def first(messages: list[ModelMessage]) -> Turn:
        if "item n0" in told(messages):
            return write
        # While a person is asked, a batch goes on in the same history.
        await all_answered.wait()
        return echo(messages)

    hasty.worker("main", scripted(first, "Done."), toolsets={"filesystem": {}})
    names = (*numbered(13), "bad")
    run = await hasty.start("main", prompt="", batch=batch_of(*names, concurrency=2))
    answered: set[str] = set()
    while len(answered) < 10:
        # One that was answered a moment ago may still be listed.
        for one in await hasty.pending(run):
            if one.id not in answered:
                answered.add(one.id)
                await hasty.decide(run, id=one.id)
    all_answered.set()
    assert answered == {f"a{number}" for number in range(1, 11)}
    result = await hasty.client.result(run)
    assert [item.status for item in result.items or ()] == ["completed"] * 13 + ["failed"]
    assert result.usage.requests == 23
    found = await outputs(hasty, run)
    assert list(found) == list(names)
    assert found["n00"] == ("completed", "Done.")
    assert found["n12"] == ("completed", "n12")
    assert len(await hasty.chain(run)) >= 2
    assert [one.event for one in receiver.told] == ["run.completed", "run.completed"]
    assert {one.json["text"] for one in receiver.told} == {"main has completed, 1 of 14 failed"}
    assert (await hasty.client.status(run)).items == ItemCounts(total=14, completed=13, failed=1)
    asked = await hasty.client.questions(run)
    assert [one.id for one in asked] == [f"a{number}" for number in range(1, 11)]
    assert {one.verdict.decision for one in asked if one.verdict} == {"approve"}
    unfinished = await hasty.client.unfinished(run)
    assert unfinished.batch is not None
    assert (unfinished.batch.items[0].name, len(unfinished.batch.items), unfinished.continued) == ("bad", 1, None)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("limits", "what"), [({"invocations": 3}, "3 invocations"), ({"turns": 2}, "2 turns")])
async def test_a_batch_stops_at_the_limit_of_its_run(place: Place, limits: dict[str, int], what: str) -> None:
    model = scripted(echo)
    place.worker("main", model)
    run = await place.start("main", prompt="", batch=batch_of(*numbered(5), concurrency=1), limits=limits)
    with pytest.raises(BudgetExceeded, match=f"its limit is {what}"):
        await place.client.result(run)
    done = next(iter(limits.values()))
    assert len(model.requests) == done
    again = (await place.client.unfinished(run)).batch
    assert again is not None
    assert len(again.items) == 5 - done


async def test_typed_input_is_checked_item_by_item(place: Place) -> None:
    place.write(
        "inputs.py",
        "from llm_do_temporal.args import WorkerArgs\n\n\nclass Deck(WorkerArgs):\n    name: str\n",
    )
    place.worker("main", scripted("Seen."), schema_in_ref="inputs.py:Deck")
    items = [{"name": "good", "input": {"name": "A"}}, {"name": "wrong", "input": {"nome": "A"}}]
    run = await place.start("main", prompt="", batch={"items": items})
    await place.client.result(run)
    good, wrong = (await place.client.view(run)).items.values()
    assert (good.status, good.output) == ("completed", "Seen.")
    assert wrong.error is not None
    assert "name" in wrong.error["message"]
