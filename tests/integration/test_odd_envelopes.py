"""Answers whose text is fine and whose other fields are not, over HTTP: they are kept, and their runs go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.dialects.answers import Json, Raw, says
from tests.support.dialects.server import Providers
from tests.support.runs.place import Place

LIVE = pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
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


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    """All of them, for all of this file."""
    with Providers() as providers:
        yield providers


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
