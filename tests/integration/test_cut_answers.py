"""Answers that stop before their end: marked wherever people and programs look, and no half call is carried out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from llm_do_temporal.cli.output import RunOutcome, report
from llm_do_temporal.doors.principal import TokenScope
from llm_do_temporal.errors import ModelFailed
from tests.support.dialects.answers import Answer, Ask, asks, says
from tests.support.dialects.forms import cases_of
from tests.support.dialects.one_turn import ROOM
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.doors.http_client import program
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.runs.batch_items import batch_of
from tests.support.runs.delegation import delegation_to
from tests.support.runs.place import Place

FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}}
ENDS: dict[Any, str] = {
    "length": "length",
    "window": "length",
    "filter": "content_filter",
    "recitation": "content_filter",
}
RESULT: dict[str, Any] = {"output_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
WRITE = Ask("write_file", {"path": "/b.txt", "content": "half"})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_a_cut_text_is_marked_and_a_half_call_is_not_carried_out(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    name = f"cut-{adapter}-{live}".lower()
    read = Ask("read_file", {"path": "/a.txt"})
    cases: dict[str, tuple[Answer, ...]] = {
        **{end: (says("Two and", end=end),) for end in ENDS},
        **{f"call-{end}": (says("I write.", WRITE, end=end), says("Done.")) for end in ENDS},
        "bare": (says(Ask("list_files", {}), end="length"), says("Done.")),
        "first": (says(read, WRITE, end="length"), says("Done.")),
        "after": (says(read, "and then", end="length"), says("Done.")),
        "final": (asks("final_result", n=1),),
        "cut-final": (says(Ask("final_result", {"n": 1}), end="length"), asks("final_result", n=2)),
    }
    turns = cases_of(cases, adapter, live, every=[*ENDS, "first", "after", "cut-final"])
    aliases = {one: providers.alias(adapter, f"{name}-{one}", *said) for one, said in turns.items()}
    place.workshop(models=aliases, live_text=live, model_settings=ROOM)
    place.write("a.txt", "Two lines")
    for one in turns:
        place.worker(one, one, **(RESULT if "final" in one else {}), **FILES)

    came = dict(zip(turns, await asyncio.gather(*(place.run(one, mode="approve_all") for one in turns)), strict=True))

    assert {end: (came[end].output, came[end].truncated) for end in ENDS} == {
        end: ("Two and", reason) for end, reason in ENDS.items()
    }
    whole = {one: (came[one].output, came[one].truncated) for one in turns if one not in ENDS}
    final = {"final": ({"n": 1}, None), "cut-final": ({"n": 2}, None)}
    assert whole == {one: final.get(one, ("Done.", None)) for one in whole}
    scripts = {one: providers.scripts[f"{name}-{one}"] for one in turns}
    assert {one: script.complaints for one, script in scripts.items() if script.complaints} == {}
    assert not (place.folder / "b.txt").exists()
    told = {one: json.dumps(script.requests[-1]) for one, script in scripts.items()}
    assert all(
        "so nothing was done" in told[one] for one in told if one.startswith("call-") or one in ("bare", "first")
    )
    assert "Two lines" in told["first"]
    # In OpenAI's chat protocol no text comes after a call.
    assert ("Two lines" in told["after"]) is (adapter not in ("chat", "template"))
    assert "within the result" in told["cut-final"]


async def test_a_model_that_is_always_cut_within_its_calls_is_given_up(place: Place, providers: Providers) -> None:
    place.workshop(models={"m": providers.alias("chat", "always", *[says(WRITE, end="length")] * 4)})
    place.worker("main", "m", **FILES)
    with pytest.raises(ModelFailed, match="the model's answer was cut off") as ended:
        await place.run("main")
    assert "max_tokens" in str(ended.value.next_step)


@pytest.mark.thorough
async def test_whoever_asks_for_the_run_is_told(place: Place, providers: Providers) -> None:
    place.workshop(models={"m": providers.alias("chat", "told", says("Two and", end="length"))})
    place.worker("main", "m", export=True)
    ci = program(place, scopes=frozenset({TokenScope.START, TokenScope.READ}))
    run = (await ci.start("main", "go")).body["run"]
    place.started.append(run)
    ended = await ci.until(run, "completed")
    assert (ended["output"], ended["truncated"]) == ("Two and", "length")
    ada = await signed_in_browser(place)
    await page_with(ada, f"/runs/{run}", "Two and", "Not whole: the answer was cut off at its provider's limit.")


async def test_items_of_a_batch_are_marked(place: Place, providers: Providers) -> None:
    aliases = {"m": providers.alias("chat", "items", says("Two and", end="filter"), says("Whole."))}
    place.workshop(models=aliases)
    place.worker("main", "m")
    run = await place.start("main", prompt="", batch=batch_of("cut", "whole", concurrency=1))
    result = await place.client.result(run)
    assert result.items is not None
    assert [(item.name, item.truncated) for item in result.items] == [("cut", "content_filter"), ("whole", None)]
    view = await place.client.view(run)
    told = [item.as_json() for item in view.items.values()]
    assert [one.get("truncated", "whole") for one in told] == ["content_filter", "whole"]
    ada = await signed_in_browser(place)
    await page_with(ada, f"/runs/{run}", "Not whole 1", "cut the answer was cut off by its provider's content filter")


async def test_a_caller_is_told_that_the_answer_of_its_worker_was_cut(place: Place, providers: Providers) -> None:
    aliases = {
        "top": providers.alias("chat", "caller", asks("leaf", input="go"), says("Done.")),
        "leaf": providers.alias("chat", "callee", says("Two and", end="length")),
    }
    place.workshop(models=aliases)
    place.worker("leaf", "leaf")
    place.worker("main", "top", toolsets=delegation_to("leaf"))
    result = await place.run("main", mode="approve_all")
    assert (result.output, result.truncated) == ("Done.", None)
    told = json.dumps(providers.scripts["caller"].requests[-1])
    assert "This answer of 'leaf' is not whole: the answer was cut off at its provider's limit." in told


def test_the_command_line_marks_it(capsys: pytest.CaptureFixture[str]) -> None:
    cut = RunOutcome("r", "completed", output="Two and", truncated="length")
    report(cut, "json")
    report(cut, "text")
    printed = capsys.readouterr()
    assert '"truncated": "length"' in printed.out
    assert "the result is not whole: the answer was cut off at its provider's limit" in printed.err
    assert "truncated" not in RunOutcome("r", "completed", output="Two.").as_json()
