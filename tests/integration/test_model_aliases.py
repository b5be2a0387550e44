"""Aliases with an address, settings, and isolated models, through the real OpenAI client."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from llm_do_temporal.cli.reports.show import record_json
from llm_do_temporal.cli.terminal.run_picture import activity_of, render_run
from llm_do_temporal.errors import ModelRefusal
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.testing import call, scripted
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.providers.answers import Gate, Gated, unauthorized
from tests.support.providers.provider import FakeProvider, Text, fixed
from tests.support.runs.delegation import APPROVE_ALL, delegation_to
from tests.support.runs.place import Place

SECRET = "a-key-that-no-history-may-hold"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """A server behind an address of its own; the provider's own variables lead nowhere."""
    monkeypatch.setenv("OPENAI_API_KEY", "the-key-of-somebody-else")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/nowhere")
    monkeypatch.setenv("LLM_DO_TEST_KEY", SECRET)
    with FakeProvider(fixed(*(Text(f"Answer {number}.") for number in range(9)))) as provider:
        yield provider


def local(provider: FakeProvider, **more: Any) -> dict[str, Any]:
    return {"local": {"model": "openai-chat:llama3", "base_url": provider.url, **more}}


async def test_the_key_comes_from_the_named_variable_and_is_in_no_history(place: Place, provider: FakeProvider) -> None:
    place.workshop(model="local", models=local(provider, api_key_env="LLM_DO_TEST_KEY"))
    place.worker("main")
    await place.run("main")
    assert provider.keys == [SECRET]
    for history in await place.histories():
        assert SECRET not in history.to_json()


async def test_nobody_who_watches_a_turn_sees_how_its_model_is_found(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of the first model nor of one that took over: in what `watch`, `show`, the page and Temporal's UI say."""
    monkeypatch.setenv("OPENAI_API_KEY", "the-key-of-somebody-else")
    gates = [Gate(), Gate()]
    turns = (Gated(gates[0], unauthorized()), Gated(gates[1], Text("Done.")))
    with FakeProvider(fixed(*turns)) as provider:
        names = {name: f"{name} (openai-chat:{name}-model)" for name in ("first", "second")}
        aliases = {
            name: {"model": f"openai-chat:{name}-model", "base_url": provider.url, "settings": {"temperature": 0.5}}
            for name in names
        }
        place.workshop(models={**aliases, "good": ["first", "second"]}, model="good")
        place.worker("main")
        run, ada = await place.start("main"), await signed_in_browser(place)
        for shown, gate in zip(names.values(), gates, strict=True):
            await asyncio.to_thread(gate.wait_until_reached)
            view, summary = await place.client.view(run), await place.client.status(run)
            (node,) = view.nodes.values()
            said = f"request model: {shown}"
            assert activity_of(node) == said
            assert (record_json(summary, view, [])["invocations"][0]["doing"]) == said
            screen = io.StringIO()
            Console(width=200, file=screen).print(render_run(view, datetime.now(UTC).replace(tzinfo=None)))
            assert said in screen.getvalue()
            pages = [await page_with(ada, f"/runs/{run}", said), await ada.open(f"/runs/{run}/invocations/main")]
            assert all("alias:" not in page.html and provider.url not in page.html for page in pages)
            gate.open()
        await place.client.result(run)
    (history,) = await place.chain(run)
    told = [event.user_metadata.summary.data.decode() for event in history.events]
    assert [one for one in told if "request model" in one] == [f'"request model: {one}"' for one in names.values()]


async def test_a_run_keeps_the_address_it_started_with(place: Place, provider: FakeProvider) -> None:
    place.workshop(model="local", models=local(provider))
    main = scripted(call("child", input="go"), "Done.")
    place.worker("main", main, toolsets=delegation_to("child"))
    place.worker("child", "local")
    run = await place.start("main")
    await place.pending(run)
    place.workshop(model="local", models={"local": {"model": "openai-chat:other", "base_url": "http://127.0.0.1:9/x"}})
    await place.decide(run)
    await place.client.result(run)
    assert [request.body["model"] for request in provider.requests] == ["llama3"]


async def test_a_child_inherits_the_alias_of_its_caller(place: Place, provider: FakeProvider) -> None:
    place.workshop(models=local(provider))
    place.worker("main", toolsets=delegation_to("child"))
    place.worker("child", toolsets=delegation_to("leaf"))
    place.worker("leaf")
    turns = (_calling("child"), _calling("leaf"), Text("Leaf."), Text("Child."), Text("Main."))
    with FakeProvider(fixed(*turns)) as both:
        place.workshop(models=local(both))
        assert (await place.run("main", mode=APPROVE_ALL, model="local")).output == "Main."
        assert [request.body["model"] for request in both.requests] == ["llama3"] * 5


def _calling(name: str) -> Any:
    from tests.support.providers.provider import tool_call

    return tool_call(name, input="go")


async def test_settings_are_merged_key_by_key_and_the_worker_wins(place: Place, provider: FakeProvider) -> None:
    settings = {"temperature": 0.1, "max_tokens": 10, "seed": 1}
    place.workshop(
        model="local", models=local(provider, settings=settings), model_settings={"max_tokens": 20, "top_p": 0.5}
    )
    place.worker("main", model_settings={"max_tokens": 30, "temperature": 0.9})
    await place.run("main")
    body = provider.requests[0].body
    sent = body.get("max_tokens", body.get("max_completion_tokens"))
    assert (body["temperature"], sent, body["top_p"], body["seed"]) == (0.9, 30, 0.5, 1)


@pytest.mark.parametrize("resolution", ["inherited", "isolated"])
async def test_in_an_isolated_workshop_the_model_of_the_run_is_for_the_entry_worker_alone(
    place: Place, resolution: str
) -> None:
    own = scripted("From the workshop.")
    entry = scripted(call("child", input="go"), "From the run.", "Never.")
    place.workshop(model=place.script("own", own), model_resolution=resolution)
    place.worker("main", toolsets=delegation_to("child"))
    place.worker("child")
    assert (await place.run("main", mode=APPROVE_ALL, model=place.script("entry", entry))).output in (
        "From the run.",
        "Never.",
    )
    assert len(own.requests) == (1 if resolution == "isolated" else 0)


async def test_nobody_who_starts_a_run_can_name_an_address(place: Place) -> None:
    spec = {"alias": "x", "model": "openai-chat:x", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "HOME"}
    place.worker("main")
    with pytest.raises(ModelRefusal):
        await place.run("main", model="alias:" + json.dumps(spec))


async def test_the_address_reaches_the_turn_and_the_history_has_no_other_place_for_it(
    place: Place, provider: FakeProvider
) -> None:
    """An alias with an address is all that a local server needs: no key of anybody is sent, and people see both."""
    place.workshop(model="local", models=local(provider))
    place.worker("main")
    run = await place.start("main")
    assert (await place.client.result(run)).output == "Answer 0."
    assert (provider.requests[0].body["model"], provider.keys) == ("llama3", ["none"])
    (node,) = (await place.client.view(run)).nodes.values()
    assert node.model == "local (openai-chat:llama3)"
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    turns = [
        event.activity_task_scheduled_event_attributes
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert [turn.activity_type.name for turn in turns] == [REQUEST_MODEL.name]
    assert provider.url.encode() in turns[0].input.payloads[0].data
