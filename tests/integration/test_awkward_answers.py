"""Answers that no scripted model gives, over HTTP through the adapters of four protocols, streamed and not.

The servers refuse what the providers would refuse, so a run that goes on has sent a conversation that they can take.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from llm_do_temporal.client.views.transcripts import read_transcript
from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.storage.blobs import LocalBlobStore, blob_folder
from llm_do_temporal.storage.snapshots import snapshot_host_files
from tests.support.dialects.answers import Answer, Ask, Failure, Think, asks, says
from tests.support.dialects.forms import EVERY_FORM, cases_of
from tests.support.dialects.one_turn import ROOM, ask_turns
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.runs.place import Place

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64) + b"IEND\xaeB`\x82"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
STRUCTURED: dict[str, Any] = {"output_schema": SCHEMA}
FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}}
RIGHT = asks("final_result", n=2)
READ = asks("read_file", path="/a.txt")
HALF = '{"path": "/a.'


@dataclass(frozen=True)
class Case:
    """A worker's model, turn by turn, and what becomes of the run."""

    turns: Sequence[Answer]
    output: Any = None
    error: str = ""
    keys: dict[str, Any] = field(default_factory=dict[str, Any])
    told: str = ""
    """What the last request has to contain, as JSON."""


def case(*turns: Answer, output: Any = None, error: str = "", told: str = "", **keys: Any) -> Case:
    return Case(turns, output, error, keys, told)


CASES = {
    "prose": case(says("Two."), RIGHT, output={"n": 2}, told="Two.", **STRUCTURED),
    "prose-twice": case(says("Two."), says("2"), RIGHT, output={"n": 2}, **STRUCTURED),
    "empty": case(Answer(), says("Here."), output="Here."),
    "empty-structured": case(Answer(), RIGHT, output={"n": 2}, **STRUCTURED),
    "thinking": case(
        says(Think("First, the file."), Ask("read_file", {"path": "/a.txt"})),
        says(Think("Now I know."), "Two."),
        output="Two.",
        told="First, the file.",
        model_settings={"thinking": "medium"},
        **FILES,
    ),
    "thinking-structured": case(
        says(Think("Prose will do."), "Two."),
        says(Think("No, it will not."), Ask("final_result", {"n": 2})),
        output={"n": 2},
        model_settings={"thinking": "medium"},
        **STRUCTURED,
    ),
    "thinking-only": case(says(Think("Hm.")), says("Two."), output="Two."),
    "broken-json": case(says(Ask("read_file", HALF)), READ, says("Two."), output="Two.", **FILES),
    "broken-final": case(says(Ask("final_result", '{"n": ')), RIGHT, output={"n": 2}, **STRUCTURED),
    "unknown-tool": case(
        says("Wait.", Ask("no_such_tool", {"x": 1}), Ask("read_file", {"path": "/a.txt"})),
        says("Two."),
        output="Two.",
        told="no_such_tool",
        **FILES,
    ),
    "two-finals": case(
        says(Ask("final_result", {"n": 2}), Ask("final_result", {"n": 3})), output={"n": 2}, **STRUCTURED
    ),
    "two-wrong-finals": case(
        says(Ask("final_result", {"n": "x"}), Ask("final_result", {"n": "y"})), RIGHT, output={"n": 2}, **STRUCTURED
    ),
    "final-and-call": case(
        says(Ask("read_file", {"path": "/a.txt"}), Ask("final_result", {"n": "x"})),
        RIGHT,
        output={"n": 2},
        told="is not of type",
        **STRUCTURED,
        **FILES,
    ),
    "refusal": case(Answer(refusal="I cannot help with that."), error="the model refused to answer"),
    "refusal-structured": case(
        says("Two."), Answer(refusal="I cannot help with that."), error="the model refused to answer", **STRUCTURED
    ),
    "cut-before": case(Answer(end="length"), error="the model's answer was cut off"),
    "cut-thinking": case(says(Think("Hm."), end="length"), error="the model's answer was cut off"),
    "cut-call": case(
        *[says(Ask("read_file", HALF), end="length")] * 4, error="the model's answer was cut off", **FILES
    ),
    "cut-text": case(says("Two and", end="length"), output="Two and"),
    "new-tool": case(
        asks("worker_create", name="helper", instructions="Help.", description="Helps.", model="helper"),
        asks("helper", input="Help me."),
        says("All done."),
        output="All done.",
        told="Helped.",
        toolsets={"delegation": {"worker_create": {}}},
    ),
}
DIFFERENT = ("thinking", "broken-json", "refusal", "cut-call")
"""Cases that protocols write in ways of their own."""


@pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_whatever_a_model_answers_its_run_goes_on_or_says_why_not(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    name = f"{adapter}-{live}".lower()
    cases = cases_of(CASES, adapter, live, every=DIFFERENT)
    aliases = {one: providers.alias(adapter, f"{name}-{one}", *case.turns) for one, case in cases.items()}
    aliases["helper"] = providers.alias(adapter, f"{name}-helper", says("Helped."))
    place.workshop(models=aliases, live_text=live, model_settings=ROOM)
    place.write("a.txt", "Two")
    for one, case in cases.items():
        place.worker(one, one, **case.keys)
    came = dict(zip(cases, await asyncio.gather(*(place.outcome(one) for one in cases)), strict=True))
    scripts = {one: providers.scripts[f"{name}-{one}"] for one in cases}
    assert {one: script.complaints for one, script in scripts.items() if script.complaints} == {}
    assert {one: output for one, (output, error) in came.items() if not error} == {
        one: case.output for one, case in cases.items() if not case.error
    }
    assert {one for one, (_, error) in came.items() if cases[one].error in error} == set(cases)
    assert {streamed for script in scripts.values() for streamed in script.streamed} == {live}
    for one, case in cases.items():
        assert case.told in json.dumps(scripts[one].requests[-1]), one
    assert "I cannot help with that." in came["refusal"][1] or adapter in ("anthropic", "google")


async def test_one_reads_in_a_conversation_what_its_model_was_told(place: Place, providers: Providers) -> None:
    told = {"empty": "Please return text.", "new-tool": "New tools: helper"}
    aliases = {one: providers.alias("chat", f"told-{one}", *CASES[one].turns) for one in told}
    place.workshop(models={**aliases, "helper": providers.alias("chat", "told-helper", says("Helped."))})
    for one, text in told.items():
        place.worker(one, one, **CASES[one].keys)
        run = await place.start(one, mode="approve_all")
        await place.client.result(run)
        said = [(entry.kind, entry.text) async for entry in read_transcript(place.client.temporal, run)]
        assert ("prompt", text) in said
        assert ("prompt", "") not in said


@pytest.mark.thorough
@pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
async def test_another_provider_goes_on_where_one_has_begun(place: Place, providers: Providers, live: bool) -> None:
    """Each turn begins with the first model: so each of the two is told what the other one has said."""
    refused = Failure(401, "Not with this key.")
    each = [(f"{first}-{second}", (first, second)) for first, second in permutations(ADAPTERS, 2)]
    pairs = dict(each if EVERY_FORM else each[live::2])
    aliases: dict[str, Any] = {}
    for pair, (first, second) in pairs.items():
        thinks = says(Think("First, the file."), "I look.", Ask("read_file", {"path": "/a.txt"}))
        broken = says(Think("Once more."), Ask("read_file", HALF), Ask("no_such_tool", {}))
        begins = (thinks, refused, says(Think("Enough."), "Two."), refused, refused)
        goes_on = (broken, Answer(), RIGHT)
        aliases[f"{pair}-1"] = providers.alias(first, f"{pair}-{live}-1", *begins)
        aliases[f"{pair}-2"] = providers.alias(second, f"{pair}-{live}-2", *goes_on)
    place.workshop(models=aliases, live_text=live, model_settings=ROOM)
    place.write("a.txt", "Two")
    for pair in pairs:
        place.worker(pair, f"{pair}-1,{pair}-2", model_settings={"thinking": "medium"}, **STRUCTURED, **FILES)
    came = dict(zip(pairs, await asyncio.gather(*(place.outcome(pair) for pair in pairs)), strict=True))
    complaints = {name: script.complaints for name, script in providers.scripts.items() if script.complaints}
    assert complaints == {}
    assert came == dict.fromkeys(pairs, ({"n": 2}, ""))
    asked = [len(providers.scripts[f"{pair}-{live}-{one}"].requests) for pair in pairs for one in (1, 2)]
    assert asked == [5, 3] * len(pairs)


@pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
async def test_an_image_reaches_every_model_that_sees(place: Place, providers: Providers, live: bool) -> None:
    name = f"image-{live}"
    turns = {adapter: (Answer(), says("A square.")) for adapter in ADAPTERS}
    place.workshop(
        models={
            one: providers.alias(one, f"{name}-{one}", *said, accepts=["text", "image"]) for one, said in turns.items()
        },
        live_text=live,
        model_settings=ROOM,
    )
    (place.folder / "square.png").write_bytes(PNG)
    (file,) = snapshot_host_files([place.folder / "square.png"], LocalBlobStore(blob_folder(place.folder)), 20_000_000)
    for adapter in ADAPTERS:
        place.worker(adapter, adapter)
    came = await asyncio.gather(*(place.outcome(one, attachments=[file.model_dump()]) for one in ADAPTERS))
    assert came == [("A square.", "")] * len(ADAPTERS)
    for adapter in ADAPTERS:
        script = providers.scripts[f"{name}-{adapter}"]
        assert script.complaints == []
        assert all("iVBORw0KGgo" in json.dumps(request) for request in script.requests)


GONE: list[ModelMessage] = [
    ModelRequest(parts=[UserPromptPart("Go.")]),
    ModelResponse(parts=[ToolCallPart("gone", {"x": 1}, tool_call_id="c1")]),
    ModelRequest(
        parts=[
            ToolReturnPart("gone", "It worked.", tool_call_id="c1"),
            ToolAvailabilityDeltaPart(tools_added=["gone", "here"]),
        ]
    ),
    ModelResponse(parts=[]),
    ModelRequest(parts=[RetryFeedbackPart("Please return text.", retry=RetryInfo(cause="no_output"))]),
]


@pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_a_tool_that_has_gone_was_there_all_the_same(providers: Providers, adapter: str, live: bool) -> None:
    alias = providers.alias(adapter, f"gone-{adapter}-{live}", says("Fine."))
    here = ToolDefinition(name="here", parameters_json_schema={"type": "object", "properties": {}})
    parameters = ModelRequestParameters(function_tools=[here], introduced_tool_names={"here"})
    before = list(GONE)

    (answer,) = await ask_turns(alias, GONE, parameters, live=live)
    assert answer.text == "Fine."
    script = providers.scripts[f"gone-{adapter}-{live}"]
    assert script.complaints == []
    assert script.streamed == [live]
    assert "It worked." in json.dumps(script.requests)
    assert '"here"' in json.dumps(script.requests[0]["tools"])
    assert before == GONE


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
DIFFERENTLY_WRITTEN = ("twice-json", "one-key-too-many", "no-json", "no-object")
"""Calls that protocols write in ways of their own."""


@pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_slips_end_no_run(place: Place, providers: Providers, adapter: str, live: bool) -> None:
    dialect = cases_of({**NEARLY, **WRONG}, adapter, live, every=DIFFERENTLY_WRITTEN)
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
