"""Answers that a history or a later request could not hold, over HTTP through the adapters of four protocols.

Each goes in as a server sends it, streamed and whole. The run goes on, and what is sent back is what a provider takes.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from llm_do_temporal.messages.sizes import MAX_CALLS
from tests.support.dialects.answers import Answer, Ask, Failure, asks, says
from tests.support.dialects.forms import cases_of
from tests.support.dialects.one_turn import ROOM
from tests.support.dialects.server import ADAPTERS, Providers, Script
from tests.support.runs.place import Place

NUMBER = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"], "additionalProperties": False}
STRUCTURED: dict[str, Any] = {"output_schema": NUMBER}
FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}}
RIGHT = asks("final_result", n=2)
DONE = says("Done.")
ONCE = says("Done.", once=True)
LONG = "read_file_" + "x" * 60


def reads(path: str, own: str | None = None, name: str = "read_file") -> Ask:
    return Ask(name, {"path": path}, own)


@dataclass(frozen=True)
class Case:
    """A worker's model, turn by turn, and what becomes of the run."""

    turns: Sequence[Answer]
    output: Any = "Done."
    told: Sequence[str] = ()
    """What the last request has to contain."""
    keys: dict[str, Any] = field(default_factory=lambda: FILES)


def number(value: Any) -> Case:
    return Case([asks("final_result", n=value), RIGHT], {"n": 2}, ["Not carried out"], STRUCTURED)


BOTH = ["Text of one.", "Text of two."]
CASES = {
    "same-ids": Case([says(reads("/1.txt", "c"), reads("/2.txt", "c")), DONE], told=BOTH),
    "id-of-before": Case([says(reads("/1.txt", "c")), says(reads("/2.txt", "c")), DONE], told=BOTH),
    "empty-ids": Case([says(reads("/1.txt", ""), reads("/2.txt", "")), DONE], told=BOTH),
    "odd-ids": Case([says(reads("/1.txt", "functions.read:0"), reads("/2.txt", "c" * 70)), DONE], told=BOTH),
    "long-same-ids": Case([says(reads("/1.txt", "c" * 70), reads("/2.txt", "c" * 71)), DONE], told=BOTH),
    "name-space": Case([says(reads("/1.txt", name="functions.read_file")), DONE], told=BOTH[:1]),
    "name-token": Case([says(reads("/1.txt", name="read_file<|channel|>commentary")), DONE], told=BOTH[:1]),
    "name-quoted": Case([says(reads("/1.txt", name=" `read_file()` ")), DONE], told=BOTH[:1]),
    "name-long": Case([says(reads("/1.txt", name=LONG)), DONE], told=[LONG[:64]]),
    "name-other": Case([says(reads("/1.txt", name="größe:messen!")), DONE], told=["messen_"]),
    "nan": number(float("nan")),
    "infinity": number(float("-inf")),
    "huge": number(10**400),
    "beyond-64-bits": number(2**64),
    "nan-in-call": Case(
        [says(Ask("write_file", {"path": "/n.txt", "content": "x", "mode": [float("nan")]})), DONE],
        told=["Not carried out: the arguments hold nan"],
    ),
    "many-calls": Case(
        [says(*(Ask("no_such_tool", {"n": n}) for n in range(3000))), DONE], told=["this call and 2799 after it"]
    ),
    "thought": Case([says("<think>Hm</think>Done.")], keys={}),
    "thought-with-lines": Case([says("<think>\nHm, two.\n</think>\n\nDone.")], keys={}),
    "thought-without-begin": Case([says("Hm, two.\n</think>\n\nDone.")], keys={}),
    "thought-before-result": Case([says('<think>{"n": 3}</think>{"n": 2}')], {"n": 2}, keys=STRUCTURED),
    "other-tags": Case([says("<thinking>\nHm, two.\n</thinking>\nDone.")], keys={}),
    "tag-as-text": Case([says("The tag `</think>` ends.")], "The tag `</think>` ends.", keys={}),
}
DIFFERENT = ("same-ids", "empty-ids", "nan-in-call")
"""Cases that protocols write in ways of their own."""


