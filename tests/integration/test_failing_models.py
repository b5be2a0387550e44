"""Models that fail, through the real OpenAI client: waiting for them, asking another, and hanging up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from temporalio.api.workflow.v1 import PendingActivityInfo

from llm_do_temporal.activities.models.conversations import Conversations
from llm_do_temporal.cli.terminal.run_picture import activity_of
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.traces import Tracer
from llm_do_temporal.client.views.pending_work import Trouble, note_troubles
from llm_do_temporal.errors import ModelFailed, RunCancelled
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.service.build import ServiceSettings, build_worker
from tests.support.ports import held_port
from tests.support.providers.answers import Answer, Failure, Gate, Gated, Script, rate_limited, unauthorized
from tests.support.providers.provider import FakeProvider, Text, by_function, fixed, tool_call
from tests.support.runs.delegation import APPROVE_ALL, delegation_to
from tests.support.runs.place import Place
from tests.support.servers.collector import kept_spans

FIRST, SECOND = "openai-chat:first", "openai-chat:second"
BOTH = f"{FIRST},{SECOND}"
POLL_SECONDS = 0.05


def asked(provider: FakeProvider) -> list[str]:
    """The models that were asked, in order."""
    return [request.body["model"] for request in provider.requests]


def first_fails(fault: Answer) -> Script:
    return by_function(lambda request: fault if request["model"] == "first" else Text("By the second."))


async def waiting(place: Place, run: str) -> Trouble:
    """What the entry worker of a run waits for, as soon as it does."""
    while True:
        for _, trouble in await note_troubles(place.client.temporal, await place.client.view(run)):
            return trouble
        await asyncio.sleep(POLL_SECONDS)


def models_told(spans: Iterable[ReadableSpan]) -> list[tuple[str, object]]:
    """Names of the spans that tell a model, all of them of OpenAI, and the models."""
    told = [
        (one.name, dict(one.attributes)) for one in spans if one.attributes and "gen_ai.request.model" in one.attributes
    ]
    assert {str(attributes["gen_ai.provider.name"]) for _, attributes in told} == {"openai"}
    return [(name, attributes["gen_ai.request.model"]) for name, attributes in told]


def _forget(*_: object) -> None:
    """In the place of remembering a conversation."""


async def pending_turn(place: Place, run: str) -> PendingActivityInfo:
    description = await place.client.temporal.get_workflow_handle(run).describe()
    (pending,) = description.raw_description.pending_activities
    return pending


# --- waiting ---


async def test_a_provider_that_asks_to_wait_is_asked_again_when_it_said(place: Place, point_at: Any) -> None:
    provider: FakeProvider = point_at(fixed(rate_limited(1800)))
    place.worker("main", FIRST)
    run = await place.start("main")
    trouble = await waiting(place, run)
    assert trouble.failure == f"model '{FIRST}' is rate limited: Rate limit reached. (HTTP 429)"
    pending = await pending_turn(place, run)
    assert round(pending.current_retry_interval.ToTimedelta().total_seconds()) == 1800
    assert len(provider.requests) == 1
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)


@pytest.fixture
def away() -> Iterator[int]:
    """A port at which nobody answers and that nobody else gets, but that a provider may listen at later."""
    with held_port() as port:
        yield port


async def test_a_provider_that_is_away_is_waited_for_and_the_run_goes_on(
    place: Place, point_at: Any, away: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{away}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    place.worker("main", FIRST)
    run = await place.start("main")
    trouble = await waiting(place, run)
    assert trouble.failure.startswith(f"model '{FIRST}' cannot be reached")
    view = await place.client.view(run)
    await note_troubles(place.client.temporal, view)
    (node,) = view.ordered
    assert "attempt " in activity_of(node)
    assert "cannot be reached" in activity_of(node)
    point_at(fixed(Text("Here again.")), port=away)
    assert (await place.client.result(run)).output == "Here again."
    view = await place.client.view(run)
    assert await note_troubles(place.client.temporal, view) == []
    assert view.ordered[0].trouble == ""


# --- waiting for a key ---

NO_KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "TEAM_KEY")
ALIAS = "models: {own: {model: 'openai-chat:first', base_url: 'URL', api_key_env: TEAM_KEY}}\n"


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that has a key for no model."""
    for name in NO_KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("keyless")
@pytest.mark.parametrize(
    ("model", "key"),
    [(FIRST, "OPENAI_API_KEY"), ("openai:first", "OPENAI_API_KEY"), ("anthropic:first", "ANTHROPIC_API_KEY")],
)
async def test_a_run_whose_key_is_not_set_waits_for_it_by_name(place: Place, model: str, key: str) -> None:
    place.worker("main", model)
    run = await place.start("main")
    trouble = await waiting(place, run)
    assert trouble.failure == f"model '{model}' waits for the key {key}: start the worker service where it is set"
    view = await place.client.view(run)
    await note_troubles(place.client.temporal, view)
    assert f"waits for the key {key}" in activity_of(view.ordered[0])
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)


