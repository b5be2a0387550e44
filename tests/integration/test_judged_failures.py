"""Failures that gateways make, over HTTP through the adapters of four protocols, streamed and not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from llm_do_temporal.cli.terminal.run_picture import activity_of
from llm_do_temporal.client.views.pending_work import note_troubles
from tests.support.dialects.answers import Failure, Raw, says
from tests.support.dialects.one_turn import ROOM
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.runs.place import Place

LONG = "x" * 100_000
SSE = "text/event-stream"
BOTH = pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
EACH = pytest.mark.parametrize("adapter", ADAPTERS)


def raw(text: str, status: int = 200, media_type: str = "application/json") -> Raw:
    return Raw(text.encode(), media_type, status)


def body(**error: Any) -> Raw:
    return raw(json.dumps({"error": error}))


FINAL: dict[str, tuple[Failure | Raw, str]] = {
    **{str(one): (Failure(one, "Not so."), "Not so.") for one in (405, 410, 411, 413, 414, 415, 431, 501, 505, 511)},
    "key in a body": (body(message="Bad key.", code=401), "Bad key."),
    "quota in a body": (body(message="No money.", code="insufficient_quota"), "No money."),
    "long": (Failure(415, LONG), "xxx"),
    "controls": (Failure(415, "a\x1b[2Jb"), "a\\x1b[2Jb"),
}
"""What is final at the first attempt, and words of the error."""
PASSING: dict[str, Raw] = {
    "429": body(message="Slow down.", code=429),
    "overloaded": body(message="The model is overloaded."),
    "text": raw(json.dumps({"error": "Too many requests"})),
    "empty": raw("{}"),
    "null": raw("null"),
    "no choices": raw(json.dumps({"choices": [], "content": None, "candidates": None, "output": None})),
    "null choices": raw(json.dumps({"id": "x", "choices": None})),
    "array": raw("[]"),
    "page": raw("<html><body>Log in.</body></html>", media_type="text/html"),
    "data null": raw("data: null\n\n", media_type=SSE),
    "comment": raw(": ping\n\ndata: \n\n", media_type=SSE),
    "no json": raw("data: <html>\n\n", media_type=SSE),
    "event": raw('data: {"error": {"message": "Overloaded.", "code": 429}}\n\n', media_type=SSE),
    "teapot": raw(json.dumps({"error": {"message": "Short and stout."}}), 418),
    "large int": raw('{"choices": [' + "9" * 400 + "]}"),
}
"""What may pass, and leaves the turn to the other model after a few attempts."""


@BOTH
@EACH
async def test_a_final_failure_ends_the_run_in_the_providers_words_or_is_left_to_the_other_model(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    name = f"final-{adapter}-{live}".lower()
    aliases: dict[str, Any] = {}
    for number, (failure, _) in enumerate(FINAL.values()):
        aliases[f"a{number}"] = providers.alias(adapter, f"{name}-{number}", failure)
        aliases[f"b{number}"] = providers.alias(adapter, f"{name}-b{number}", failure)
        aliases[f"c{number}"] = providers.alias(adapter, f"{name}-c{number}", says("By the other."))
    place.workshop(models=aliases, live_text=live, model_settings=ROOM)
    for number in range(len(FINAL)):
        place.worker(f"alone{number}", f"a{number}")
        place.worker(f"both{number}", f"b{number},c{number}")
    alone = await asyncio.gather(*(place.outcome(f"alone{number}") for number in range(len(FINAL))))
    both = await asyncio.gather(*(place.outcome(f"both{number}") for number in range(len(FINAL))))
    assert dict(zip(FINAL, both, strict=True)) == dict.fromkeys(FINAL, ("By the other.", ""))
    words = {
        one: (said in error, len(error) < 1_500)
        for (one, (_, said)), (_, error) in zip(FINAL.items(), alone, strict=True)
    }
    assert words == dict.fromkeys(FINAL, (True, True))
    asked = {one: len(providers.scripts[f"{name}-{number}"].streamed) for number, one in enumerate(FINAL)}
    assert asked == dict.fromkeys(FINAL, 1)


@BOTH
@EACH
async def test_the_other_model_answers_where_one_answers_oddly(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    name = f"passing-{adapter}-{live}".lower()
    aliases: dict[str, Any] = {}
    for number, answer in enumerate(PASSING.values()):
        aliases[f"a{number}"] = providers.alias(adapter, f"{name}-{number}", answer, says("By the other."))
        aliases[f"b{number}"] = providers.alias(adapter, f"{name}-b{number}", says("By the other."))
    place.workshop(models=aliases, live_text=live, model_settings=ROOM)
    for number in range(len(PASSING)):
        place.worker(f"both{number}", f"a{number},b{number}")
    came = await asyncio.gather(*(place.outcome(f"both{number}") for number in range(len(PASSING))))
    assert dict(zip(PASSING, came, strict=True)) == dict.fromkeys(PASSING, ("By the other.", ""))


async def test_a_long_validation_error_is_bounded_and_ends_the_run(place: Place, providers: Providers) -> None:
    odd = {"content": [{"token": {"x": LONG[:200]}}] * 1_000, "refusal": 3}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}, "logprobs": odd}
    whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    place.workshop(models={"m": providers.alias("chat", "logprobs", raw(json.dumps(whole)))}, live_text=False)
    place.worker("main", "m")
    output, error = await place.outcome("main")
    assert output is None
    assert "validation errors" in error
    assert len(error) < 1_500
    assert len(providers.scripts["logprobs"].streamed) == 3


async def test_who_waits_sees_the_last_failure_and_the_attempts(place: Place, providers: Providers) -> None:
    place.workshop(models={"m": providers.alias("chat", "waits", Failure(418, "Short and stout."))})
    place.worker("main", "m")
    run = await place.start("main")
    view = await place.client.view(run)
    while not await note_troubles(place.client.temporal, view):
        await asyncio.sleep(0.05)
        view = await place.client.view(run)
    (node,) = view.ordered
    assert "attempt " in activity_of(node)
    assert "Short and stout." in activity_of(node)
    await place.client.cancel(run)
