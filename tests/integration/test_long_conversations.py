"""Conversations that are sent as they grow, and go on in a new run of their workflow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest, ResetWorkflowExecutionRequest
from temporalio.client import WorkflowHistory

from llm_do_temporal.activities.models import conversations
from llm_do_temporal.errors import BudgetExceeded
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.messages.runs import RunResult
from llm_do_temporal.testing import ScriptedModel, SeenRequest, call, scripted
from tests.support.providers.answers import Call, ToolCalls, Usage
from tests.support.providers.provider import FakeProvider, by_function
from tests.support.runs.garbage import blobs_of, collect_garbage, plant_garbage
from tests.support.runs.place import Place
from tests.support.runs.prices import PRICED_MODEL, TURN_COST

READS: dict[str, Any] = {"filesystem": {}}
CONTINUED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW


def reading(turns: int) -> ScriptedModel:
    """A model that reads a part of a file each turn."""
    reads = [call("read_file", path="/long.txt", offset=turn, max_chars=4000) for turn in range(turns)]
    return scripted(*reads, "Read.")


def said(messages: Sequence[ModelMessage]) -> list[Any]:
    """Who said what: what must be the same however a conversation travelled."""
    found: list[Any] = []
    for message in ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"):
        found += [(part["part_kind"], part.get("content"), part.get("tool_call_id")) for part in message["parts"]]
    return found


def assert_each_continues_the_one_before(model: ScriptedModel) -> None:
    """What the model was told each time is what it was told before, its answer, and the result of its call."""
    told = [said(request.messages) for request in model.requests]
    for before, after in pairwise(told):
        assert after[: len(before)] == before
        assert [part[0] for part in after[len(before) :]] == ["tool-call", "tool-return"]
        assert "x" * 100 in json.dumps(after[-1])


def inputs(history: WorkflowHistory) -> list[bytes]:
    """What each request of a conversation carried."""
    scheduled = [event.activity_task_scheduled_event_attributes for event in history.events]
    return [one.input.payloads[0].data for one in scheduled if one.activity_type.name == REQUEST_MODEL.name]


async def test_a_request_carries_what_is_new_and_the_model_gets_all(place: Place) -> None:
    place.write("long.txt", "x" * 5000)
    model = reading(12)
    place.worker("main", model, "Instructions. " * 100, toolsets=READS)
    assert (await place.run("main")).output == "Read."
    assert len(model.requests) == 13
    assert_each_continues_the_one_before(model)
    for request in model.requests:
        assert {tool.name for tool in request.parameters.function_tools} >= {"read_file", "write_file"}
        assert all(message.instructions for message in request.messages if message.kind == "request")
    (history,) = await place.histories()
    first, *others = inputs(history)
    assert first.count(b"Instructions. ") == 99
    assert not any(b'"tool-call"' in one for one in others)  # the history has answers already, as results of turns
    assert all(len(one) < 4000 + 3000 for one in others)
    assert not any(b"Instructions. " in one for one in others)


async def test_what_left_memory_is_read_from_the_history(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(_conversations: object, _run: str, _whole: object) -> None:
        """Keep nothing."""

    monkeypatch.setattr(conversations.Conversations, "_remember", forget)
    place.write("long.txt", "x" * 5000)
    model = reading(6)
    place.worker("main", model, toolsets=READS)
    assert (await place.run("main")).output == "Read."
    assert_each_continues_the_one_before(model)
    assert len(model.requests) == 7


@pytest.mark.thorough
async def test_full_memory_drops_what_was_used_longest_ago(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "KEPT_CHARACTERS", 1)
    place.write("long.txt", "x" * 5000)
    models = {name: reading(4) for name in ("first", "second")}
    for name, model in models.items():
        place.worker(name, model, toolsets=READS)
    calls = [call("worker_call", worker_name=name, input_data="go") for name in models]
    place.worker("main", scripted(calls, "Both."), toolsets={"delegation": {"allow_workers": ["*"]}})
    assert (await place.run("main", mode="approve_all")).output == "Both."
    for model in models.values():
        assert_each_continues_the_one_before(model)


async def test_a_reset_run_goes_on_with_its_whole_conversation(place: Place) -> None:
    place.write("long.txt", "x" * 5000)
    model = reading(3)
    place.worker("main", model, toolsets=READS)
    run = await place.start("main")
    await place.client.result(run)
    invocation = run
    handle = place.client.temporal.get_workflow_handle(invocation)
    history = await handle.fetch_history()
    third = [event for event in history.events if event.HasField("activity_task_scheduled_event_attributes")][-3]
    before = third.activity_task_scheduled_event_attributes.workflow_task_completed_event_id
    await place.client.temporal.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=place.client.temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=invocation, run_id=history.run_id),
            workflow_task_finish_event_id=before,
            request_id="reset",
            reason="test",
        )
    )
    result = await place.client.temporal.get_workflow_handle(invocation).result()
    assert result["output"] == "Read."
    assert said(model.requests[-1].messages) == said(model.requests[3].messages)


async def test_an_invocation_goes_on_as_new_and_forgets_nothing(hasty: Place) -> None:
    hasty.write("long.txt", "x" * 5000)
    model = reading(30)
    hasty.worker("main", model, "Read it all.", toolsets=READS)
    run = await hasty.start("main")
    result = await hasty.client.result(run)
    assert result == RunResult(output="Read.", usage=result.usage)
    assert result.usage.requests == 31
    assert result.usage.tool_calls == 30
    assert_each_continues_the_one_before(model)
    continued = [one for one in await hasty.histories() if one.events[-1].event_type == CONTINUED]
    assert len(continued) >= 2
    view = await hasty.client.view(run)
    assert view.usage.requests == 31
    (node,) = view.nodes.values()
    assert (node.status, node.path, node.worker) == ("completed", "main", "main")


@pytest.mark.thorough
async def test_what_an_invocation_knows_goes_on_with_it(hasty: Place) -> None:
    """Questions, workers it made, numbers of its delegations and occurrences of its calls."""
    hasty.workshop(model="test:none", approvals={"rules": {"worker.call": "pre_approved"}})
    hasty.write(
        "workers/main/tools.py",
        "from llm_do_temporal.tools import IdempotencyKey, idempotent\n\n\n@idempotent\n"
        "def keyed(key: IdempotencyKey) -> str:\n    return key\n",
    )
    helper = hasty.script("helper", scripted("Helped."))
    ask = call("worker_call", worker_name="helper", input_data="go")
    make = call("worker_create", name="helper", instructions="Help.", description="Helps.", model=helper)
    model = scripted(make, *[[ask, call("keyed")]] * 12, "Done.")
    front: dict[str, Any] = {
        "model": hasty.script("main", model),
        "toolsets": {
            "delegation": {"worker_create": {}, "allow_workers": []},
            "custom": {"keyed": {"pre_approved": True}},
        },
    }
    hasty.write("workers/main/worker.worker", f"---\n{json.dumps(front)}\n---\nDo it.\n")
    run = await hasty.start("main")
    (question,) = await hasty.pending(run)
    await hasty.decide(run, id=question.id)
    assert (await hasty.client.result(run)).output == "Done."
    assert any(one.events[-1].event_type == CONTINUED for one in await hasty.histories())
    results = model.requests[-1]
    keys = [one.text for one in results.results("keyed")]
    assert len(set(keys)) == len(keys) == 12
    view = await hasty.client.view(run)
    assert {node.path for node in view.nodes.values()} == {"main"} | {f"main/helper-{n}" for n in range(1, 13)}


@pytest.mark.thorough
async def test_an_approval_is_answered_after_an_invocation_went_on_as_new(hasty: Place) -> None:
    hasty.write("long.txt", "x" * 5000)
    reads = [call("read_file", path="/long.txt", offset=turn, max_chars=100) for turn in range(14)]
    write = call("write_file", path="/done.txt", content="done")
    hasty.worker("main", scripted(write, *reads, write, "Done."), toolsets=READS)
    run = await hasty.start("main")
    for number in (1, 2):
        await hasty.pending_is(run, f"a{number}")
        await hasty.decide(run, id=f"a{number}")
    assert (await hasty.client.result(run)).output == "Done."
    assert any(one.events[-1].event_type == CONTINUED for one in await hasty.histories())


@pytest.mark.thorough
async def test_a_model_is_told_how_a_long_conversation_began_and_its_newest_turns(hasty: Place) -> None:
    hasty.write("long.txt", "x" * 5000)
    told: list[SeenRequest] = []

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        told.append(SeenRequest(tuple(messages), ModelRequestParameters()))
        if len(told) > 30:
            return ModelResponse([TextPart("Read.")])
        args = {"path": "/long.txt", "offset": len(told), "max_chars": 4000}
        return ModelResponse([ToolCallPart("read_file", args, tool_call_id=f"call_{len(told)}")])

    model = hasty.script("counting", FunctionModel(answer))
    hasty.worker("main", model, "Read it all.", toolsets=READS, max_context_tokens=8000)
    result = await hasty.run("main", "Read the file.")
    assert (result.output, result.usage.requests) == ("Read.", 31)
    last = told[-1]
    assert last.prompt.startswith("Read the file.")
    assert "turns of this conversation are left out" in last.prompt
    assert 4 <= len(last.results("read_file")) <= 8
    assert {message.kind for message in last.messages[1::2]} == {"response"}


async def test_a_tool_that_was_made_on_the_way_is_offered_from_then_on(hasty: Place) -> None:
    """After it was made, when the conversation is read from the history, and after it went on as new."""
    hasty.write("long.txt", "x" * 5000)
    helper = hasty.script("helper", scripted("Helped."))
    make = call("worker_create", name="helper", instructions="Help.", description="Helps.", model=helper)
    reads = [call("read_file", path="/long.txt", offset=turn, max_chars=100) for turn in range(9)]
    ask = call("helper", input="go")
    model = scripted(make, ask, *reads, ask, "Done.")
    hasty.worker("main", model, toolsets={"filesystem": {}, "delegation": {"worker_create": {}}})
    assert (await hasty.run("main", mode="approve_all")).output == "Done."
    assert any(one.events[-1].event_type == CONTINUED for one in await hasty.histories())
    assert ["helper" in request.tools for request in model.requests] == [False] + [True] * 12
    assert [one.text for one in model.requests[-1].results("helper")] == ["Helped.", "Helped."]


@pytest.mark.thorough
async def test_what_was_spent_counts_after_an_invocation_went_on_as_new(
    hasty: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on cost, reached and raised by a person in one run of the workflow, holds in a later one."""

    def answer(_request: Any) -> ToolCalls:
        return ToolCalls((Call("list_files", {"path": "."}),), usage=Usage(900, 100))

    hasty.worker("main", PRICED_MODEL, toolsets=READS)
    hasty.workshop(limits={"cost": float(TURN_COST * 10)})
    with FakeProvider(by_function(answer)) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", served.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        run = await hasty.start("main")
        (question,) = await hasty.pending(run)
        assert question.request.summary.startswith("the run has spent $0.0325, its limit is $0.0325")
        await hasty.decide(run, id=question.id)
        await hasty.pending_is(run, "a2")
        assert len(served.requests) == 20
        await hasty.decide(run, "reject", id="a2")
        with pytest.raises(BudgetExceeded, match=r"spent \$0.065, its limit is \$0.065"):
            await hasty.client.result(run)
    assert any(one.events[-1].event_type == CONTINUED for one in await hasty.histories())


