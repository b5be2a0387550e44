"""`call_worker` and `run_worker`: in a Python tool of a run, and with a client of one's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from llm_do_temporal import WorkerRunResult, call_worker, run_worker
from llm_do_temporal.errors import DepthExceeded, RunFailed, UsageError
from llm_do_temporal.messages import RUN_MEMO
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.integration.conftest import Place

TOOLS = '''
from llm_do_temporal import call_worker


async def ask_sage(question: str) -> dict:
    """Ask the sage."""
    result = await call_worker("sage", question)
    return {"said": result.output, "run": result.run}


async def ask_twice(question: str) -> list:
    """Ask the sage twice, at the same time."""
    import asyncio

    both = await asyncio.gather(call_worker("sage", question), call_worker("sage", question))
    return [one.run for one in both]


async def ask_nobody() -> str:
    """Ask somebody who is not there."""
    return (await call_worker("nobody", "?")).output
'''
CUSTOM = {"ask_sage": {"pre_approved": True}, "ask_twice": {"pre_approved": True}, "ask_nobody": {"pre_approved": True}}


def told(model: ScriptedModel, tool: str) -> list[str]:
    """What the model was told of its calls of a tool."""
    return [result.text for result in model.requests[-1].results(tool)]


def prepare(place: Place, main: ScriptedModel, **keys: Any) -> None:
    """A worker with the tools, whose model is `main`."""
    place.write("tools.py", TOOLS)
    place.worker("main", main, toolsets={"custom": CUSTOM}, **keys)


async def nested_run(place: Place, outer: str) -> str:
    """The one run that was started by the other, as soon as there is one."""
    found: list[str] = []
    async with asyncio.timeout(20):
        while not found:
            found = [one.run for one in await place.client.runs() if one.run.startswith(f"{outer}.")]
            await asyncio.sleep(0.05)
    place.started += found
    return found[0]


async def test_a_tool_gets_the_answer_of_a_run_of_its_own(place: Place) -> None:
    sage = scripted("Forty-two.")
    main = scripted(call("ask_sage", question="The question?"), "It is 42.")
    prepare(place, main)
    place.worker("sage", sage)
    run = await place.start("main", mode="approve_all")
    await place.client.result(run)
    nested = await nested_run(place, run)
    assert sage.requests[0].prompt == "The question?"
    assert '"said":"Forty-two."' in told(main, "ask_sage")[0].replace(": ", ":")
    assert nested in told(main, "ask_sage")[0]


async def test_the_nested_run_names_its_caller_and_has_its_mode_and_model(place: Place) -> None:
    main = scripted(call("ask_sage", question="?"), lambda messages: "from the sage" if len(messages) < 3 else "Done.")
    prepare(place, main)
    # The sage names no model: it runs with the caller's, whose first turn is the same call.
    place.worker("sage", toolsets={})
    run = await place.start("main", mode="strict")
    await place.client.result(run)
    nested = await nested_run(place, run)
    memo = await (await place.client.temporal.get_workflow_handle(nested).describe()).memo()
    assert memo[RUN_MEMO]["started_by"] == f"run {run} (main)"
    (node,) = (await place.client.view(nested)).nodes.values()
    assert (node.depth, node.model) == (1, (await place.client.view(run)).nodes[f"{run}/main"].model)
    started = await anext(aiter(place.client.temporal.get_workflow_handle(nested).fetch_history_events()))
    given = started.workflow_execution_started_event_attributes.input.payloads[0].data.decode()
    assert '"mode":"strict"' in given.replace(": ", ":")


async def test_equal_calls_of_one_tool_are_runs_of_their_own(place: Place) -> None:
    main = scripted(call("ask_twice", question="?"), "Done.")
    prepare(place, main)
    place.worker("sage", scripted("Yes."))
    run = await place.start("main", mode="approve_all")
    await place.client.result(run)
    found = sorted(one.run for one in await place.client.runs() if one.run.startswith(f"{run}."))
    place.started += found
    assert len(found) == 2
    assert all(one in told(main, "ask_twice")[0] for one in found)


async def test_a_nested_run_is_held_against_the_deepest_level(place: Place) -> None:
    main = scripted(call("ask_sage", question="?"), "Alone then.")
    prepare(place, main)
    place.worker("sage", scripted())
    place.workshop(max_depth=0)
    run = await place.start("main", mode="approve_all")
    await place.client.result(run)
    assert "maximum worker depth exceeded: 'sage' would run at depth 1" in told(main, "ask_sage")[0]
    assert not [one for one in await place.client.runs() if one.run.startswith(f"{run}.")]


async def test_a_run_that_is_started_too_deep_ends_at_once(place: Place) -> None:
    place.worker("sage", scripted())
    with pytest.raises(DepthExceeded, match="maximum worker depth exceeded"):
        await place.run("sage", depth=6)


async def test_a_worker_that_is_not_there_is_told_to_the_model(place: Place) -> None:
    main = scripted(call("ask_nobody"), "Alone then.")
    prepare(place, main)
    await place.run("main", mode="approve_all")
    assert "there is no worker 'nobody'" in told(main, "ask_nobody")[0]


async def test_cancelling_a_run_cancels_what_its_tool_has_called(place: Place) -> None:
    sage = scripted(call("write_file", path="/a.txt", content="x"), "Never.")
    prepare(place, scripted(call("ask_sage", question="?"), "Never."))
    place.worker("sage", sage, toolsets={"filesystem": {}})
    run = await place.start("main")
    nested = await nested_run(place, run)
    await place.pending(nested)
    await place.client.cancel(run)
    with pytest.raises(RunFailed):
        await place.client.result(run)
    with pytest.raises(RunFailed):
        await place.client.result(nested)
    description = await place.client.temporal.get_workflow_handle(nested).describe()
    assert description.status is WorkflowExecutionStatus.CANCELED


async def test_run_worker_takes_a_client_of_ones_own(place: Place) -> None:
    place.worker("sage", scripted("Forty-two."))
    result = await run_worker("sage", "?", workshop=place.folder, connection=place.client, id=f"own-{place.queue}")
    place.started.append(result.run)
    assert (result.output, result.run, result.usage.requests) == ("Forty-two.", f"own-{place.queue}", 1)


async def test_outside_a_run_call_worker_is_run_worker(place: Place) -> None:
    sage = scripted("Forty-two.")
    place.worker("sage", sage)
    result: WorkerRunResult = await call_worker("sage", {"n": 1}, workshop=place.folder, connection=place.client)
    place.started.append(result.run)
    assert result.output == "Forty-two."
    assert '"n": 1' in sage.requests[0].prompt


async def test_a_taken_id_is_refused_and_not_joined(place: Place) -> None:
    place.worker("sage", scripted("Forty-two."))
    result = await run_worker("sage", "?", workshop=place.folder, connection=place.client)
    place.started.append(result.run)
    with pytest.raises(UsageError, match="there is already a run"):
        await run_worker("sage", "?", workshop=place.folder, connection=place.client, id=result.run)
