"""Answers that their servers broke off or cut, with finish reasons of no protocol, over HTTP through the adapters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from llm_do_temporal.errors import LlmDoError
from tests.support.dialects.answers import Json, Raw, says
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.runs.place import Place

ROOM = {"max_tokens": 20_000}
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


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    """All of them, for all of this file."""
    with Providers() as providers:
        yield providers


def ended(adapter: str, live: bool, reason: str, text: str = "Half a") -> Raw:
    """An answer of a text that ends with this reason."""
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