def ids_of(request: str) -> list[str]:
    """Return the ids of calls anywhere in a request, as JSON."""
    return re.findall(r'"(?:call_id|tool_call_id|tool_use_id)": ("[^"]*"|null)', request)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_what_comes_in_is_made_plain_before_it_is_kept(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    name = f"plain-{adapter}-{live}".lower()
    cases = cases_of(CASES, adapter, live, every=DIFFERENT)
    aliases = {one: providers.alias(adapter, f"{name}-{one}", *case.turns) for one, case in cases.items()}
    place.workshop(models=aliases, live_text=live, model_settings=ROOM)
    place.write("1.txt", BOTH[0])
    place.write("2.txt", BOTH[1])
    for one, case in cases.items():
        place.worker(one, one, **case.keys)
    came = dict(zip(cases, await asyncio.gather(*(place.outcome(one) for one in cases)), strict=True))
    scripts = {one: providers.scripts[f"{name}-{one}"] for one in cases}
    assert {one: script.complaints for one, script in scripts.items() if script.complaints} == {}
    assert came == {one: (case.output, "") for one, case in cases.items()}
    assert not (place.folder / "n.txt").exists()
    for one, case in cases.items():
        last = json.dumps(scripts[one].requests[-1])
        assert [text for text in case.told if text not in last] == [], one
        assert "NaN" not in last, one
        assert "Infinity" not in last, one
        ids = ids_of(last)
        assert all(re.fullmatch(r'"[A-Za-z0-9_-]{1,40}"', own) for own in ids), one
        assert len(ids) <= 2 * MAX_CALLS + 2


def script_of(providers: Providers, place: Place, adapter: str, name: str, *turns: Answer | Failure) -> Script:
    """Return the script of a worker's model."""
    alias = providers.alias(adapter, name, *turns)
    place.workshop(models={name: alias}, model_settings=ROOM)
    place.worker("main", name, **FILES)
    return providers.scripts[name]


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize(
    "half", [says("Half a sen", end="unsaid", once=True), says(reads("/1.txt"), end="unsaid", once=True)]
)
async def test_a_stream_without_an_end_is_no_answer(
    place: Place, providers: Providers, adapter: str, half: Answer
) -> None:
    name = f"end-{adapter}-{len(half.calls)}"
    script = script_of(providers, place, adapter, name, half, ONCE, says("Again."), says("Streamed."))
    place.write("1.txt", BOTH[0])
    assert await place.outcome("main") == ("Done.", "")
    assert "Text of one." not in json.dumps(script.requests[-1])
    assert await place.outcome("main") == ("Again.", "")
    assert await place.outcome("main") == ("Streamed.", "")
    assert script.streamed == [True, False, False, True]


@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_a_server_that_only_streams_is_streamed_again(place: Place, providers: Providers, adapter: str) -> None:
    half, refusal = says("Half a sen", end="unsaid", once=True), Failure(400, "Only stream: true is supported.")
    script = script_of(providers, place, adapter, f"only-{adapter}", half, refusal, DONE)
    assert await place.outcome("main") == ("Done.", "")
    assert script.streamed == [True, False, True]


@pytest.mark.parametrize("adapter", ["chat", "anthropic"])
async def test_calls_of_one_index_are_calls_of_their_own(place: Place, providers: Providers, adapter: str) -> None:
    both = says(reads("/1.txt"), Ask("write_file", {"path": "/new.txt", "content": "New."}), reads("/2.txt"), at=0)
    script = script_of(providers, place, adapter, f"index-{adapter}", both, DONE)
    place.write("1.txt", BOTH[0])
    place.write("2.txt", BOTH[1])
    assert await place.outcome("main") == ("Done.", "")
    last = json.dumps(script.requests[-1])
    assert all(text in last for text in BOTH)
    assert "write_fileread_file" not in last
    assert (place.folder / "new.txt").read_text() == "New."
