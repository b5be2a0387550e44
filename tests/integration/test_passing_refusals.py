"""Refusals whose status calls them final and whose words say that they pass, over HTTP through four adapters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.support.dialects.answers import Json, Raw, says
from tests.support.dialects.one_turn import ROOM
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.runs.place import Place


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    with Providers() as providers:
        yield providers


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
FINAL = {
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
    forms = {**PASSES, **FINAL}
    aliases = {form: f"{form}-{adapter}" for form in forms}
    models = {name: providers.alias(adapter, name, forms[form], says("Done.")) for form, name in aliases.items()}
    place.workshop(models=models, live_text=False, model_settings=ROOM)
    for name in aliases.values():
        place.worker(name, name)
    came = dict(zip(forms, await asyncio.gather(*map(place.outcome, aliases.values())), strict=True))
    assert {form: output for form, (output, _) in came.items()} == {
        **dict.fromkeys(PASSES, "Done."),
        **dict.fromkeys(FINAL),
    }
    asked = {form: len(providers.scripts[name].streamed) for form, name in aliases.items()}
    assert asked == {**dict.fromkeys(PASSES, 2), **dict.fromkeys(FINAL, 1)}
