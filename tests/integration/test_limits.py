"""Limits of runs and workers: nothing is overspent, however many work side by side, and a person may go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage

from llm_do_temporal.errors import BudgetExceeded
from llm_do_temporal.testing import call, scripted
from tests.support.providers.answers import Call, Script, Text, ToolCalls, Usage
from tests.support.providers.provider import by_function
from tests.support.runs.delegation import APPROVE_ALL, delegation_to, tool_results
from tests.support.runs.place import NO_CACHE, Place
from tests.support.runs.prices import PRICED_MODEL, TURN_COST


def crowd(children: int, turns: int) -> Script:
    """The entry worker calls all its children at once; each of them lists its files in every turn but the last."""
    usage = Usage(900, 100)

    def answer(request: dict[str, Any]) -> Text | ToolCalls:
        answered = sum(message["role"] == "assistant" for message in request["messages"])
        tools = {tool["function"]["name"] for tool in request.get("tools", [])}
        if "child" in tools:
            many = tuple(Call("child", {"input": f"{number}"}) for number in range(children))
            return Text("All done.", usage) if answered else ToolCalls(many, usage=usage)
        if answered < turns - 1:
            return ToolCalls((Call("list_files", {"path": "."}),), usage=usage)
        return Text("Done.", usage)

    return by_function(answer)


def write_crowd(place: Place, **limits: Any) -> None:
    place.workshop(model=PRICED_MODEL, limits=limits)
    place.worker("child", toolsets={"filesystem": {}}, attachment_policy={"max_attachments": 0})
    place.worker("main", toolsets=delegation_to("child"))


CHILDREN, TURNS = (6, 11) if NO_CACHE else (32, 50)
"""Where every task replays a history from its start, 32 at once would be a test of patience."""


@pytest.mark.thorough
async def test_32_children_side_by_side_take_no_turn_too_many(place: Place, point_at: Any) -> None:
    served = point_at(crowd(CHILDREN, 4))
    write_crowd(place, turns=TURNS)
    run = await place.start("main", mode=APPROVE_ALL)
    with pytest.raises(BudgetExceeded, match=f"the run has spent {TURNS} turns, its limit is {TURNS} turns"):
        await place.client.result(run)
    assert len(served.requests) == TURNS
    view = await place.client.view(run)
    assert view.usage.requests <= TURNS
    assert {node.status for node in view.nodes.values()} <= {"completed", "cancelled", "failed"}


@pytest.mark.thorough
async def test_exactly_what_is_needed_is_enough(place: Place, point_at: Any) -> None:
    served = point_at(crowd(8, 3))
    write_crowd(place, turns=26, tool_calls=24, invocations=9, tokens=27_000, cost=10, time="1h")
    result = await place.run("main", mode=APPROVE_ALL)
    assert result.output == "All done."
    assert len(served.requests) == 26
    assert result.usage.cost_usd == 26 * TURN_COST
    assert result.usage.unpriced == ()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"tool_calls": 10}, "the run has spent 10 tool calls, its limit is 10 tool calls"),
        ({"invocations": 3}, "the run has spent 3 invocations, its limit is 3 invocations"),
        ({"time": "1s"}, "the run has gone on for 1 second, its limit"),
    ],
)
async def test_a_reached_limit_ends_the_run_where_nobody_can_be_asked(
    place: Place, limits: dict[str, Any], message: str
) -> None:
    async def slow(_: Any) -> Any:
        await asyncio.sleep(3 if "time" in limits else 0)
        return [call("list_files", path=".") for _ in range(4)]

    place.workshop(limits=limits)
    place.worker("child", scripted(slow, slow, slow, "Done."), toolsets={"filesystem": {}})
    place.worker(
        "main", scripted([call("child", input="go") for _ in range(3)], "Done."), toolsets=delegation_to("child")
    )
    run = await place.start("main", mode=APPROVE_ALL)
    with pytest.raises(BudgetExceeded, match=message):
        await place.client.result(run)
    ledger = (await place.client.desk(run)).ledger
    (account,) = ledger.accounts
    for dimension in set(limits) - {"time"}:
        assert account.spent.of(account.limits.set_ones[0]) <= limits[dimension]


async def test_tokens_and_cost_stop_the_run_once_they_are_spent(place: Place, point_at: Any) -> None:
    for limits, message in (({"tokens": 5_500}, "tokens"), ({"cost": 0.015}, r"spent \$0.01625, its limit is \$0.015")):
        served = point_at(crowd(4, 4))
        write_crowd(place, **limits)
        with pytest.raises(BudgetExceeded, match=message):
            await place.run("main", mode=APPROVE_ALL)
        # Five turns fit; after 5,000 tokens one more may start, and none beside it.
        assert len(served.requests) <= 6


async def test_approving_goes_on_by_as_much_again_and_a_change_by_another_amount(place: Place) -> None:
    looking = [call("list_files", path=".")] * 6
    place.worker("main", scripted(*looking, "Done."), toolsets={"filesystem": {}}, limits={"turns": 2})
    place.workshop(limits={"tool_calls": 4})
    run = await place.start("main")
    (first,) = await place.pending(run)
    assert first.request.tool == "go_on"
    assert first.request.args == {"limit": "turns", "spent": 2, "next": 4}
    assert first.request.summary == "main has spent 2 turns, its limit is 2 turns; go on to 4 turns?"
    await place.decide(run)
    (second,) = await place.pending(run)
    assert second.request.args == {"limit": "turns", "spent": 4, "next": 6}
    await place.decide(run, "modify", args={**second.request.args, "next": 100})
    (third,) = await place.pending(run)
    assert third.request.summary.startswith("the run has spent 4 tool calls")
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."


async def test_rejecting_stops_the_run_with_the_reason(place: Place) -> None:
    looking = [call("list_files", path=".")] * 3
    place.workshop(limits={"turns": 2})
    place.worker("main", scripted(*looking, "Done."), toolsets={"filesystem": {}})
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "reject", note="enough", by="ada")
    with pytest.raises(BudgetExceeded, match="ada decided to stop: enough"):
        await place.client.result(run)


async def test_a_workers_limit_holds_for_each_invocation_with_all_below_it(place: Place) -> None:
    leaf = scripted(call("list_files", path="."), "Seen.")
    branch = scripted(call("leaf", input="go"), call("leaf", input="go"), "Done.")
    main = scripted([call("branch", input="a"), call("branch", input="b")], "All done.")
    place.worker("leaf", leaf, toolsets={"filesystem": {}})
    place.worker("branch", branch, toolsets=delegation_to("leaf"), limits={"turns": 5})
    place.worker("main", main, toolsets=delegation_to("branch"))
    run = await place.start("main", mode=APPROVE_ALL)
    assert (await place.client.result(run)).output == "All done."
    for result in tool_results(main, "branch"):
        assert "worker 'branch' failed: limit reached: main/branch-" in result
        assert "has spent 5 turns, its limit is 5 turns" in result
    view = await place.client.view(run)
    below = [node for node in view.nodes.values() if node.path.startswith("main/branch-1")]
    assert sum(node.usage.requests for node in below) == 5


async def test_a_limit_on_cost_cannot_hold_for_a_model_without_a_price(place: Place) -> None:
    place.workshop(limits={"cost": 2.5})
    place.worker("main", scripted(call("list_files", path="."), "Done."), toolsets={"filesystem": {}})
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert "whose price is not known, with a limit of $2.50" in asked.request.summary
    await place.decide(run)
    result = await place.client.result(run)
    assert result.usage.cost_usd is None
    assert len(result.usage.unpriced) == 1


async def test_without_limits_nothing_is_told_about_spending(place: Place, point_at: Any) -> None:
    point_at(crowd(2, 2))
    write_crowd(place)
    run = await place.start("main", mode=APPROVE_ALL)
    result = await place.client.result(run)
    assert result.usage.cost_usd == 6 * TURN_COST
    assert (await place.client.view(run)).usage.cost_usd == 6 * TURN_COST
    signals = {
        event.workflow_execution_signaled_event_attributes.signal_name
        for history in await place.histories()
        for event in history.events
    }
    assert signals == {""}


async def test_the_question_at_a_limit_is_taken_back_once_the_work_is_done(place: Place) -> None:
    child_goes_on, main_goes_on = asyncio.Event(), asyncio.Event()

    def after(event: asyncio.Event, text: str) -> Callable[[list[ModelMessage]], Awaitable[str]]:
        async def answer(_messages: list[ModelMessage]) -> str:
            await event.wait()
            return text

        return answer

    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("slow", scripted(after(child_goes_on, "Slowly.")), limits={"time": 1})
    main = scripted(call("slow", input="go"), after(main_goes_on, "Done."))
    place.worker("main", main, toolsets=delegation_to("slow"))
    run = await place.start("main")
    (question,) = await place.pending(run)
    assert question.request.tool == "go_on"
    child_goes_on.set()
    await place.pending_is(run)
    main_goes_on.set()
    assert (await place.client.result(run)).output == "Done."
    assert tool_results(main, "slow") == ["Slowly."]
