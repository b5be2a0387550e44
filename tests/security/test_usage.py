"""A provider that says nothing of what a turn took, or nothing true, lifts no limit: it is estimated and counted."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.usage import RequestUsage
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.models.streams import pause_streams
from llm_do_temporal.activities.models.turns import TurnModel
from llm_do_temporal.activities.models.usage import MAX_TOKENS, counted, priced
from llm_do_temporal.cli.output import usage_json
from llm_do_temporal.errors import BudgetExceeded
from llm_do_temporal.messages.budget import Usage as Spent
from tests.support.providers.answers import Call, Reported, Text, ToolCalls, Usage
from tests.support.providers.provider import FakeProvider, by_function
from tests.support.runs.place import Place

PROMPT = "How much does this cost? " * 100
ANSWER = "As much as it says here. " * 100
ASKED, SAID = len(PROMPT) // 4, len(ANSWER.strip()) // 4
HONEST = {"prompt_tokens": 700, "completion_tokens": 600, "total_tokens": 1300}


def said(prompt: Any, completion: Any, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": 0, **more}


WHOLE: dict[str, Any] = {
    "nothing": None,
    "zeros": said(0, 0),
    "less than none": said(-5, -7),
    "very much less": said(-(10**12), -(10**12)),
    "one and one": said(1, 1),
    "ten and ten": said(10, 10),
    "only the prompt": said(700, 0),
    "only the answer": said(0, 600),
    "a prompt given back": said(-700, 600),
    "an answer given back": said(700, -600),
    "the total alone": said(0, 0, total_tokens=1300),
    "more than any turn": said(MAX_TOKENS + 1, 600),
    "a number without end": said(10**300, 10**300),
    "true": said(True, True),
    "all from the cache, and more": said(0, 600, prompt_tokens_details={"cached_tokens": 10**9}),
    "thoughts instead": said(0, 0, completion_tokens_details={"reasoning_tokens": 1300}),
}
STREAMED: dict[str, Any] = {
    "no counts": {},
    "text": said("700", "x"),
    "fractions": said(0.5, 0.5),
    "not a number": said(float("nan"), float("nan")),
    "endless": said(float("inf"), float("-inf")),
    "lists": said([700], [600]),
    "none": said(None, None),
    "objects": said({"a": 1}, {"b": 2}),
}
CHEAP: dict[str, Any] = {
    "a cost of nothing": {"logfire_ai_gateway": {"cost": "0"}},
    "a cost of next to nothing": {"logfire_ai_gateway": {"cost": "0.0000000001"}},
    "a cost below nothing": {"logfire_ai_gateway": {"cost": "-100"}},
    "a cost that is no number": {"logfire_ai_gateway": {"cost": "NaN"}},
    "an endless cost": {"logfire_ai_gateway": {"cost": "-Infinity"}},
    "an old field": {"pydantic_ai_gateway": {"cost_estimate": 0}},
    "less cached than nothing": {"prompt_tokens_details": {"cached_tokens": -(10**9)}},
    "less heard than nothing": {"prompt_tokens_details": {"audio_tokens": -(10**9)}},
    "less thought than nothing": {"completion_tokens_details": {"reasoning_tokens": -(10**9)}},
    "less spoken than nothing": {"completion_tokens_details": {"audio_tokens": -(10**9)}},
}
PRICE = Decimal(700) * Decimal("2.5") / 10**6 + Decimal(600) * 10 / 10**6


async def turn(point_at: Callable[..., FakeProvider], usage: Any, *, streamed: bool = False) -> RequestUsage:
    """What is counted for one turn of gpt-4o whose provider says this of it."""
    point_at(by_function(lambda _: Text(ANSWER, usage=Reported(usage))))
    model = OpenAIChatModel("gpt-4o")
    served = TurnModel(model)
    if not streamed:
        pause_streams(model, "it is asked for a whole answer")
    request: list[ModelMessage] = [ModelRequest([UserPromptPart(PROMPT)])]
    answer = await ActivityEnvironment().run(served.request, request, None, ModelRequestParameters())
    assert isinstance(answer, ModelResponse)
    return answer.usage


@pytest.mark.sampled(2)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("usage", WHOLE.values(), ids=WHOLE)
async def test_an_unbelievable_report_is_replaced_by_an_estimate(point_at: Any, usage: Any, streamed: bool) -> None:
    found = await turn(point_at, usage, streamed=streamed)
    assert ASKED * 0.9 <= found.input_tokens <= ASKED * 2
    assert SAID * 0.9 <= found.output_tokens <= SAID * 2
    assert found.unmeasured_requests == 1
    assert found.cost is not None
    assert found.cost > PRICE / 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("usage", STREAMED.values(), ids=STREAMED)
async def test_what_is_no_number_in_a_stream_is_replaced_by_an_estimate(point_at: Any, usage: Any) -> None:
    found = await turn(point_at, usage, streamed=True)
    assert (found.input_tokens, found.unmeasured_requests) == (-(-len(PROMPT) // 4), 1)
    assert found.output_tokens >= SAID


@pytest.mark.parametrize("more", CHEAP.values(), ids=CHEAP)
async def test_a_turn_is_never_cheaper_than_its_tokens(point_at: Any, more: dict[str, Any]) -> None:
    found = await turn(point_at, HONEST | more)
    assert found.total_tokens >= 1200
    assert found.cost is not None
    assert found.cost >= PRICE / 2


BROKEN: dict[str, RequestUsage] = {
    "searches given back": RequestUsage(input_tokens=700, output_tokens=600, web_searches=-1000),
    "more cached than there was": RequestUsage(input_tokens=700, output_tokens=600, cache_read_tokens=10**6),
    "more kept than there was": RequestUsage(input_tokens=700, output_tokens=600, cache_write_tokens=701),
    "both together more than there was": RequestUsage(
        input_tokens=700, output_tokens=600, cache_read_tokens=400, cache_write_tokens=400
    ),
    "more thought than said": RequestUsage(input_tokens=700, output_tokens=600, output_reasoning_tokens=10**6),
    "seconds given back": RequestUsage(input_tokens=700, output_tokens=600, audio_seconds=-1e9),
    "seconds that are none": RequestUsage(input_tokens=700, output_tokens=600, audio_seconds=float("nan")),
    "a cost that is none": RequestUsage(input_tokens=700, output_tokens=600, cost=Decimal("NaN")),
    "a cost given back": RequestUsage(input_tokens=700, output_tokens=600, cost=Decimal(-5)),
    "writing given back": RequestUsage(input_tokens=700, output_tokens=600, cache_write_tokens=-(10**9)),
}


@pytest.mark.parametrize("usage", BROKEN.values(), ids=BROKEN)
def test_no_part_of_a_report_makes_a_turn_cheaper(usage: RequestUsage) -> None:
    answer = ModelResponse([], usage=usage, model_name="gpt-4o", provider_name="openai")
    found = priced(counted(answer, [], ModelRequestParameters())[0]).usage
    assert found.cost is not None
    assert found.cost >= PRICE / 10
    assert all(amount >= 0 for amount in vars(found).values() if isinstance(amount, int | float))


ENDLESS = 40
"""Turns after which a test gives up on a limit."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("limits", [{"tokens": 5000}, {"cost": 0.02}], ids=["tokens", "cost"])
@pytest.mark.parametrize(
    "usage", [None, said(0, 0), said(-900, -100), said(1, 1)], ids=["nothing", "zeros", "less than none", "ones"]
)
async def test_a_limit_holds_whatever_a_provider_says(
    place: Place, point_at: Any, usage: Any, limits: dict[str, Any], streamed: bool
) -> None:
    def answer(request: dict[str, Any]) -> Text | ToolCalls:
        if sum(message["role"] == "assistant" for message in request["messages"]) > ENDLESS:
            return Text("Nobody stopped me.")
        return ToolCalls((Call("list_files", {"path": "."}),), text=ANSWER, usage=Reported(usage))

    served = point_at(by_function(answer))
    place.workshop(model="openai-chat:gpt-4o", limits=limits, live_text=streamed)
    place.worker("main", toolsets={"filesystem": {}}, attachment_policy={"max_attachments": 0})
    run = await place.start("main", prompt=PROMPT)
    (question,) = await place.pending(run)
    assert question.request.args["limit"] in limits
    assert len(served.requests) < ENDLESS / 4
    await place.decide(run, "reject")
    with pytest.raises(BudgetExceeded):
        await place.client.result(run)
    view = await place.client.view(run)
    assert view.usage.estimated == view.usage.requests
    assert usage_json(view.usage)["estimated_requests"] == view.usage.requests


@pytest.mark.control
async def test_an_honest_report_is_taken_as_it_is(point_at: Any) -> None:
    found = await turn(point_at, HONEST)
    assert (found.input_tokens, found.output_tokens, found.unmeasured_requests) == (700, 600, 0)
    assert found.cost == PRICE


@pytest.mark.control
async def test_a_run_of_honest_reports_is_not_marked(place: Place, point_at: Any) -> None:
    point_at(by_function(lambda _: Text("Done.", Usage(900, 100))))
    place.worker("main", "openai-chat:gpt-4o")
    result = await place.run("main")
    assert (result.usage.input_tokens, result.usage.estimated) == (900, 0)
    assert "estimated_requests" not in usage_json(result.usage)


@pytest.mark.control
def test_people_see_that_tokens_are_estimated() -> None:
    assert Spent(requests=2, input_tokens=1200, output_tokens=3, estimated=1).tokens_line == (
        "1,200 tokens in, 3 out (1 turn estimated)"
    )