@pytest.mark.usefixtures("keyless")
async def test_a_run_goes_on_when_its_key_is_there(place: Place, point_at: Any) -> None:
    place.worker("main", FIRST)
    run = await place.start("main")
    await waiting(place, run)
    point_at(fixed(Text("With the key.")))
    assert (await place.client.result(run)).output == "With the key."


@pytest.mark.usefixtures("keyless")
async def test_a_run_waits_for_the_key_that_an_alias_names(
    place: Place, point_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider: FakeProvider = point_at(fixed(Text("With the key.")))
    place.write("workshop.yaml", ALIAS.replace("URL", provider.url))
    place.worker("main", "own")
    run = await place.start("main")
    assert "waits for the key TEAM_KEY" in (await waiting(place, run)).failure
    assert provider.requests == []
    monkeypatch.setenv("TEAM_KEY", "sk-team")
    assert (await place.client.result(run)).output == "With the key."


@pytest.mark.thorough
@pytest.mark.usefixtures("keyless")
async def test_of_several_models_without_keys_the_first_whose_key_comes_answers(place: Place, point_at: Any) -> None:
    place.worker("main", f"anthropic:first,{SECOND}")
    run = await place.start("main")
    assert "waits for the key" in (await waiting(place, run)).failure
    provider: FakeProvider = point_at(fixed(Text("By the second.")))
    assert (await place.client.result(run)).output == "By the second."
    assert asked(provider) == ["second"]


# --- another model ---


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("fault", "tries"),
    [
        (rate_limited(60), 1),
        (rate_limited(1), 2),
        (Failure(503), 2),
        (unauthorized(), 1),
        (Failure(404, "No such model."), 1),
        (Failure(400, "Bad schema."), 1),
        (Failure(429, "No money.", code="insufficient_quota"), 1),
    ],
    ids=["long wait", "rate limit", "overloaded", "key", "unknown", "refused", "quota"],
)
async def test_the_next_model_answers_where_one_cannot(place: Place, point_at: Any, fault: Answer, tries: int) -> None:
    provider: FakeProvider = point_at(first_fails(fault))
    place.write("workers/main.worker", f"model: [{FIRST}, {SECOND}]\n---\nDo it.\n")
    run = await place.start("main")
    result = await place.client.result(run)
    assert result.output == "By the second."
    assert asked(provider) == ["first"] * tries + ["second"]
    view = await place.client.view(run)
    assert {model: usage.requests for model, usage in view.by_model.items()} == {SECOND: 1}
    assert result.usage.requests == 1
    assert result.usage.unpriced == (SECOND,)
    assert view.ordered[0].model == f"{FIRST}, {SECOND}"


async def test_a_request_that_all_models_refuse_fails_with_the_words_of_each(place: Place, point_at: Any) -> None:
    provider: FakeProvider = point_at(by_function(lambda request: Failure(400, f"Bad schema for {request['model']}.")))
    place.worker("main", BOTH)
    with pytest.raises(ModelFailed, match=r"no model is left: .*Bad schema for first.*Bad schema for second"):
        await place.run("main")
    assert asked(provider) == ["first", "second"]


