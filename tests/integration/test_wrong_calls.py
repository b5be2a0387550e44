"""Tool calls that are nearly right, wrong again and again, or cut, over HTTP through the adapters of four protocols."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.errors import ModelFailed
from tests.support.dialects.answers import Answer, Ask, asks, says
from tests.support.dialects.forms import cases_of
from tests.support.dialects.one_turn import ROOM
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.runs.place import Place

FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}}
SERVER = str(Path(__file__).parents[1] / "support/servers/mcp_server.py")
TOOLS = """
def order(names: list[str], count: int | None = None, rush: bool = False) -> str:
    "Order things."
    return f"{names!r} {count!r} {rush!r}"
"""
RESULT: dict[str, Any] = {
    "output_schema": {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
}


NEARLY = {
    "null": asks("read_file", path="/a.txt", max_chars=None),
    "number": asks("read_file", path="/a.txt", max_chars="5"),
    "unknown-null": asks("read_file", path="/a.txt", encoding=None),
    "twice-json": says(Ask("read_file", json.dumps('{"path": "/a.txt"}'))),
}
"""Calls whose arguments can be read in one way only."""
WRONG = {
    "one-key-too-many": asks("read_file", path="/a.txt", encoding="utf-8"),
    "no-json": says(Ask("read_file", '{"path": ')),
    "no-object": says(Ask("read_file", "[1]")),
    "no-such-tool": asks("read_files", path="/a.txt"),
    "worker-call": asks("worker_call", worker_name="helper", input_data="x", model="m"),
    "named-worker": asks("helper", input=None),
    "python-tool": asks("order", names="a, b"),
    "mcp-tool": asks("add", first="one", second=2),
}
"""Calls that stay wrong."""
DIFFERENT = ("twice-json", "one-key-too-many", "no-json", "no-object")
"""Calls that protocols write in ways of their own."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_slips_end_no_run(place: Place, providers: Providers, adapter: str, live: bool) -> None:
    dialect = cases_of({**NEARLY, **WRONG}, adapter, live, every=DIFFERENT)
    if adapter in ("google", "anthropic"):
        # Their arguments are values and no texts.
        dialect = {
            one: turn for one, turn in dialect.items() if all(isinstance(call.args, dict) for call in turn.calls)
        }
    name = f"slips-{adapter}-{live}".lower()
    turns = {one: (*[turn] * (1 if one in NEARLY else 5), says("Done.")) for one, turn in dialect.items()}
    aliases = {one: providers.alias(adapter, f"{name}-{one}", *said) for one, said in turns.items()}
    aliases["help"] = providers.alias(adapter, f"{name}-help", says("Helped."))
    place.workshop(models=aliases, live_text=live, model_settings=ROOM)
    place.write("a.txt", "Two lines of text")
    place.write("tools.py", TOOLS)
    place.worker("helper", "help")
    toolsets: dict[str, Any] = {
        "filesystem": {},
        "delegation": {"helper": {}, "allow_workers": ["*"]},
        "custom": {"order": {}},
    }
    sums = {"mcp": {"sums": {"command": [sys.executable, SERVER]}}}
    for one in dialect:
        place.worker(one, one, toolsets=toolsets | (sums if one == "mcp-tool" else {}))
    came = dict(zip(dialect, await asyncio.gather(*(place.outcome(one) for one in dialect)), strict=True))
    assert came == dict.fromkeys(dialect, ("Done.", ""))
    scripts = {one: providers.scripts[f"{name}-{one}"] for one in dialect}
    assert {one: script.complaints for one, script in scripts.items() if script.complaints} == {}
    for one, script in scripts.items():
        told = json.dumps(script.requests)
        assert ("Two l" in told) is (one in NEARLY), one
        assert "pydantic.dev" not in told
        assert ("was wrong 4 times in a row" in told) is (one in WRONG and one != "no-such-tool"), one
    assert "('encoding' was unexpected); allowed are '" in json.dumps(scripts["one-key-too-many"].requests)


async def test_people_are_shown_what_is_done(place: Place, providers: Providers) -> None:
    turn = asks("order", names='["a", "b"]', count="5", rush=None)
    alias = providers.alias("chat", "shown", turn, says("Done."))
    place.workshop(models={"m": alias})
    place.write("tools.py", TOOLS)
    place.worker("main", "m", toolsets={"custom": {"order": {}}})
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert asked.request.args == {"names": ["a", "b"], "count": 5}
    await place.decide(run, "approve")
    assert (await place.client.result(run)).output == "Done."
    assert "['a', 'b'] 5 False" in json.dumps(providers.scripts["shown"].requests[-1])


async def test_a_result_that_never_fits_says_what_did_not_fit(place: Place, providers: Providers) -> None:
    wrong: dict[str, Answer] = {
        "type": asks("final_result", n="x"),
        "prose": says("Two."),
        "no-json": says(Ask("final_result", '{"n": ')),
    }
    told = {"type": "'x' is not of type 'integer'", "prose": "", "no-json": "the result is not valid: Invalid JSON"}
    aliases = {one: providers.alias("chat", f"never-{one}", *[turn] * 4) for one, turn in wrong.items()}
    place.workshop(models=aliases)
    for one in wrong:
        place.worker(one, one, **RESULT)
        with pytest.raises(ModelFailed) as ended:
            await place.run(one)
        assert told[one] in str(ended.value)
        assert "the model's answers could not be used: " in str(ended.value)
        assert "http" not in str(ended.value)
        assert "retries" not in str(ended.value)


@pytest.mark.thorough
async def test_a_tool_that_does_not_exist_is_not_asked_for_without_end(place: Place, providers: Providers) -> None:
    alias = providers.alias("chat", "endless", *[asks("no_such_tool", x=1)] * 20)
    place.workshop(models={"m": alias})
    place.worker("main", "m", **FILES)
    with pytest.raises(ModelFailed, match="the calls of the model's last 20 answers were all wrong"):
        await place.run("main")


@pytest.mark.thorough
async def test_right_calls_in_between_are_no_reason_to_give_up(place: Place, providers: Providers) -> None:
    turns = [asks("no_such_tool", x=1), asks("read_file", path="/none.txt")] * 12
    alias = providers.alias("chat", "between", *turns, says("Done."))
    place.workshop(models={"m": alias})
    place.worker("main", "m", **FILES)
    assert (await place.run("main")).output == "Done."
