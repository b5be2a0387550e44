"""Failures that gateways make, over HTTP through the adapters of four protocols, streamed and not."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, UserPromptPart
from temporalio.exceptions import ApplicationError

from llm_do_temporal.cli.terminal.run_picture import activity_of
from llm_do_temporal.client.views.pending_work import note_troubles
from tests.support.dialects.answers import Failure, Json, Raw, says
from tests.support.dialects.forms import cases_of
from tests.support.dialects.one_turn import ROOM, ask_turns
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
    **{str(one): (Failure(one, "Moved."), "redirects its requests") for one in (300, 301, 302, 303, 307, 308)},
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

QUOTA: dict[str, Failure] = {
    "no code": Failure(429, "You exceeded your current quota, please check your plan and billing details."),
    "suspended": Failure(429, "Your account is suspended, please check your plan and billing details"),
    "budget": Failure(429, "Budget has been exceeded! Current cost: 10.5, Max budget: 10.0"),
    "team": Failure(429, "Your team has either used all available credits or reached its monthly spending limit."),
    "balance": Failure(500, "Insufficient balance"),
    "zero": Failure(429, "Quota exceeded for metric: generate_content_free_tier_requests, limit: 0"),
}
CONTEXT: dict[str, Failure] = {
    "llama.cpp": Failure(
        400, "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it"
    ),
    "llama.cpp 500": Failure(500, "Context size has been exceeded."),
    "TGI": Failure(422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"),
    "SGLang": Failure(400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    "LM Studio": Failure(400, "Trying to keep the first 5000 tokens when context the overflows."),
    "gateway 500": Failure(500, "InternalServerError: prompt is too long: 200001 tokens > 200000 maximum"),
    "limit": Failure(400, "input length and `max_tokens` exceed context limit: 198000 + 20000 > 200000"),
    "minute": Failure(429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested 50000."),
}
"""Errors whose words mean a limit that no waiting changes, whatever their status."""
SOON: dict[str, Failure] = {
    "retry in": Failure(429, "You exceeded your current quota. Please retry in 0.1s."),
    "remaining": Failure(429, "Rate limit: 0 requests remaining"),
    "deadline": Failure(500, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
}

NAMED: dict[str, Raw] = {
    "exceeded": raw(json.dumps({"message": "Rate exceeded"}), 400),
    "busy": raw(json.dumps({"error": "Server busy."}), 422),
    "detail": raw(json.dumps({"detail": "Try again later."}), 400),
    "ready": raw(json.dumps({"error": {"message": "The model is not ready yet."}}), 404),
    "captcha": raw("<html>Solve the CAPTCHA.</html>", 403, "text/html"),
}
"""Refusals whose words say that they may pass."""
STAYING: dict[str, Raw] = {
    "key": raw(json.dumps({"error": {"message": "Invalid API key. Rate limits apply."}}), 403),
    "model": raw(json.dumps({"error": {"message": "The model 'too many requests' does not exist."}}), 404),
    "page": raw("<html><title>404 Not Found</title>nginx</html>", 404, "text/html"),
    "echo": raw(json.dumps({"error": {"message": "No."}, "input": "Too many requests, try again later."}), 400),
}
"""Refusals that stay, though something that passes is named in most of them."""
WORDS: dict[str, tuple[Raw, str]] = {
    "detail": (raw(json.dumps({"detail": "Rate limit exceeded"})), "is rate limited: Rate limit exceeded"),
    "message": (raw(json.dumps({"message": "Internal Server Error"})), "failed at its provider: Internal Server Error"),
    "forbidden": (raw(json.dumps({"message": "Forbidden"})), "refused the key: Forbidden"),
    "unknown": (raw(json.dumps({"detail": "The tank is empty."})), "failed: The tank is empty."),
    "nobody": (raw(json.dumps({"message": "Nobody knows."})), "failed: Nobody knows."),
    "rate-limit": (body(code=429, message="Slow down."), "is rate limited: Slow down."),
    "overloaded": (body(type="overloaded_error", message="Overloaded."), "is overloaded or down: Overloaded."),
    "key": (body(type="authentication_error", message="No such key."), "refused the key: No such key."),
    "model": (body(code="model_not_found", message="No such model."), "is not known to its provider"),
    "words": (body(message="The upstream has gone."), "failed: The upstream has gone."),
}
"""Bodies of status 200 with words alone or with an error, and what is told of each."""


@BOTH
@EACH
async def test_a_final_failure_ends_the_run_in_the_providers_words_or_is_left_to_the_other_model(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    name = f"final-{adapter}-{live}".lower()
    final = cases_of(FINAL, adapter, live, every=["413", "key in a body", "quota in a body"])
    aliases: dict[str, Any] = {}
    for number, (failure, _) in enumerate(final.values()):
        aliases[f"a{number}"] = providers.alias(adapter, f"{name}-{number}", failure)
        aliases[f"b{number}"] = providers.alias(adapter, f"{name}-b{number}", failure)
        aliases[f"c{number}"] = providers.alias(adapter, f"{name}-c{number}", says("By the other."))
    place.workshop(models=aliases, live_text=live, model_settings=ROOM)
    for number in range(len(final)):
        place.worker(f"alone{number}", f"a{number}")
        place.worker(f"both{number}", f"b{number},c{number}")
    alone = await asyncio.gather(*(place.outcome(f"alone{number}") for number in range(len(final))))
    both = await asyncio.gather(*(place.outcome(f"both{number}") for number in range(len(final))))
    assert dict(zip(final, both, strict=True)) == dict.fromkeys(final, ("By the other.", ""))
    words = {
        one: (said in error, len(error) < 1_500)
        for (one, (_, said)), (_, error) in zip(final.items(), alone, strict=True)
    }
    assert words == dict.fromkeys(final, (True, True))
    asked = {one: len(providers.scripts[f"{name}-{number}"].streamed) for number, one in enumerate(final)}
    assert asked == dict.fromkeys(final, 1)


@pytest.mark.thorough
@BOTH
@pytest.mark.parametrize("adapter", ["chat", "anthropic"])
async def test_a_limit_that_no_waiting_changes_is_known_by_its_words(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    expected = {
        **dict.fromkeys(QUOTA, "has no quota left"),
        **dict.fromkeys(CONTEXT, "was told more than it can take"),
    }
    failures = cases_of({**QUOTA, **CONTEXT}, adapter, live, among=("chat", "anthropic"))
    names = {one: f"limit-{adapter}-{live}-{number}".lower() for number, one in enumerate(failures)}
    place.workshop(
        models={name: providers.alias(adapter, name, failures[one]) for one, name in names.items()},
        live_text=live,
        model_settings=ROOM,
    )
    for name in names.values():
        place.worker(name, name)
    came = dict(zip(names, await asyncio.gather(*(place.outcome(name) for name in names.values())), strict=True))
    assert {one: error for one, (_, error) in came.items() if expected[one] not in error} == {}
    assert {len(providers.scripts[name].streamed) for name in names.values()} == {1}


@BOTH
@EACH
async def test_a_refusal_is_told_by_its_words(providers: Providers, adapter: str, live: bool) -> None:
    expected = {
        **{one: (failure, "' failed: ") for one, failure in NAMED.items()},
        **{one: (failure, "refused the (key|request)|is not known") for one, failure in STAYING.items()},
        **{f"200-{one}": (failure, re.escape(words)) for one, (failure, words) in WORDS.items()},
    }
    for case, (failure, words) in expected.items():
        alias = providers.alias(adapter, f"told-{adapter}-{live}-{case}", failure)
        with pytest.raises(ApplicationError) as caught:
            await ask_turns(alias, [ModelRequest(parts=[UserPromptPart("Hello.")])], live=live)
        assert re.search(words, caught.value.message), case
        assert "validation error" not in caught.value.message
        assert "pydantic" not in caught.value.message


async def test_a_limit_that_is_over_soon_is_waited_for(place: Place, providers: Providers) -> None:
    names = {one: f"soon-{number}" for number, one in enumerate(SOON)}
    aliases = {name: providers.alias("chat", name, SOON[one]) for one, name in names.items()}
    place.workshop(models={**aliases, "other": providers.alias("chat", "soon-other", *[says("By the other.")] * 3)})
    for name in names.values():
        place.worker(name, f"{name},other")
    came = await asyncio.gather(*(place.outcome(name) for name in names.values()))
    assert came == [("By the other.", "")] * len(names)
    assert {len(providers.scripts[name].streamed) for name in names.values()} == {2}


async def test_an_answer_that_a_library_does_not_expect_is_left_to_the_other_model(
    place: Place, providers: Providers
) -> None:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": {"input_tokens": 9}}
    call: dict[str, Any] = {"functionCall": {"name": None, "args": {}}}
    odd = {
        "anthropic-text": raw(json.dumps({**message, "content": "Text.", "stop_reason": "end_turn"})),
        "anthropic-null": raw(json.dumps({**message, "content": [None], "stop_reason": "end_turn"})),
        "google-null": raw(json.dumps({"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}]})),
    }
    aliases = {name: providers.alias(name.partition("-")[0], name, *[answer] * 3) for name, answer in odd.items()}
    other = providers.alias("chat", "unexpected-other", *[says("By the other.")] * 3)
    place.workshop(models={**aliases, "other": other}, live_text=False, model_settings=ROOM)
    for name in odd:
        place.worker(name, f"{name},other")
    assert await asyncio.gather(*(place.outcome(name) for name in odd)) == [("By the other.", "")] * len(odd)


@pytest.mark.thorough
@pytest.mark.sampled(3)
@BOTH
@EACH
async def test_the_other_model_answers_where_one_answers_oddly(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    name = f"passing-{adapter}-{live}".lower()
    passing = cases_of(PASSING, adapter, live, every=["429", "null", "event"])
    aliases: dict[str, Any] = {}
    for number, answer in enumerate(passing.values()):
        aliases[f"a{number}"] = providers.alias(adapter, f"{name}-{number}", answer, says("By the other."))
        aliases[f"b{number}"] = providers.alias(adapter, f"{name}-b{number}", says("By the other."))
    place.workshop(models=aliases, live_text=live, model_settings=ROOM)
    for number in range(len(passing)):
        place.worker(f"both{number}", f"a{number},b{number}")
    came = await asyncio.gather(*(place.outcome(f"both{number}") for number in range(len(passing))))
    assert dict(zip(passing, came, strict=True)) == dict.fromkeys(passing, ("By the other.", ""))


async def test_a_long_validation_error_is_bounded_and_ends_the_run(place: Place, providers: Providers) -> None:
    said = {"role": "assistant", "content": "Hi.", "annotations": [{"type": {"x": LONG[:200]}}] * 1_000}
    choice = {"index": 0, "finish_reason": "stop", "message": said}
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
    shown = await shown_trouble(place, "main")
    assert "attempt " in shown
    assert "Short and stout." in shown


async def shown_trouble(place: Place, worker: str) -> str:
    """Start a run whose turn fails again and again, and return how `show` describes its work; the run is cancelled."""
    run = await place.start(worker)
    view = await place.client.view(run)
    while not await note_troubles(place.client.temporal, view):
        await asyncio.sleep(0.05)
        view = await place.client.view(run)
    await place.client.cancel(run)
    (node,) = view.ordered
    return activity_of(node)


@pytest.mark.thorough
@EACH
async def test_a_key_that_no_header_carries_is_final_and_never_shown(
    place: Place, providers: Providers, monkeypatch: pytest.MonkeyPatch, adapter: str
) -> None:
    keys = {"line": "sk-ab\ncd", "letter": "sk-abc…d", "control": "sk-abc\x0bd"}
    aliases: dict[str, Any] = {"other": providers.alias("chat", f"unsent-{adapter}", *[says("By the other.")] * 3)}
    for name, key in keys.items():
        variable = f"UNSENT_{name}_KEY".upper()
        monkeypatch.setenv(variable, key)
        refused = providers.alias(adapter, f"unsent-{adapter}-{name}", *[Failure(401, "Bad key.")] * 2)
        aliases[name] = {**refused, "api_key_env": variable}
        place.worker(f"alone-{name}", name)
        place.worker(f"both-{name}", f"{name},other")
    place.workshop(models=aliases, model_settings=ROOM)
    alone = await asyncio.gather(*(place.outcome(f"alone-{name}") for name in keys))
    words = ["cannot be sent a request"] * len(keys)
    if adapter == "anthropic":
        words[1] = "refused the key"  # its library sends letters as UTF-8
    assert [one in error and "sk-" not in error for one, (_, error) in zip(words, alone, strict=True)] == [True] * 3
    both = await asyncio.gather(*(place.outcome(f"both-{name}") for name in keys))
    assert both == [("By the other.", "")] * len(keys)


@EACH
async def test_a_line_end_after_a_key_is_no_part_of_it(
    place: Place, providers: Providers, monkeypatch: pytest.MonkeyPatch, adapter: str
) -> None:
    monkeypatch.setenv("LINED_KEY", " sk-abc\r\n")
    place.workshop(
        models={"m": {**providers.alias(adapter, f"lined-{adapter}", says("Hello.")), "api_key_env": "LINED_KEY"}},
        model_settings=ROOM,
    )
    place.worker("main", "m")
    assert await place.outcome("main") == ("Hello.", "")


@pytest.mark.thorough
@EACH
async def test_a_connection_that_fails_in_an_unknown_way_is_left_to_the_other_model_and_named(
    place: Place, providers: Providers, adapter: str
) -> None:
    other = providers.alias("chat", f"unread-{adapter}", *[says("By the other.")] * 2)
    packed = Raw(b"no gzip", "application/json", encoding="gzip")
    tls = providers.alias(adapter, f"tls-{adapter}")
    aliases = {
        "tls": {**tls, "base_url": tls["base_url"].replace("http:", "https:")},
        "gzip": providers.alias(adapter, f"gzip-{adapter}", *[packed] * 3),
    }
    place.workshop(models={**aliases, "other": other}, model_settings=ROOM)
    for name in aliases:
        place.worker(name, f"{name},other")
    assert await asyncio.gather(*(place.outcome(name) for name in aliases)) == [("By the other.", "")] * len(aliases)
    place.worker("alone", "tls")
    assert "SSL" in await shown_trouble(place, "alone")


def refusal(status: int, body: Json | str) -> Raw:
    if isinstance(body, str):
        return Raw(body.encode(), "text/html", status, once=True)
    return Raw(json.dumps(body).encode(), "application/json", status, once=True)


PASSES = {
    "throttled": refusal(400, {"__type": "ThrottlingException", "message": "Wait before you ask again."}),
    "many": refusal(400, {"error": {"message": "Too many requests, please wait."}}),
    "limit": refusal(
        403, {"error": {"code": 403, "message": "Slow down.", "errors": [{"reason": "rateLimitExceeded"}]}}
    ),
    "loading": refusal(404, {"error": {"message": "model is still loading, please try again"}}),
    "challenge": refusal(403, "<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>"),
}
NOT_PASSING = {
    "key": refusal(403, {"error": {"message": "This key may not use the model.", "status": "PERMISSION_DENIED"}}),
    "model": refusal(404, {"error": {"message": "There is no model of this name."}}),
    "setting": refusal(400, {"error": {"message": "temperature is too high", "type": "invalid_request_error"}}),
    "login": refusal(401, {"error": {"message": "Wrong key; requests are rate limited."}}),
    "context": refusal(400, {"error": {"message": "prompt is too long; the rate limit is another matter"}}),
}


@pytest.mark.thorough
@pytest.mark.sampled(2)
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_a_refusal_is_judged_by_its_words(place: Place, providers: Providers, adapter: str) -> None:
    """What may pass is asked again, and what is final is not, although nobody else is named."""
    forms = {**PASSES, **NOT_PASSING}
    aliases = {form: f"{form}-{adapter}" for form in forms}
    models = {name: providers.alias(adapter, name, forms[form], says("Done.")) for form, name in aliases.items()}
    place.workshop(models=models, live_text=False, model_settings=ROOM)
    for name in aliases.values():
        place.worker(name, name)
    came = dict(zip(forms, await asyncio.gather(*map(place.outcome, aliases.values())), strict=True))
    assert {form: output for form, (output, _) in came.items()} == {
        **dict.fromkeys(PASSES, "Done."),
        **dict.fromkeys(NOT_PASSING),
    }
    asked = {form: len(providers.scripts[name].streamed) for form, name in aliases.items()}
    assert asked == {**dict.fromkeys(PASSES, 2), **dict.fromkeys(NOT_PASSING, 1)}