async def test_a_model_without_a_key_is_left_to_the_next(
    place: Place, point_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at(fixed(Text("By the second.")))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    place.worker("main", f"anthropic:first,{SECOND}")
    assert (await place.run("main")).output == "By the second."


async def test_when_the_last_fails_too_the_first_is_asked_again(place: Place, point_at: Any) -> None:
    down = Failure(503)
    provider: FakeProvider = point_at(fixed(down, down, down, down, Text("Up again.")))
    place.worker("main", BOTH)
    assert (await place.run("main")).output == "Up again."
    assert asked(provider) == ["first", "first", "second", "second", "first"]


@pytest.mark.parametrize("remembers", [True, False], ids=["at hand", "from the history"])
async def test_the_next_model_is_told_the_whole_conversation_and_the_first_goes_on(
    place: Place, point_at: Any, monkeypatch: pytest.MonkeyPatch, *, remembers: bool
) -> None:
    provider: FakeProvider = point_at(
        fixed(
            tool_call("list_files", path="/notes"),
            unauthorized(),
            tool_call("read_file", path="/notes/a.md"),
            Text("Done."),
        )
    )
    if not remembers:
        monkeypatch.setattr(Conversations, "_remember", _forget)
    place.write("notes/a.md", "a")
    place.worker("main", BOTH, toolsets={"filesystem": {}})
    run = await place.start("main", mode=APPROVE_ALL)
    assert (await place.client.result(run)).output == "Done."
    assert asked(provider) == ["first", "first", "second", "first"]
    bodies = [request.body["messages"] for request in provider.requests]
    assert bodies[2] == bodies[1]
    assert [len(body) for body in bodies] == [2, 4, 4, 6]
    view = await place.client.view(run)
    assert {model: usage.requests for model, usage in view.by_model.items()} == {FIRST: 2, SECOND: 1}


async def test_an_alias_for_several_models_gives_each_its_own_address_and_settings(
    place: Place, point_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider: FakeProvider = point_at(first_fails(unauthorized()))
    monkeypatch.setenv("OTHER_KEY", "k-other")
    spare = {"model": SECOND, "base_url": provider.url, "api_key_env": "OTHER_KEY", "settings": {"temperature": 0.5}}
    place.workshop(models={"spare": spare, "good": [FIRST, "spare"]}, model="good")
    place.worker("main")
    run = await place.start("main")
    assert (await place.client.result(run)).output == "By the second."
    assert [request.body.get("temperature") for request in provider.requests] == [None, 0.5]
    assert provider.keys == ["sk-test", "k-other"]
    view = await place.client.view(run)
    assert list(view.by_model) == [f"spare ({SECOND})"]


async def test_spans_tell_the_model_that_was_asked_and_not_what_the_workshop_calls_it(
    place: Place, point_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider: FakeProvider = point_at(first_fails(unauthorized()))
    spare = {"model": SECOND, "base_url": provider.url}
    place.workshop(models={"own": {"model": FIRST, "settings": {"top_p": 1}}, "spare": spare, "good": ["own", "spare"]})
    place.worker("main", "good")
    sent = kept_spans(monkeypatch)
    run = await place.start("main")
    await place.client.result(run)
    requests = [("model_request", "first"), ("model_request", "second")]
    assert models_told(sent.get_finished_spans()) == [
        *requests,
        ("chat second", "second"),
        ("invoke_agent main", "first"),
    ]
    tracer = Tracer(run)
    told = [
        span
        for flow in await place.histories()
        for event in flow.events
        for span in tracer.take(flow.workflow_id, event)
    ]
    assert models_told(told) == [("chat first", "first"), ("chat second", "second"), ("invoke_agent main", "first")]


async def test_a_callee_inherits_all_the_models_of_its_caller(place: Place, point_at: Any) -> None:
    def script(request: dict[str, Any]) -> Answer:
        if request["model"] == "first":
            return unauthorized()
        told = str(request["messages"])
        return tool_call("helper", input="go") if "Call it." in told and "Helped." not in told else Text("Helped.")

    provider: FakeProvider = point_at(by_function(script))
    place.worker("main", BOTH, instructions="Call it.", toolsets=delegation_to("helper"))
    place.worker("helper")
    run = await place.start("main", mode=APPROVE_ALL)
    assert (await place.client.result(run)).output == "Helped."
    assert asked(provider) == ["first", "second"] * 3
    assert {node.model for node in (await place.client.view(run)).ordered} == {f"{FIRST}, {SECOND}"}


# --- hanging up ---


async def test_cancelling_a_run_closes_the_connection_to_the_provider(place: Place, point_at: Any) -> None:
    gate = Gate()
    provider: FakeProvider = point_at(fixed(Gated(gate)))
    place.worker("main", FIRST)
    run = await place.start("main")
    await asyncio.to_thread(gate.wait_until_reached)
    await place.client.cancel(run)
    await asyncio.to_thread(provider.wait_for_hang_up)
    with pytest.raises(RunCancelled):
        await place.client.result(run)


async def test_a_service_that_stops_hangs_up_and_the_next_one_asks_again(place: Place, point_at: Any) -> None:
    gate = Gate()
    provider: FakeProvider = point_at(fixed(Gated(gate, Text("Too late.")), Text("From the next service.")))
    place.worker("main", FIRST)
    settings = ServiceSettings(task_queue=f"test-{uuid4().hex}", graceful_shutdown=timedelta(0))
    client = LlmDoClient(place.client.temporal, task_queue=settings.task_queue)
    async with build_worker(client.temporal, place.folder, settings):
        run = await client.start(StartRunInput(worker="main", prompt="go"))
        place.started.append(run)
        await asyncio.to_thread(gate.wait_until_reached)
    await asyncio.to_thread(provider.wait_for_hang_up)
    async with build_worker(client.temporal, place.folder, settings):
        assert (await client.result(run)).output == "From the next service."
