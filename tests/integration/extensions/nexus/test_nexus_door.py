"""The Nexus door: workflows of another namespace call workers, and hand on what their people decide."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.extensions.nexus.handler import SERVICE, LlmDoHandler
from llm_do_temporal.policy.approvals import ApprovalRules
from llm_do_temporal.service.build import ServiceSettings, build_worker
from llm_do_temporal.testing import scripted
from tests.support.extensions.nexus.nexus_place import make_endpoint, other_namespace
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place


@workflow.defn(name="Caller")
class Caller:
    """Workflow of another team: it calls one operation, and returns its result."""

    @workflow.run
    async def run(self, endpoint: str, operation: str, given: dict[str, Any]) -> Any:
        llm_do = workflow.create_nexus_client(service=SERVICE, endpoint=endpoint)
        return await llm_do.execute_operation(operation, given)


@dataclass
class Team:
    """Another team: its namespace, and the endpoint through which it calls."""

    client: Client
    endpoint: str
    queue: str

    async def begin(self, operation: str, given: Mapping[str, Any]) -> WorkflowHandle[Any, Any]:
        """Start a workflow that calls the operation."""
        arguments = [self.endpoint, operation, dict(given)]
        return await self.client.start_workflow("Caller", args=arguments, id=uuid4().hex, task_queue=self.queue)

    async def call(self, operation: str, given: Mapping[str, Any]) -> Any:
        """Call the operation from a workflow, and return its result."""
        return await (await self.begin(operation, given)).result()

    async def asked(self, run: str) -> list[dict[str, Any]]:
        """Ask until the run has begun, and wants to know something."""
        while True:
            try:
                if asked := await self.call("pending", {"run": run}):
                    return asked
            except WorkflowFailureError:
                continue

    async def refusal(self, operation: str, given: Mapping[str, Any]) -> str:
        with pytest.raises(WorkflowFailureError) as failure:
            await self.call(operation, given)
        error: BaseException | None = failure.value
        words: list[str] = []
        while error is not None:
            words.append(str(error))
            error = error.__cause__
        return " | ".join(words)


@asynccontextmanager
async def team(place: Place, *, is_served: bool = True) -> AsyncGenerator[Team]:
    """A team with an endpoint of its own, which our service answers or does not; beside it, one called `-b` more."""
    queue = f"{place.queue}-nexus"
    endpoint = f"team-{uuid4().hex[:8]}"
    for name in (endpoint, f"{endpoint}-b"):
        await make_endpoint(place.client.temporal, name, queue)
    doors = DoorService(LlmDoClient(place.client.temporal, task_queue=queue), place.folder)
    handler = LlmDoHandler(doors, [endpoint, f"{endpoint}-b"] if is_served else ["another"])
    settings = ServiceSettings(task_queue=queue, nexus_handlers=(handler,))
    service = build_worker(place.client.temporal, place.folder, settings)
    theirs = await other_namespace(place.client.temporal)
    caller = Worker(theirs, task_queue=queue, workflows=[Caller], workflow_runner=UnsandboxedWorkflowRunner())
    async with service, caller:
        yield Team(theirs, endpoint, queue)


def writer(place: Place, *turns: Any) -> None:
    place.worker(
        "writer", scripted(*(turns or (write_call("/a.txt"), "Done."))), toolsets={"filesystem": {}}, export=True
    )


async def test_a_workflow_of_another_namespace_calls_a_worker_and_hands_on_a_decision(place: Place) -> None:
    writer(place)
    async with team(place) as other:
        calling = await other.begin("run", {"worker": "writer", "prompt": "go", "run": "monday"})
        run = f"nexus-{other.endpoint}:monday"
        asked = await other.asked("monday")
        assert [(one["id"], one["run"], one["tool"]) for one in asked] == [("a1", run, "write_file")]
        answer = {"run": "monday", "question": "a1", "decision": "approve", "by": "ann", "digest": asked[0]["digest"]}
        decided = await other.call("decide", answer)
        assert decided["state"] == "decided"
        assert "by ann" in await other.refusal("decide", answer | {"by": "bob"})
        done = await calling.result()
    assert done["output"] == "Done."
    assert done["usage"]["requests"] == 2
    assert (place.folder / "a.txt").read_text() == "hi"
    (question,) = await place.client.questions(run)
    assert question.verdict is not None
    assert (question.verdict.by, question.verdict.via) == ("ann", "nexus")
    assert (await place.client.status(run)).started_by == f"program:nexus-{other.endpoint}"


async def test_no_program_names_itself_as_the_person_and_one_answer_is_about_one_call(place: Place) -> None:
    writer(place)
    async with team(place) as other:
        calling = await other.begin("run", {"worker": "writer", "prompt": "go", "run": "monday"})
        asked = await other.asked("monday")
        answer = {"run": "monday", "question": "a1", "decision": "approve", "by": "ann", "digest": asked[0]["digest"]}
        caller = f"nexus-{other.endpoint}"
        for by in (caller, f" {caller.upper()} ", "Nexus-x", "\uff4eexus-x", "program:ci", "mcp", " MCP", "  "):
            assert "is no person" in await other.refusal("decide", answer | {"by": by}), by
        for more in (
            {"by": f"{caller}\u200b"},
            {"remember": "session"},
            {"grant": {"kind": {"tool": "*"}, "times": 9}},
        ):
            assert await other.refusal("decide", answer | more), more
        (question,) = await place.client.approvals(f"{caller}:monday")
        assert question.is_open
        await other.call("decide", answer)
        await calling.result()


async def test_endpoints_whose_names_begin_alike_never_meet(place: Place) -> None:
    writer(place)
    with pytest.raises(RPCError, match="name"):
        await make_endpoint(place.client.temporal, "team:b", place.queue)
    async with team(place) as other:
        neighbour = Team(other.client, f"{other.endpoint}-b", other.queue)
        runs: list[WorkflowHandle[Any, Any]] = []
        for one, name in ((other, "b-tue"), (neighbour, "tue")):
            runs.append(await one.begin("run", {"worker": "writer", "prompt": one.endpoint, "run": name}))
            (asked,) = await one.asked(name)
            assert asked["run"] == f"nexus-{one.endpoint}:{name}"
            again = await one.refusal("run", {"worker": "writer", "prompt": "another", "run": name})
            assert "a run of this name was started before" in again
            assert f"{one.endpoint}:" not in again
            answer = {"run": name, "question": "a1", "decision": "reject", "by": "ann", "digest": asked["digest"]}
            await one.call("decide", answer)
        assert [(await run.result())["output"] for run in runs] == ["Done."] * 2


async def test_what_nobody_expected_is_told_once_without_a_word_of_where(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer(place)
    async with team(place) as other:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full disk"))
        told = await other.refusal("run", {"worker": "writer"})
    assert "its log says at what" in told
    assert "full disk" not in told


async def test_a_caller_is_told_what_is_wrong_and_reaches_nothing_else(place: Place) -> None:
    writer(place)
    place.worker("secret", scripted("Hi."))
    foreign = await place.start("writer")
    await place.pending(foreign)
    async with team(place) as other:
        assert "no exported worker" in await other.refusal("run", {"worker": "secret"})
        assert "may not start runs in the mode" in await other.refusal(
            "run", {"worker": "writer", "mode": "approve_all"}
        )
        for name in (foreign, f"../{foreign}", "nothing"):
            assert "there is no run" in await other.refusal("pending", {"run": name})
            answer = {"run": name, "question": "a1", "decision": "approve", "by": "ann", "digest": ""}
            assert "there is no run" in await other.refusal("decide", answer)
    await place.client.cancel(foreign)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("names", [{"approvers": ["ann"]}, {"quorum": 2}, {"forbid_own": True}], ids=str)
async def test_where_a_rule_names_people_no_workflow_hands_on_their_word(place: Place, names: dict[str, Any]) -> None:
    writer(place)
    place.workshop(approvals={"rules": {"sandbox.write": {"ruling": "needs_approval", **names}}})
    async with team(place) as other:
        calling = await other.begin("run", {"worker": "writer", "prompt": "go", "run": "monday"})
        asked = await other.asked("monday")
        answer = {"run": "monday", "question": "a1", "decision": "approve", "by": "ann", "digest": asked[0]["digest"]}
        assert "for people to decide" in await other.refusal("decide", answer)
        await place.client.cancel(f"nexus-{other.endpoint}:monday")
        with pytest.raises(WorkflowFailureError):
            await calling.result()


async def test_an_endpoint_that_the_operator_has_not_named_gets_no_answer(place: Place) -> None:
    writer(place)
    async with team(place, is_served=False) as other:
        assert "not served" in await other.refusal("run", {"worker": "writer"})


ODD: list[tuple[str, dict[str, Any]]] = [
    ("run", {}),
    ("run", {"worker": 3}),
    ("run", {"worker": "writer", "by": "ann"}),
    ("run", {"worker": "writer", "run": "a/b"}),
    ("run", {"worker": "writer", "run": "x" * 101}),
    ("run", {"worker": "writer", "run": "mon\u200bday"}),
    ("run", {"worker": "writer", "attachments": [{"name": "ä" * 200, "content": "eA=="}]}),
    ("run", {"worker": "writer", "attachments": [{"name": "../x", "content": ""}]}),
    ("run", {"worker": "writer", "attachments": [{"name": "x", "content": "\x00"}]}),
    ("run", {"worker": "writer", "limits": {"max_requests": 10**9}}),
    ("pending", {}),
    ("pending", {"run": ["x"]}),
    ("decide", {"run": "monday", "question": "a1", "decision": "approve"}),
    ("decide", {"run": "monday", "question": "a1", "decision": "APPROVE", "by": "ann", "digest": ""}),
    ("decide", {"run": "monday", "question": "a1", "decision": "approve", "by": "ann", "digest": "0" * 64}),
    ("decide", {"run": "monday", "question": "a" * 99, "decision": "approve", "by": "ann", "digest": ""}),
    ("delete", {"run": "monday"}),
]


async def test_an_odd_call_is_refused_at_once_and_the_run_goes_on(place: Place) -> None:
    writer(place)
    async with team(place) as other:
        calling = await other.begin("run", {"worker": "writer", "prompt": "go", "run": "monday"})
        asked = await other.asked("monday")
        for operation, given in ODD:
            assert await other.refusal(operation, given), (operation, given)
        answer = {"run": "monday", "question": "a1", "decision": "approve", "by": "ann", "digest": asked[0]["digest"]}
        await other.call("decide", answer)
        assert (await calling.result())["output"] == "Done."


@pytest.mark.sampled(1)
@pytest.mark.extension("rules")
@pytest.mark.parametrize(("decision", "speaks_against"), [("approve", False), ("reject", True)])
async def test_what_a_workflow_hands_on_teaches_no_rule(place: Place, decision: str, *, speaks_against: bool) -> None:
    from llm_do_temporal.extensions.rules.trial import CallAnswer, PastCallReader, advice_on

    writer(place, write_call("/a.txt"), "Done.")
    since = datetime.now(UTC) - timedelta(days=1)
    async with team(place) as other:
        calling = await other.begin("run", {"worker": "writer", "prompt": "go", "run": "monday"})
        asked = (await other.asked("monday"))[0]
        answer = {"run": "monday", "question": "a1", "decision": decision, "by": "ann", "digest": asked["digest"]}
        await other.call("decide", answer | ({"note": "no"} if speaks_against else {}))
        await calling.result()
        reader = PastCallReader(place.client.temporal, task_queue=other.queue)
        while not (past := await reader.read(since)).calls:
            pass  # the server lists a run a moment after it has begun
    (call,) = past.calls
    assert (call.answer, call.by, call.speaks_against) == (CallAnswer.PROGRAM, "", speaks_against)
    advice = advice_on(past.calls, ApprovalRules(), min_runs=1, min_days=1)
    assert (advice.entries, advice.asked) == ((), 0)
