"""Runs that look their steps up in the record of another run: what is in it is not done again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from llm_do_temporal.messages.runs import RunResult
from llm_do_temporal.testing import Turn, call, scripted
from tests.support.dialects.answers import asks, says
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.extensions.forks.small_records import WRITE, answers_of, key_of, recorded
from tests.support.runs.place import Place

FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}}


@pytest.fixture
def providers() -> Iterator[Providers]:
    """Servers that speak the protocols of all adapters."""
    with Providers() as providers:
        yield providers


async def test_a_run_aside_leaves_the_files_alone(place: Place) -> None:
    place.worker("main", scripted(call("write_file", **WRITE), "Done."), **FILES)
    result = await place.run("main", aside=True)
    assert result.output == "Done."
    assert result.layer is not None
    assert list(result.layer.recent.entries) == ["done.txt"]
    assert not (place.folder / "done.txt").exists()


async def test_equal_runs_have_equal_keys_and_others_have_others(place: Place) -> None:
    place.worker("main", scripted(call("write_file", **WRITE), "Done."), **FILES)
    keys: list[list[str]] = []
    for prompt in ("one", "one", "two"):
        run = await place.start("main", prompt, aside=True)
        await place.client.result(run)
        keys.append([key_of(answer) for answer in await answers_of(place, run)])
    assert keys[0] == keys[1]
    assert len({*keys[0], *keys[2]}) == 4


async def test_recorded_turns_and_calls_are_not_made_again(place: Place) -> None:
    model = scripted(call("write_file", **WRITE), "Done.", "Never asked.")
    place.worker("main", model, **FILES)
    run = await place.start("main", aside=True)
    first = await place.client.result(run)
    again = await place.run("main", aside=True, parts={"forks": await recorded(place, run, 2)})
    assert again.output == "Done."
    assert len(model.requests) == 2
    assert again.usage.requests == 0
    assert again.usage.saved is not None
    assert (again.usage.saved.requests, again.usage.saved.input_tokens) == (2, first.usage.input_tokens)
    assert again.usage.input_tokens == 0
    assert again.layer is not None
    assert first.layer is not None
    assert again.layer.recent.entries["done.txt"].now == first.layer.recent.entries["done.txt"].now


async def test_a_rule_that_was_made_since_holds_for_what_a_fork_does_anew(place: Place) -> None:
    second: list[Turn] = ["Done.", call("write_file", path="/other.txt", content="other")]
    model = scripted(call("write_file", **WRITE), lambda _: second.pop(0), "Refused.")
    place.worker("main", model, **FILES)
    run = await place.start("main", aside=True)
    await place.client.result(run)
    record = await recorded(place, run, 1)
    place.workshop(approvals={"rules": {"sandbox.write": "blocked"}})
    again = await place.run("main", aside=True, parts={"forks": record})
    assert again.output == "Refused."
    assert again.layer is not None
    assert list(again.layer.recent.entries) == ["done.txt"]


@pytest.mark.thorough
async def test_a_provider_gets_the_same_request_after_reused_turns(place: Place, providers: Providers) -> None:
    """A turn after reused ones is asked for exactly as it was then: all four adapters send the same bytes again."""
    place.workshop(
        models={name: providers.alias(name, name, asks("write_file", **WRITE), says("Done.")) for name in ADAPTERS}
    )
    for name in ADAPTERS:
        place.worker(name, name, **FILES)

    async def forked(name: str) -> RunResult:
        run = await place.start(name, aside=True)
        await place.client.result(run)
        return await place.run(name, aside=True, parts={"forks": await recorded(place, run, 1, name)})

    results = dict(zip(ADAPTERS, await asyncio.gather(*map(forked, ADAPTERS)), strict=True))
    assert {name: providers.scripts[name].complaints for name in ADAPTERS} == {name: [] for name in ADAPTERS}
    # A request that is not what it was then would have got no answer: the script has none left.
    came = {name: (result.output, result.usage.requests) for name, result in results.items()}
    assert came == dict.fromkeys(ADAPTERS, ("Done.", 1))
    assert {name: len(providers.scripts[name].requests) for name in ADAPTERS} == dict.fromkeys(ADAPTERS, 2)
