"""`call_worker` in Python tools and toolsets, where the invocation calls; and outside of any run, where it is a run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic_ai.messages import ModelMessage, UserPromptPart
from temporalio.client import WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.service import RPCError

from llm_do_temporal import WorkerRunResult, call_worker, run_worker
from llm_do_temporal.errors import BudgetExceeded, DepthExceeded, RunAborted, RunCancelled, UsageError
from llm_do_temporal.messages.activities import CALL_FOR_TOOL_UPDATE
from llm_do_temporal.messages.sizes import MAX_CALL_FOR_TOOL_BYTES
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.delegation import APPROVE_ALL, tool_results
from tests.support.runs.place import Place

TOOLS = '''
import asyncio
from concurrent.futures import ThreadPoolExecutor

from llm_do_temporal import CallerContext, ToolCallFailed, call_worker
from llm_do_temporal.tools import ToolContext, idempotent, tool_context
from pydantic import BaseModel


class Deck(BaseModel):
    deck: str


def review(path: str) -> dict:
    """Let the sage read a file."""
    result = call_worker("sage", {"rubric": "strict"}, attachments=[path])
    here = CallerContext.current()
    return {
        "said": result.output,
        "run": result.run,
        "requests": result.usage.requests,
        "here": [here.run, here.worker, here.path, here.depth, here.max_depth],
    }


async def ask(worker: str, question: str) -> str:
    """Ask a worker."""
    return (await call_worker(worker, question)).output


def handed_on(question: str) -> list:
    """Ask the sage from a thread of its own."""
    here = CallerContext.current()
    with ThreadPoolExecutor() as threads:
        lost = threads.submit(CallerContext.current).result()
        result = threads.submit(call_worker, "sage", question, caller_context=here).result()
    return [lost, result.run, result.output, result.usage.requests]


@idempotent
def handed_on_again(question: str) -> list:
    """Ask it from another thread."""
    return handed_on(question)


@idempotent
async def ask_many(number: int) -> list:
    """Ask the sage the same few things again and again, at the same time."""
    first = call_worker("sage", "x" * 300_000)
    try:
        first.output
    except Exception as error:
        early = str(error)
    questions = [f"{one % 2}?" for one in range(number - 1)]
    answers = await asyncio.gather(first, *(call_worker("sage", one) for one in questions))
    return [early, *(one.output for one in answers)]


def judged(deck: str) -> str:
    """Have a deck judged, and make do without."""
    try:
        return f"twice {2 * call_worker('judge', Deck(deck=deck)).output['score']}"
    except ToolCallFailed as error:
        return f"not judged: {error}"


def much() -> str:
    """Say too much."""
    return call_worker("sage", "x" * (1024 * 1024)).output


def elsewhere(model: str) -> str:
    """Choose the model."""
    return call_worker("sage", "?", model=model).output


@tool_context
async def within(ctx: ToolContext) -> str:
    """Try to call a worker from workflow code."""
    return call_worker("sage", "?").output
'''
NAMES = ("review", "ask", "handed_on", "handed_on_again", "ask_many", "judged", "much", "elsewhere", "within")
FREE = {"pre_approved": True}
TOOLSET = '''
from pydantic_ai import RunContext
from pydantic_ai.toolsets import FunctionToolset

from llm_do_temporal import CallerContext, call_worker


async def facts(ctx: RunContext[CallerContext]) -> list:
    """Say who it works for."""
    said = (await ctx.deps.call_worker("sage", "From deps?")).output
    return [ctx.deps.run, ctx.deps.worker, ctx.deps.path, ctx.deps.depth, ctx.deps.max_depth, said]


def plain(question: str) -> str:
    """Ask the sage without deps."""
    return call_worker("sage", question).output


class Asking(FunctionToolset[CallerContext]):
    def __init__(self) -> None:
        super().__init__([facts, plain])

    async def get_tools(self, ctx):
        tools = await super().get_tools(ctx)
        if ctx.deps.worker != "main":
            await ctx.deps.call_worker("sage", "While it is listed?")
        return tools
'''


def heard(messages: list[ModelMessage]) -> str:
    """What a worker was asked."""
    (asked,) = [part for part in messages[0].parts if isinstance(part, UserPromptPart)]
    return str(asked.content)


def prepare(place: Place, *turns: Any, name: str = "main", **keys: Any) -> ScriptedModel:
    """A worker with all the tools, and its model."""
    model = scripted(*turns)
    place.write("tools.py", TOOLS)
    place.worker(name, model, toolsets={"custom": dict.fromkeys(NAMES, FREE)}, **keys)
    return model


async def test_a_plain_call_has_the_workers_files_asks_at_its_run_and_counts_there(place: Place) -> None:
    place.write("pipeline/deck.txt", "content of the deck")
    place.write("secret.txt", "nothing for them")
    turns = ([call("review", path="secret.txt"), call("review", path="pipeline/deck.txt")], "Done.")
    main = prepare(place, *turns, sandbox={"restrict": "/pipeline", "read_approval": True})
    sage = scripted(
        call("read_file", path="/secret.txt"), call("write_file", path="/pipeline/out.txt", content="x"), "Fine."
    )
    # It is in nobody's allow-list.
    place.worker("sage", sage, toolsets={"filesystem": {}})
    run = await place.start("main")
    (shared,) = await place.pending(run)
    assert (shared.request.path, shared.request.capabilities[0].payload["target_worker"]) == ("main", "sage")
    assert [one.path for one in shared.request.attachments] == ["/pipeline/deck.txt"]
    await place.decide(run, id=shared.id)
    await place.pending_is(run, "a2")
    (asked,) = await place.pending(run)
    assert (asked.request.tool, asked.request.path, asked.request.worker) == ("worker_call", "main", "main")
    expected = {"worker_name": "sage", "input_data": {"rubric": "strict"}, "attachments": ["pipeline/deck.txt"]}
    assert asked.request.args == expected
    await place.decide(run, id=asked.id)
    await place.pending_is(run, "a3")
    (wrote,) = await place.pending(run)
    assert (wrote.request.tool, wrote.request.path) == ("write_file", "main/sage-1")
    await place.decide(run, id=wrote.id)
    result = await place.client.result(run)
    outside, inside = tool_results(main, "review")
    assert "'review' could not go on: 'secret.txt' is outside this worker's files" in outside
    expected = f'{{"said":"Fine.","run":"{run}","requests":3,"here":["{run}","main","main",0,5]}}'
    assert inside == expected
    assert "content of the deck" in sage.requests[0].prompt
    assert '"rubric": "strict"' in sage.requests[0].prompt
    assert "/secret.txt" in sage.requests[-1].results("read_file")[0].text
    assert "nothing for them" not in sage.requests[-1].results("read_file")[0].text
    assert (result.usage.requests, result.usage.tool_calls) == (5, 4)
    nodes = (await place.client.view(run)).ordered
    assert [(node.path, node.depth) for node in nodes] == [("main", 0), ("main/sage-1", 1)]


async def test_a_worker_without_a_model_has_the_one_of_the_tools_worker(place: Place) -> None:
    main = scripted(call("ask", worker="sage", question="?"), lambda _: "by main")
    place.write("tools.py", TOOLS)
    place.worker("main", main, toolsets={"custom": {"ask": FREE}})
    place.worker("sage", toolsets={"custom": {"ask": FREE}})
    place.workshop(max_depth=1)
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    nodes = (await place.client.view(run)).ordered
    assert len({node.model for node in nodes}) == 1
    # The sage plays main's script, and its own call is one too deep.
    assert any("would run at depth 2, the limit is 1" in text for text in all_told(main, "ask"))
    assert "by main" in all_told(main, "ask")


async def test_a_thread_of_a_tools_own_calls_for_its_run_with_the_context_it_is_handed(place: Place) -> None:
    tools = ("handed_on", "handed_on_again")
    main = prepare(place, *(call(tool, question=f"From {tool}?") for tool in tools), "Done.")
    place.worker("sage", scripted(lambda messages: f"heard {heard(messages)}"), toolsets={})
    run = await place.start("main", mode=APPROVE_ALL)
    result = await place.client.result(run)
    assert [tool_results(main, tool) for tool in tools] == [
        [f'[null,"{run}","heard From {tool}?",1]'] for tool in tools
    ]
    assert (result.usage.requests, result.usage.tool_calls) == (5, 2)
    nodes = (await place.client.view(run)).ordered
    assert [(node.path, node.depth) for node in nodes] == [("main", 0), ("main/sage-1", 1), ("main/sage-2", 1)]


def all_told(model: ScriptedModel, tool: str) -> list[str]:
    """What the model was told of its calls of a tool, in whatever conversation."""
    return [result.text for request in model.requests for result in request.results(tool)]


@pytest.mark.thorough
async def test_twenty_calls_at_once_are_all_answered_big_ones_too(place: Place) -> None:
    main = prepare(place, call("ask_many", number=20), "Done.")
    sage = scripted(lambda messages: f"{len(heard(messages))} {uuid4().hex}")
    place.worker("sage", sage, toolsets={})
    run = await place.start("main", mode=APPROVE_ALL)
    result = await place.client.result(run)
    early, first, *others = json.loads(tool_results(main, "ask_many")[0])
    assert early.startswith("the worker was not called yet")
    assert first.startswith("300000 ")
    # Equal calls are calls of their own.
    assert len(set(others)) == 19
    assert len(sage.requests) == 20
    assert (result.usage.requests, result.usage.tool_calls) == (22, 1)
    assert len((await place.client.view(run)).nodes) == 21


async def test_a_rejection_can_be_caught_and_structured_values_travel_both_ways(place: Place) -> None:
    main = prepare(place, call("judged", deck="kelp"), call("judged", deck="kelp"), "Done.")
    fields = "from llm_do_temporal.args import WorkerArgs\n\n\nclass Given(WorkerArgs):\n    deck: str\n"
    place.write("workers/schemas.py", fields)
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    judge = scripted({"score": 21})
    place.worker("judge", judge, schema_in_ref="schemas.py:Given", output_schema=schema)
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "reject", id="a1", note="not now", by="ada")
    await place.pending_is(run, "a2")
    changed = {"worker_name": "judge", "input_data": {"deck": "algae"}}
    with pytest.raises(Exception, match="worker_name"):
        await place.decide(run, "modify", id="a2", args=changed | {"worker_name": "main"})
    await place.decide(run, "modify", id="a2", args=changed, by="ada")
    await place.client.result(run)
    rejected, done = tool_results(main, "judged")
    assert rejected == "not judged: Rejected by ada: not now"
    # The model is told what was changed, the function is not.
    assert done.startswith("twice 42\nada changed this call before it ran.")
    assert '"deck": "algae"' in judge.requests[0].prompt


async def test_what_cannot_be_called_is_told_to_the_model(place: Place) -> None:
    calls = [
        call("ask", worker="deeper", question="?"),
        call("ask", worker="nobody", question="?"),
        call("ask", worker="../sage", question="?"),
        call("much"),
        call("elsewhere", model="test:other"),
        call("within"),
    ]
    main = prepare(place, calls, "Alone then.")
    deeper = scripted(call("ask", worker="sage", question="?"), "Alone, too.")
    place.worker("deeper", deeper, toolsets={"custom": {"ask": FREE}})
    place.worker("sage", scripted())
    place.workshop(max_depth=1)
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    answered, absent, hostile = tool_results(main, "ask")
    assert answered == "Alone, too."
    assert "maximum worker depth exceeded: 'sage' would run at depth 2" in tool_results(deeper, "ask")[0]
    assert "there is no worker 'nobody'" in absent
    assert "'../sage'" in hostile
    assert "depth" not in absent + hostile
    assert f"at most {MAX_CALL_FOR_TOOL_BYTES} fit" in tool_results(main, "much")[0]
    assert "call_worker takes no `workshop`, `model`, `mode` or `connection`" in tool_results(main, "elsewhere")[0]
    assert "call_worker and run_worker cannot be used" in tool_results(main, "within")[0]
    assert [node.worker for node in (await place.client.view(run)).ordered] == ["main", "deeper"]


async def test_in_strict_mode_it_is_refused_and_where_a_refusal_aborts_nothing_catches_it(place: Place) -> None:
    main = prepare(place, call("judged", deck="kelp"), "Done.")
    place.worker("judge", scripted())
    await place.run("main", mode="strict")
    assert tool_results(main, "judged") == ["not judged: Strict mode: worker_call requires approval"]
    place.workshop(on_refusal="abort")
    with pytest.raises(RunAborted, match="Strict mode: worker_call requires approval"):
        await place.run("main", mode="strict")


async def test_what_it_spends_is_held_against_the_limits_of_the_run(place: Place) -> None:
    prepare(place, call("ask", worker="sage", question="?"), "Done.")
    place.worker("sage", scripted("Yes."))
    with pytest.raises(BudgetExceeded, match="the run has spent 2 turns, its limit is 2 turns"):
        await place.run("main", mode=APPROVE_ALL, limits={"turns": 2})


@pytest.mark.thorough
async def test_only_a_tool_that_runs_is_served_and_a_cancelled_run_takes_its_calls_along(place: Place) -> None:
    prepare(place, call("review", path="a.txt"), "Never.")
    place.write("a.txt", "a")
    sage = scripted(call("write_file", path="/b.txt", content="x"), "Never.")
    place.worker("sage", sage, toolsets={"filesystem": {}})
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    run = await place.start("main")
    await place.pending(run)
    temporal = place.client.temporal
    asked = {"call": "0" * 64, "worker": "sage", "input_data": "Who are you?"}
    for payload, words in [
        (asked, "'sage' was not called: no tool that runs now has asked for it"),
        ({**asked, "input_data": "x" * MAX_CALL_FOR_TOOL_BYTES}, "Failed decoding arguments"),
        ("sage", "Failed decoding arguments"),
    ]:
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await temporal.get_workflow_handle(run).execute_update(CALL_FOR_TOOL_UPDATE, payload)
        assert words in str(refused.value.cause)
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)
    description = await temporal.get_workflow_handle(f"{run}/main/sage-1").describe()
    assert description.status is WorkflowExecutionStatus.CANCELED
    with pytest.raises(RPCError, match="already completed"):
        await temporal.get_workflow_handle(run).execute_update(CALL_FOR_TOOL_UPDATE, asked)


async def test_a_toolset_knows_whom_it_works_for_and_calls_workers(place: Place) -> None:
    name = f"asking_{uuid4().hex}"
    place.write(f"{name}.py", TOOLSET)
    main = scripted([call("facts"), call("plain", question="Plainly?")], "Done.")
    toolsets = {f"{name}.Asking": FREE}
    place.worker("main", main, toolsets=toolsets)
    other = scripted("I have no tools.")
    place.worker("other", other, toolsets=toolsets)
    sage = scripted(lambda messages: f"heard {heard(messages)}")
    place.worker("sage", sage)
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    run = await place.start("main")
    result = await place.client.result(run)
    (facts,), (plain,) = tool_results(main, "facts"), tool_results(main, "plain")
    assert facts == f'["{run}","main","main",0,5,"heard From deps?"]'
    assert plain == "heard Plainly?"
    assert (result.usage.requests, len((await place.client.view(run)).nodes)) == (4, 3)
    # No tool is called while tools are listed.
    await place.run("other")
    assert other.requests[0].tools == {}


async def test_a_run_that_is_started_too_deep_ends_at_once(place: Place) -> None:
    place.worker("sage", scripted())
    with pytest.raises(DepthExceeded, match="maximum worker depth exceeded"):
        await place.run("sage", depth=6)


async def test_run_worker_takes_a_client_of_ones_own(place: Place) -> None:
    place.worker("sage", scripted("Forty-two."))
    result = await run_worker("sage", "?", workshop=place.folder, connection=place.client, id=f"own-{place.queue}")
    place.started.append(result.run)
    assert (result.output, result.run, result.usage.requests) == ("Forty-two.", f"own-{place.queue}", 1)


async def test_outside_a_run_call_worker_is_run_worker_awaited_or_plain(place: Place) -> None:
    sage = scripted("Forty-two.")
    place.worker("sage", sage)

    def plainly(given: Any, folder: Path = place.folder) -> WorkerRunResult:
        made = call_worker("sage", given, workshop=folder, connection=place.client)
        assert made.output == "Forty-two."
        # Whoever awaits what is there already gets it.
        return asyncio.run(made)

    awaited: WorkerRunResult = await call_worker("sage", {"n": 1}, workshop=place.folder, connection=place.client)
    plain = await asyncio.to_thread(plainly, {"n": 2})
    place.started += [awaited.run, plain.run]
    assert (awaited.output, plain.output) == ("Forty-two.", "Forty-two.")
    assert ['"n": 1' in sage.requests[0].prompt, '"n": 2' in sage.requests[1].prompt] == [True, True]


async def test_a_taken_id_is_refused_and_not_joined(place: Place) -> None:
    place.worker("sage", scripted("Forty-two."))
    result = await run_worker("sage", "?", workshop=place.folder, connection=place.client)
    place.started.append(result.run)
    with pytest.raises(UsageError, match="there is already a run"):
        await run_worker("sage", "?", workshop=place.folder, connection=place.client, id=result.run)