@pytest.mark.thorough
@pytest.mark.extension("maintenance")
async def test_what_a_continued_conversation_needs_is_kept_until_its_histories_are_gone(hasty: Place) -> None:
    hasty.write("long.txt", "x" * 5000)
    reads = [call("read_file", path="/long.txt", offset=turn, max_chars=4000) for turn in range(9)]
    write = call("write_file", path="/done.txt", content="done")
    reader = scripted(*reads, write, *reads, "Read.")
    hasty.worker("reader", reader, toolsets=READS, attachment_policy={"allowed_suffixes": [".txt"]})
    delegate = call("worker_call", worker_name="reader", input_data="go", attachments=["/long.txt"])
    hasty.worker("main", scripted(delegate, "Done."), toolsets={"delegation": {"allow_workers": ["reader"]}})
    hasty.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    run = await hasty.start("main")
    (question,) = await hasty.pending(run)
    await listed(hasty, await hasty.histories())
    needed = {one.sha256 for one in blobs_of(hasty).stored()}
    lost = plant_garbage(hasty)
    assert [one.sha256 for one in (await collect_garbage(hasty)).removed] == [lost]
    await hasty.decide(run, id=question.id)
    assert (await hasty.client.result(run)).output == "Done."
    assert "x" * 5000 in reader.requests[-1].prompt
    histories = await hasty.histories()
    assert any(one.events[-1].event_type == CONTINUED for one in histories)
    await listed(hasty, histories)
    kept = await collect_garbage(hasty)
    assert kept.removed == ()
    assert len(kept.left) > len(needed) >= 2
    await delete(hasty, histories)
    hasty.started.clear()
    gone = await collect_garbage(hasty)
    assert (set(gone.removed), gone.left) == (set(kept.left), ())


def those(histories: list[WorkflowHistory]) -> str:
    """The query that finds the workflows of the histories."""
    ids = ", ".join(f"'{history.workflow_id}'" for history in histories)
    return f"WorkflowId IN ({ids})"


async def listed(place: Place, histories: list[WorkflowHistory]) -> None:
    """Wait until the server lists all executions that have a history: it does so a moment after each has begun."""
    wanted = {history.run_id for history in histories}
    query = those(histories)
    while not wanted <= {one.run_id async for one in place.client.temporal.list_workflows(query)}:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def delete(place: Place, histories: list[WorkflowHistory]) -> None:
    """Delete the histories, as the end of their retention does, and wait until they are gone."""
    temporal = place.client.temporal
    for history in histories:
        execution = WorkflowExecution(workflow_id=history.workflow_id, run_id=history.run_id)
        await temporal.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(namespace=temporal.namespace, workflow_execution=execution)
        )
    while (await temporal.count_workflows(those(histories))).count:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.05)
