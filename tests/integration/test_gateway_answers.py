"""Answers of gateways and local servers that no provider gives, over HTTP through the adapters of four protocols.

Whatever comes in is a whole answer with plain names, unique ids and numbers that JSON has, or it is asked for again.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.models.builder import build_model
from llm_do_temporal.activities.models.turns import TurnModel
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.conversation import CONVERSATION_SETTING, ConversationPart
from llm_do_temporal.messages.sizes import MAX_CALLS
from llm_do_temporal.policy.models import ModelAlias, serving_id
from tests.support.dialects.answers import Answer, Ask, Failure, Json, Raw, Say, asks, says
from tests.support.dialects.forms import cases_of
from tests.support.dialects.one_turn import ROOM, ask_turns
from tests.support.dialects.server import ADAPTERS, Providers, Script
from tests.support.runs.place import Place

FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}}
READ_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = ToolDefinition(name="read_file", parameters_json_schema=READ_SCHEMA)
WRITE = ToolDefinition(name="write_file", parameters_json_schema=READ_SCHEMA)
PROMPT: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Go.")])]
LIVE = pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
ALL = pytest.mark.parametrize("adapter", ADAPTERS)


async def turn(
    providers: Providers, adapter: str, *answers: Answer | Failure | Raw, live: bool, name: str, turns: int = 1
) -> list[ModelResponse]:
    """Ask for so many turns of one model, each about the conversation before it, and return what would be kept."""
    script = f"{name}-{adapter}-{live}"
    alias = providers.alias(adapter, script, *answers)
    parameters = ModelRequestParameters(function_tools=[READ, WRITE])
    return await ask_turns(alias, PROMPT, parameters, live=live, times=turns)


def calls_of(answer: ModelResponse) -> list[ToolCallPart]:
    return [part for part in answer.parts if isinstance(part, ToolCallPart)]


def events(*deltas: Json, finish: str | None = "tool_calls", done: bool = True) -> Raw:
    """A stream of chat completions, delta by delta."""
    chunk: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_735_689_600, "model": "m"}
    choices: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    if finish is not None:
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    lines = [f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n" for choice in choices]
    return Raw("".join([*lines, "data: [DONE]\n\n" if done else ""]).encode())


def piece(index: int, **function: str) -> Json:
    """A delta with a piece of a tool call; an id may be among what is given."""
    own = {"id": function.pop("id"), "type": "function"} if "id" in function else {}
    return {"tool_calls": [{"index": index, **own, "function": function}]}


@ALL
async def test_half_a_text_is_never_an_answer(providers: Providers, adapter: str) -> None:
    half = says("Half a sen", end="unsaid")
    (answer,) = await turn(providers, adapter, half, says("A whole sentence."), live=True, name="half")
    assert answer.text == "A whole sentence."
    assert providers.scripts[f"half-{adapter}-True"].streamed == [True, False]


@ALL
async def test_half_an_answer_with_calls_carries_none_out(providers: Providers, adapter: str) -> None:
    half = says("I wri", Ask("write_file", {"path": "/a"}), end="unsaid")
    (answer,) = await turn(providers, adapter, half, asks("read_file", path="/b"), live=True, name="half-call")
    assert [(call.tool_name, call.args_as_dict()) for call in calls_of(answer)] == [("read_file", {"path": "/b"})]


@pytest.mark.parametrize("done", [True, False], ids=["done", "closed"])
async def test_an_end_without_a_reason_is_no_end_whether_it_says_done(providers: Providers, done: bool) -> None:
    half = events({"role": "assistant", "content": "Half a"}, finish=None, done=done)
    (answer,) = await turn(providers, "chat", half, says("Whole."), live=True, name=f"reason-{done}")
    assert answer.text == "Whole."


async def test_a_reason_that_no_library_knows_is_a_reason(providers: Providers) -> None:
    odd = events({"role": "assistant", "content": "All of it."}, finish="eos_token")
    (answer,) = await turn(providers, "chat", odd, live=True, name="odd-reason")
    assert answer.text == "All of it."


async def test_a_server_that_refuses_streams_once_and_whole_answers_later_is_streamed(providers: Providers) -> None:
    refuses = Failure(400, "stream is not supported here")
    only = Failure(400, "This server supports streaming only")
    answers = (refuses, says("One."), says("Two."), only, says("Three."))
    alias = ModelAlias(**providers.alias("chat", "turns-round", *answers))
    settings: Any = {CONVERSATION_SETTING: ConversationPart(number=1).model_dump(exclude_defaults=True)}
    script = providers.scripts["turns-round"]

    async def three() -> list[str | None]:
        model = await build_model(None, serving_id({"m": alias}, "m"))  # pyright: ignore[reportArgumentType]
        texts: list[str | None] = []
        for _ in range(3):
            script.given.clear()
            texts.append((await TurnModel(model).request(PROMPT, settings, ModelRequestParameters())).text)
        return texts

    assert await ActivityEnvironment().run(three) == ["One.", "Two.", "Three."]
    assert script.streamed == [True, False, False, False, True]


@LIVE
@ALL
@pytest.mark.parametrize(
    "own", ["same", "functions.read_file:0", "c" * 41, "a:b", ""], ids=["same", "kimi", "long", "colon", "none"]
)
async def test_ids_of_calls_are_plain_and_unique(providers: Providers, adapter: str, live: bool, own: str) -> None:
    two = says(Ask("read_file", {"path": "/a"}, id=own), Ask("write_file", {"path": "/b"}, id=own))
    (answer,) = await turn(providers, adapter, two, live=live, name=f"ids-{own[:3].replace(':', '')}-{len(own)}")
    calls = calls_of(answer)
    assert [(call.tool_name, call.args_as_dict()["path"]) for call in calls] == [
        ("read_file", "/a"),
        ("write_file", "/b"),
    ]
    ids = [call.tool_call_id for call in calls]
    assert len(set(ids)) == 2
    assert all(len(one) <= 40 and one.replace("-", "").replace("_", "").isalnum() for one in ids)


@LIVE
@ALL
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("functions.read_file", "read_file"),
        ("read_file<|channel|>commentary", "read_file"),
        ("functions/read_file", "read_file"),
        (" read_file", "read_file"),
        ("n" * 70, "n" * 64),
        ("no such tool!", "no_such_tool_"),
        ("<|call|>", "__call__"),
    ],
)
async def test_names_of_calls_are_plain(providers: Providers, adapter: str, live: bool, said: str, kept: str) -> None:
    (answer,) = await turn(providers, adapter, asks(said, path="/a"), live=live, name=f"name-{abs(hash(said))}")
    assert [call.tool_name for call in calls_of(answer)] == [kept]


SHARED_INDEX = {
    "ids": [
        piece(0, id="a", name="write_file", arguments=""),
        piece(0, arguments='{"path": "/a"}'),
        piece(0, id="b", name="write_file", arguments=""),
        piece(0, arguments='{"path": "/b"}'),
    ],
    "no-ids": [
        piece(0, name="write_file", arguments='{"path": "/a"}'),
        piece(0, name="write_file", arguments='{"path": "/b"}'),
    ],
    "whole": [
        piece(0, id="a", name="write_file", arguments='{"path": "/a"}'),
        piece(0, id="b", name="write_file", arguments='{"path": "/b"}'),
    ],
    "beside-another": [
        piece(0, id="a", name="write_file", arguments='{"path": "/a"}'),
        piece(1, id="c", name="write_file", arguments='{"path": "/b"}'),
        piece(0, arguments=" "),
    ],
    "name-each-time": [
        piece(0, id="a", name="write_file", arguments='{"path"'),
        piece(0, id="a", name="write_file", arguments=': "/a"}'),
        piece(1, id="b", name="write_file", arguments='{"path": "/b"}'),
        piece(1, id="b", name="write_file", arguments=""),
    ],
    "id-each-time": [
        piece(0, id="a", name="write_file", arguments='{"path"'),
        piece(0, id="x", arguments=': "/a"}'),
        piece(1, id="b", name="write_file", arguments=""),
        piece(1, id="y", arguments='{"path": "/b"}'),
    ],
    "name-in-pieces": [
        piece(0, id="a", name="write_", arguments=""),
        piece(0, name="file", arguments='{"path": "/a"}'),
        piece(1, id="b", name="write_file", arguments='{"path": "/b"}'),
    ],
}


@pytest.mark.parametrize("form", SHARED_INDEX)
async def test_calls_of_a_stream_are_told_apart_by_more_than_their_index(providers: Providers, form: str) -> None:
    (answer,) = await turn(providers, "chat", events(*SHARED_INDEX[form]), live=True, name=f"index-{form}")
    calls = [(call.tool_name, call.args_as_dict()) for call in calls_of(answer)]
    assert calls == [("write_file", {"path": "/a"}), ("write_file", {"path": "/b"})]
    assert len({call.tool_call_id for call in calls_of(answer)}) == 2


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    ("said", "thought", "text"),
    [
        ("<think>First, a plan.</think>Two.", "First, a plan.", "Two."),
        ("\n<think>a < b</think>\n\nTwo.", "a < b", "Two."),
        ("<thin line>", "", "<thin line>"),
        ("Write <think> around it.", "", "Write <think> around it."),
        ("I plan.</think>\nTwo.", "I plan.", "Two."),
    ],
)
async def test_thinking_is_no_part_of_a_result_however_it_is_cut(
    providers: Providers, size: int, said: str, thought: str, text: str
) -> None:
    deltas = [{"content": said[at : at + size]} for at in range(0, len(said), size)]
    (answer,) = await turn(
        providers, "chat", events(*deltas, finish="stop"), live=True, name=f"think-{size}-{abs(hash(said))}"
    )
    assert (answer.text or "").strip() == text
    assert "".join(answer.thinking or "") == thought


async def test_what_a_run_does_with_such_calls(place: Place, providers: Providers) -> None:
    """The model is told what was wrong, no number becomes null, and two calls with one id have two results."""
    turns = (
        says(Ask("read_file", {"path": "/a.txt"}, id="x"), Ask("read_file", {"path": "/b.txt"}, id="x")),
        says(Ask("read_file", '{"path": "/a.txt", "max_chars": NaN}')),
        says(*[Ask("read_file", {"path": "/a.txt"}) for _ in range(MAX_CALLS + 5)]),
        says("Done."),
    )
    place.workshop(models={"m": providers.alias("chat", "run", *turns)}, live_text=True, model_settings=ROOM)
    place.write("a.txt", "First")
    place.write("b.txt", "Second")
    place.worker("main", "m", **FILES)
    assert (await place.run("main", mode="approve_all")).output == "Done."
    script = providers.scripts["run"]
    assert script.complaints == []
    told = json.dumps(script.requests[-1])
    assert "First" in told
    assert "Second" in told
    assert "a number that JSON does not have" in told
    assert "this call and 4 after it" in told


ODD_BODIES = {
    "null-event": events({"content": "Hm."}, finish=None),
    "null": Raw(b"data: null\n\ndata: [DONE]\n\n"),
    "list": Raw(b"data: [1, 2]\n\ndata: [DONE]\n\n"),
    "text": Raw(b'data: "busy"\n\ndata: [DONE]\n\n'),
    "html": Raw(b"<html><body>Bad gateway</body></html>", "text/html"),
    "no-choices": Raw(b'{"id": "1", "object": "chat.completion", "choices": []}', "application/json"),
    "choices-null": Raw(b'{"id": "1", "object": "chat.completion", "choices": null}', "application/json"),
    "number": Raw(b"7", "application/json"),
    "nothing": Raw(b"", "application/json"),
    "keep-alive": Raw(b": keep-alive\n\n\n\n"),
}


@LIVE
@ALL
async def test_an_answer_of_another_form_is_asked_again_and_another_model_stands_behind(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    name = f"odd-{adapter}-{live}"
    bodies = cases_of(ODD_BODIES, adapter, live, every=["null", "list", "nothing"])
    models: dict[str, Json] = {}
    for form, body in bodies.items():
        models[f"{form}-1"] = providers.alias(adapter, f"{name}-{form}-1", *[body] * 20)
        models[f"{form}-2"] = providers.alias("chat", f"{name}-{form}-2", says("By the second."))
    place.workshop(models=models, live_text=live, model_settings=ROOM)
    for form in bodies:
        place.worker(form, f"{form}-1,{form}-2")
    came = dict(zip(bodies, await asyncio.gather(*map(place.outcome, bodies)), strict=True))
    assert came == dict.fromkeys(bodies, ("By the second.", ""))
    asked = {form: len(providers.scripts[f"{name}-{form}-1"].streamed) for form in bodies}
    assert {form for form, times in asked.items() if times < 2} == set()


@pytest.mark.thorough
async def test_a_long_complaint_about_an_answer_is_short_in_the_history(place: Place, providers: Providers) -> None:
    odd = [{"token": 7, "logprob": "x", "bytes": "y", "top_logprobs": None} for _ in range(5_000)]
    message = {"role": "assistant", "content": "Hi.", "function_call": odd}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    body = json.dumps({**whole, "choices": [choice]}).encode()
    alias = providers.alias("chat", "long-complaint", *[Raw(body, "application/json")] * 5)
    place.workshop(models={"m": alias}, live_text=False)
    place.worker("main", "m")
    run = await place.start("main")
    with pytest.raises(LlmDoError) as failed:
        await place.client.result(run)
    assert len(str(failed.value)) < 2_000
    assert len(providers.scripts["long-complaint"].requests) == 1
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    assert max(event.ByteSize() for event in history.events) < 200_000


TOOLS = ModelRequestParameters(
    function_tools=[ToolDefinition(name="write_file", parameters_json_schema={"type": "object"})]
)


async def asked(providers: Providers, adapter: str, answer: Answer, name: str, live: bool) -> tuple[str, list[Json]]:
    """Return the text and the arguments of an answer that was asked for once."""
    script = f"{name}-{adapter}-{live}"
    (kept,) = await ask_turns(providers.alias(adapter, script, answer), PROMPT, TOOLS, live=live)
    assert providers.scripts[script].streamed == [live]
    return kept.text or "", [part.args_as_dict() for part in kept.parts if isinstance(part, ToolCallPart)]


@LIVE
@ALL
async def test_half_a_character_in_a_text_is_replaced(providers: Providers, adapter: str, live: bool) -> None:
    said = says("Grüße \ud800 ☃ \U0001f600.")
    assert await asked(providers, adapter, said, "text", live) == ("Grüße \ufffd ☃ \U0001f600.", [])


@LIVE
@ALL
async def test_half_a_character_in_a_call_is_replaced(providers: Providers, adapter: str, live: bool) -> None:
    call = says(Ask("write_file", {"path": "/a.txt", "content": ["x\udc00y \U0001f600"]}))
    kept = {"path": "/a.txt", "content": ["x\ufffdy \U0001f600"]}
    assert await asked(providers, adapter, call, "call", live) == ("", [kept])


NUMBER = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"], "additionalProperties": False}
STRUCTURED: dict[str, Any] = {"output_schema": NUMBER}
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


ARGS = '{"path": "/made.txt", "content": "t"}'
CALL = f'{{"name": "write_file", "arguments": {ARGS}}}'
PARAMETER = "<parameter=path>\n/made.txt\n</parameter>\n<parameter=content>\nt\n</parameter>"
CALLS = {
    "hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "after-words": f"I write the file.\n\n<tool_call>\n{CALL}\n</tool_call>",
    "cut": '<tool_call>\n{"name": "write_file", "arguments": {"path": "/made',
    "qwen-coder": f"<tool_call>\n<function=write_file>\n{PARAMETER}\n</function>\n</tool_call>",
    "mistral": f"[TOOL_CALLS][{CALL}]",
    "mistral-new": f"[TOOL_CALLS]write_file[ARGS]{ARGS}",
    "llama": f'<|python_tag|>{{"name": "write_file", "parameters": {ARGS}}}',
    "llama-function": f"<function=write_file>{ARGS}</function>",
    "deepseek": f"<\uff5ctool▁calls▁begin\uff5c>function<\uff5ctool▁sep\uff5c>write_file\n```json\n{ARGS}\n```",
    "kimi": f"<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:0<|tool_call_argument_begin|>{ARGS}",
    "gpt-oss": f"<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{ARGS}<|call|>",
    "glm": "<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>/made.txt</arg_value>\n</tool_call>",
    "granite": f"<|tool_call|>[{CALL}]",
    "olmo": f"<tool_calls>[{CALL}]</tool_calls>",
    "invoke": '<function_calls>\n<invoke name="write_file">\n</invoke>\n</function_calls>',
    "gemma": '```tool_code\nwrite_file(path="/made.txt", content="t")\n```',
    "bare": CALL,
    "parameters": f'{{"name": "write_file", "parameters": {ARGS}}}',
    "fenced": f"```json\n{CALL}\n```",
}
"""Calls as the templates of models write them."""
TEXTS = {
    "quoted": f"Hermes models write `<tool_call>` around {CALL} and so on.",
    "explained": f"Such a call looks so:\n\n```\n<tool_call>\n{CALL}\n</tool_call>\n```",
    "other-tool": '<tool_call>\n{"name": "send_mail", "arguments": {}}\n</tool_call>',
    "other-object": '{"name": "Ada", "arguments": "none"}',
    "more-keys": '{"name": "write_file", "arguments": {}, "reason": "an example"}',
    "list": '["write_file"]',
}
"""Texts that are results."""


def once(text: str) -> Answer:
    return Answer((Say(text),), once=True)


@pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_a_call_that_comes_as_text_is_no_result_and_is_not_carried_out(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    calls = CALLS if adapter == "chat" else {one: CALLS[one] for one in ("hermes", "cut", "bare")}
    texts = cases_of(TEXTS, adapter, live)
    names = {one: f"{adapter}-{live}-{one}".lower() for one in (*calls, *texts)}
    models = {
        name: providers.alias(adapter, name, once({**CALLS, **TEXTS}[one]), says("Done."))
        for one, name in names.items()
    }
    place.workshop(models=models, live_text=live, model_settings=ROOM)
    for name in names.values():
        place.worker(name, name, **FILES)
    few = asyncio.Semaphore(5)  # an attempt that a busy machine loses is one less for the answer

    async def outcome(name: str) -> Any:
        async with few:
            return (await place.run(name, mode="approve_all")).output

    came = await asyncio.gather(*map(outcome, names.values()))
    assert dict(zip(names, came, strict=True)) == {**dict.fromkeys(calls, "Done."), **texts}
    assert not (place.folder / "made.txt").exists()


async def test_a_server_without_a_parser_is_named_as_the_cause(place: Place, providers: Providers) -> None:
    turns = [says(CALLS["hermes"])] * 3
    models = {
        "m": providers.alias("chat", "alone", *turns),
        "n": providers.alias("chat", "first", *turns),
        "other": providers.alias("chat", "other", says("By the other.")),
    }
    place.workshop(models=models)
    place.worker("alone", "m", **FILES)
    place.worker("both", "n,other", **FILES)
    place.worker("without-tools", "m")
    with pytest.raises(LlmDoError, match="--tool-call-parser"):
        await place.run("alone")
    assert (await place.run("both")).output == "By the other."
    assert (await place.run("without-tools")).output == CALLS["hermes"]
