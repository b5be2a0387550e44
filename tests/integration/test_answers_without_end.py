"""Answers that their servers broke off or cut, or whose other fields are odd, over HTTP through the adapters."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from llm_do_temporal.cli.output import RunOutcome, report
from llm_do_temporal.doors.principal import TokenScope
from llm_do_temporal.errors import LlmDoError, ModelFailed
from tests.support.dialects.answers import Answer, Ask, Json, Raw, asks, says
from tests.support.dialects.forms import cases_of
from tests.support.dialects.one_turn import ROOM
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.doors.http_client import program
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.runs.batch_items import batch_of
from tests.support.runs.delegation import delegation_to
from tests.support.runs.place import Place

LIVE = pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
BROKEN = {
    **dict.fromkeys(("chat", "template"), ("error", "network_error", "insufficient_system_resource", "abort", "load")),
    "responses": ("failed", "cancelled"),
    "anthropic": ("error", "cancelled"),
    "google": (
        "OTHER",
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "LANGUAGE",
        "NEVER_HEARD_OF",
    ),
}
"""Finish reasons after which half a text is no answer."""
CUT = {
    "length": ("max_tokens", "MAX_TOKENS", "model_length", "context_length_exceeded", "repetition_truncation"),
    "content_filter": ("sensitive", "SAFETY", "guardrail_intervened", "blocked"),
}
"""Finish reasons of chat servers that mean a cut, by the word of the project."""
SILENT = {adapter: ("FINISH_REASON_UNSPECIFIED", "") if adapter == "google" else ("",) for adapter in ADAPTERS}
"""Finish reasons that say nothing."""
WHOLE = ("stop", "end_turn", "eos_token", "COMPLETE", "stop_sequence", "done", "unknown")


def ended(adapter: str, live: bool, reason: str, text: str = "Half a") -> Raw:
    if adapter in ("chat", "template"):
        return _chat(live, reason, {"content": text})
    if adapter == "google":
        candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": reason}
        return _sent(live, {"candidates": [candidate]})
    if adapter == "anthropic":
        return _message(live, reason, text)
    return _response(live, reason, text)


def _chat(live: bool, reason: str, said: Json, **more: Any) -> Raw:
    """A chat completion; `more` are further keys of its choice."""
    own = {"id": "c", "object": "chat.completion.chunk" if live else "chat.completion", "created": 1, "model": "m"}
    key = "delta" if live else "message"
    choice = {"index": 0, key: {"role": "assistant", **said}, "finish_reason": reason, **more}
    return _sent(live, {**own, "choices": [choice]})


def _message(live: bool, reason: str, text: str) -> Raw:
    usage = {"input_tokens": 9, "output_tokens": 9}
    own: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    block = {"type": "text", "text": text}
    end = {"stop_reason": reason, "stop_sequence": None}
    if not live:
        return _sent(False, {**own, **end, "content": [block]})
    return _sent(
        True,
        {"type": "message_start", "message": {**own, "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": usage},
        {"type": "message_stop"},
    )


def _response(live: bool, status: str, text: str) -> Raw:
    content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}]
    item: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    own: Json = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "tools": [],
        "tool_choice": "auto",
    }
    whole: Json = {**own, "parallel_tool_calls": True, "status": status, "output": [item]}
    if not live:
        return _sent(False, whole)
    delta: Json = {"output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": text, "logprobs": []}
    return _sent(
        True,
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", **delta},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    )


def _sent(live: bool, *events: Json) -> Raw:
    if not live:
        return Raw(json.dumps(events[0]).encode(), "application/json", once=True)
    named = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    lines = (f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(named, events, strict=True))
    return Raw("".join(lines).encode(), once=True)


@LIVE
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_a_text_that_its_server_broke_off_is_asked_for_again(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    names = {reason: f"broken-{adapter}-{live}-{reason}".lower() for reason in BROKEN[adapter]}
    models = {
        name: providers.alias(adapter, name, ended(adapter, live, reason), says("Whole."))
        for reason, name in names.items()
    }
    place.workshop(models=models, live_text=live, model_settings=ROOM)
    for name in names.values():
        place.worker(name, name)
    came = await asyncio.gather(*(place.run(name) for name in names.values()))
    assert {reason: result.output for reason, result in zip(names, came, strict=True)} == dict.fromkeys(names, "Whole.")


@LIVE
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_an_answer_without_a_reason_is_whole_once_it_came_without_a_stream(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    forms = [True, False] if live else [False]
    names = {f"silent-{adapter}-{live}-{number}".lower(): reason for number, reason in enumerate(SILENT[adapter])}
    models = {
        name: providers.alias(adapter, name, *(ended(adapter, form, reason) for form in forms))
        for name, reason in names.items()
    }
    place.workshop(models=models, live_text=live, model_settings=ROOM)
    for name in names:
        place.worker(name, name)
    came = await asyncio.gather(*(place.run(name) for name in names))
    assert [(result.output, result.truncated) for result in came] == [("Half a", None)] * len(names)
    assert [providers.scripts[name].streamed for name in names] == [forms] * len(names)


@pytest.mark.thorough
@LIVE
async def test_a_server_that_breaks_off_each_time_leaves_the_turn_to_another(
    place: Place, providers: Providers, live: bool
) -> None:
    half = [ended("chat", live, "error")] * 20
    models = {
        "breaks": providers.alias("chat", f"breaks-{live}", *half),
        "alone": providers.alias("chat", f"alone-{live}", *half),
        "other": providers.alias("chat", f"other-{live}", says("Whole.")),
    }
    place.workshop(models=models, live_text=live)
    place.worker("both", "breaks,other")
    place.worker("one", "alone")
    assert (await place.run("both")).output == "Whole."
    with pytest.raises(LlmDoError, match="its server broke it off, with the finish reason 'error'"):
        await place.run("one")


@LIVE
async def test_a_cut_is_marked_whatever_word_a_server_has_for_it(
    place: Place, providers: Providers, live: bool
) -> None:
    words = {word: reason for reason, listed in CUT.items() for word in listed} | dict.fromkeys(WHOLE)
    names = {word: f"cut-{live}-{number}".lower() for number, word in enumerate(words)}
    models = {name: providers.alias("chat", name, ended("chat", live, word)) for word, name in names.items()}
    place.workshop(models=models, live_text=live)
    for name in names.values():
        place.worker(name, name)
    came = await asyncio.gather(*(place.run(name) for name in names.values()))
    results = dict(zip(names, came, strict=True))
    assert {word: result.truncated for word, result in results.items()} == words
    assert {result.output for result in results.values()} == {"Half a"}


@LIVE
async def test_an_answer_without_the_calls_that_it_announces_is_asked_for_again(
    place: Place, providers: Providers, live: bool
) -> None:
    said = {"content": "I write the file."}
    announced = {
        "none": _chat(live, "tool_calls", said),
        "empty": _chat(live, "tool_calls", {**said, "tool_calls": []}),
        "old": _chat(live, "function_call", {**said, "function_call": {"name": "write_file", "arguments": "{}"}}),
    }
    names = {kind: f"announced-{live}-{kind}".lower() for kind in announced}
    models = {name: providers.alias("chat", name, announced[kind], says("Done.")) for kind, name in names.items()}
    place.workshop(models=models, live_text=live)
    for name in names.values():
        place.worker(name, name)
    came = await asyncio.gather(*(place.run(name) for name in names.values()))
    assert [result.output for result in came] == ["Done."] * len(names)


async def test_an_error_within_a_choice_is_an_error(place: Place, providers: Providers) -> None:
    error = {"code": 502, "message": "The provider disconnected."}
    half = {"content": "Half a"}
    broken = (_chat(False, "error", half, error=error), _chat(False, "stop", half, error=error))
    models = {"m": providers.alias("chat", "choice", *broken, says("Whole."))}
    place.workshop(models=models, live_text=False)
    place.worker("main", "m")
    assert (await place.run("main")).output == "Whole."


ODD: dict[str, Json] = {
    "id-number": {"id": 5},
    "id-large": {"id": 10**400},
    "id-list": {"id": ["a"]},
    "id-null": {"id": None},
    "id-half": {"id": "a\ud83d"},
    "model-number": {"model": 5},
    "model-list": {"model": ["m"]},
    "model-object": {"model": {"name": "m"}},
    "model-true": {"model": True},
    "model-long": {"model": "m" * 100_000},
    "tier": {"service_tier": {"a": 1}},
    "fingerprint": {"system_fingerprint": 5},
    "created": {"created": 10**40},
}


def chat(live: bool, begin: bytes = b"", **more: Any) -> Raw:
    """A chat completion in two pieces with these fields beside its choices; `begin` stands before its first byte."""
    own = {"id": "c", "object": "chat.completion.chunk" if live else "chat.completion", "created": 1, "model": "m"}
    if not live:
        choice: Json = {"index": 0, "message": {"role": "assistant", "content": "All of it."}, "finish_reason": "stop"}
        return Raw(begin + json.dumps({**own, "choices": [choice], **more}).encode(), "application/json", once=True)
    ends = (("All ", None), ("of it.", "stop"))
    choices = ({"index": 0, "delta": {"content": text}, "finish_reason": end} for text, end in ends)
    lines = (f"data: {json.dumps({**own, 'choices': [choice], **more})}\n\n" for choice in choices)
    return Raw(begin + "".join(lines).encode(), once=True)


@LIVE
async def test_no_field_of_an_answer_lets_its_workflow_stand_still(
    place: Place, providers: Providers, live: bool
) -> None:
    names = {kind: f"{kind}-{live}".lower() for kind in ODD}
    models = {
        name: providers.alias("chat", name, chat(live, **ODD[kind]), says("All of it.")) for kind, name in names.items()
    }
    place.workshop(models=models, live_text=live)
    for name in names.values():
        place.worker(name, name)
    came = await asyncio.gather(*(place.run(name) for name in names.values()))
    assert [result.output for result in came] == ["All of it."] * len(names)


async def test_the_halves_of_a_character_that_come_apart_are_joined(place: Place, providers: Providers) -> None:
    own = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    pieces = (("Fine \ud83d", None), ("\ude00 and \ud83d", None), (" alone.", "stop"))
    choices = ({"index": 0, "delta": {"content": text}, "finish_reason": end} for text, end in pieces)
    lines = (f"data: {json.dumps({**own, 'choices': [choice]})}\n\n" for choice in choices)
    place.workshop(models={"m": providers.alias("chat", "halves", Raw("".join(lines).encode()))})
    place.worker("main", "m")
    assert (await place.run("main")).output == "Fine \U0001f600 and \ufffd alone."


@LIVE
async def test_a_byte_order_mark_takes_nothing_of_an_answer(place: Place, providers: Providers, live: bool) -> None:
    models = {"m": providers.alias("chat", f"mark-{live}", chat(live, begin=b"\xef\xbb\xbf"))}
    place.workshop(models=models, live_text=live)
    place.worker("main", "m")
    assert (await place.run("main")).output == "All of it."
    assert providers.scripts[f"mark-{live}"].streamed == [live]


FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}}
ENDS: dict[Any, str] = {
    "length": "length",
    "window": "length",
    "filter": "content_filter",
    "recitation": "content_filter",
}
RESULT: dict[str, Any] = {"output_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
WRITE = Ask("write_file", {"path": "/b.txt", "content": "half"})


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
