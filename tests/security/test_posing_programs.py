"""Programs that pose as others, or reach past their own runs: by names, further attempts, old keys, foreign ids."""

from __future__ import annotations

import json
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

from llm_do_temporal.doors.principal import TokenFile, TokenScope
from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.testing import scripted
from tests.support.doors.http_client import person, program, waiting, writer
from tests.support.runs.place import Place


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["root", "ada", "mcp-agent"])
async def test_a_program_named_like_a_person_is_not_that_person(place: Place, name: str) -> None:
    writer(place)
    run = await place.start("writer", started_by=name)
    await place.pending(run)
    same, boss = program(place, name, frozenset({TokenScope.START, TokenScope.READ})), person(place, "boss")
    assert (await same.ask("GET", f"/runs/{run}")).status == 404
    assert (await same.ask("POST", f"/runs/{run}/cancel")).status == 404
    assert (await same.ask("POST", f"/runs/{run}/retry")).status == 404
    assert (await same.ask("GET", "/questions")).body == []
    own = await waiting(place, same)
    assert (await boss.ask("GET", f"/runs/{own}")).body["started_by"] == f"program:{name}"
    for one in (run, own):
        await place.client.cancel(one)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["ci", "CI", "\uff43\uff49"])
async def test_a_name_that_counts_as_the_same_decides_nothing(place: Place, name: str) -> None:
    writer(place)
    run = await waiting(place, program(place))
    TokenFile.of_workshop(place.folder).revoke("ci")
    again = program(place, name)
    refused = await again.decide(run, "a1")
    assert (refused.status, refused.body["code"]) == (403, "AccessRefused"), refused.body
    assert not (place.folder / "a.txt").exists()
    await place.client.cancel(run)


@pytest.mark.parametrize("more", [{"mode": "approve_all"}, {"limits": {"turns": 100}}], ids=repr)
async def test_no_batch_in_a_mode_that_asks_less_is_done_again_by_a_program(place: Place, more: dict[str, Any]) -> None:
    def fail(*_: object) -> object:
        raise RuntimeError("no")

    place.worker("reader", scripted(fail), export=True)  # pyright: ignore[reportArgumentType]
    batch = {"items": [{"name": "one", "prompt": "a"}]}
    run = await place.start("reader", started_by="program:ci", batch=batch, **more)
    await place.client.result(run)
    refused = await program(place).ask("POST", f"/runs/{run}/retry")
    assert (refused.status, refused.body["code"]) == (403, "AccessRefused"), refused.body


BATCH: dict[str, Any] = {"items": [{"name": "one", "prompt": "a"}]}


def failing_batch(place: Place) -> None:
    def fail(*_: object) -> object:
        raise RuntimeError("no")

    place.worker("writer", scripted(fail), toolsets={"filesystem": {}}, export=True)  # pyright: ignore[reportArgumentType]


async def test_a_program_decides_nothing_in_what_does_its_run_again(place: Place) -> None:
    failing_batch(place)
    ci, other, ada = program(place), program(place, "other"), person(place)
    run = (await ci.start("writer", **BATCH)).body["run"]
    for is_last in (False, True):  # also what does again what does it again
        place.started.append(run)
        await ci.until(run, "completed")
        if is_last:
            writer(place)
        again = await ada.ask("POST", f"/runs/{run}/retry")
        assert (again.status, again.body["started_by"]) == (202, "ada"), again.body
        run = again.body["run"]
    place.started.append(run)
    await place.pending(run)
    refused = await ci.decide(run, "a1")
    assert (refused.status, refused.body["code"]) == (403, "AccessRefused"), refused.body
    assert not (place.folder / "a.txt").exists()
    assert (await other.decide(run, "a1")).status == 200
    await ada.until(run, "completed")


@pytest.mark.thorough
async def test_a_run_that_does_again_what_is_gone_is_left_to_people(place: Place) -> None:
    failing_batch(place)
    ada, bot = person(place), program(place, "bot")
    first = (await ada.start("writer", **BATCH)).body["run"]
    place.started.append(first)
    await ada.until(first, "completed")
    writer(place)
    again = (await ada.ask("POST", f"/runs/{first}/retry")).body["run"]
    await place.pending(again)
    await gone(place, first)
    place.started.append(again)
    refused = await bot.decide(again, "a1")
    assert (refused.status, refused.body["code"]) == (403, "AccessRefused"), refused.body
    assert (await ada.decide(again, "a1")).status == 200
    await ada.until(again, "completed")


async def gone(place: Place, run: str) -> None:
    """Remove a run from the server, and wait until it is not there any more."""
    temporal = place.client.temporal
    await temporal.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=temporal.namespace, workflow_execution=WorkflowExecution(workflow_id=run)
        )
    )
    while True:
        try:
            await place.client.status(run)
        except UsageError:
            place.started.remove(run)
            return


async def test_questions_of_a_name_in_other_letters_are_not_told(place: Place) -> None:
    writer(place)
    name = f"ci of {place.queue}"
    ci = program(place, name, frozenset({TokenScope.READ}))
    foreign = await place.start("writer", started_by=f"program:{name.upper()}")
    own = await place.start("writer", started_by=f"program:{name}")
    for run in (foreign, own):
        await place.pending(run)
    wanted = RunFilter(state="waiting", who=f"program:{name}")
    while {one.run for one in await place.client.runs(wanted)} != {foreign, own}:
        pass
    assert [one["run"] for one in (await ci.ask("GET", "/questions")).body] == [own]
    assert [one["run"] for one in (await ci.ask("GET", "/runs")).body["runs"]] == [own]
    for run in (foreign, own):
        await place.client.cancel(run)


async def test_a_workflow_that_is_no_run_is_not_reached(place: Place) -> None:
    name = f"no-run-{place.queue}"
    other = await place.client.temporal.start_workflow("Payroll", id=name, task_queue=f"nobody-{place.queue}")
    for who in (person(place), program(place)):
        for method, path in (("GET", ""), ("POST", "/cancel"), ("GET", "/questions"), ("POST", "/retry")):
            refused = await who.ask(method, f"/runs/{name}{path}")
            assert (refused.status, refused.body["code"]) == (404, "UnknownHere"), (path, refused.body)
        sent = {"json": {"decision": "approve"}, "headers": {"If-Match": '"x"'}}
        refused = await who.ask("POST", f"/runs/{name}/questions/a1/decision", **sent)
        assert refused.status in (404, 412), refused.body
    history = await other.fetch_history()
    assert [one for one in history.events if one.HasField("workflow_execution_cancel_requested_event_attributes")] == []
    await other.terminate()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scopes", [(TokenScope.READ,), (TokenScope.DECIDE,), (TokenScope.READ, TokenScope.DECIDE)])
async def test_an_old_key_tells_nothing_to_a_token_without_its_scope(
    place: Place, scopes: tuple[TokenScope, ...]
) -> None:
    writer(place)
    ci = program(place, scopes=frozenset({TokenScope.START, TokenScope.READ}))
    run = (await ci.start("writer", key=f"monday of {place.queue}")).body["run"]
    place.started.append(run)
    await place.pending(run)
    TokenFile.of_workshop(place.folder).revoke("ci")
    less = program(place, scopes=frozenset(scopes))
    refused = await less.start("writer", key=f"monday of {place.queue}")
    assert (refused.status, refused.body["code"]) == (403, "AccessRefused"), refused.body
    assert run not in json.dumps(refused.body)
    await place.client.cancel(run)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("change", ["replaced", "grown", "linked"])
async def test_a_program_reads_no_file_that_has_changed_since(place: Place, change: str) -> None:
    writer(place)
    ci, ada = program(place, scopes=frozenset({TokenScope.START, TokenScope.READ})), person(place)
    run = await waiting(place, ci)
    await place.decide(run)
    await ci.until(run, "completed")
    asked = {"params": {"origin": "written", "name": "/a.txt"}}
    got = await ci.ask("GET", f"/runs/{run}/files/content", **asked)
    assert (got.status, got.body) == (200, "hi"), got.body
    file = place.folder / "a.txt"
    if change == "linked":
        (place.folder / "b.txt").write_text("secret")
        file.unlink()
        file.symlink_to("b.txt")
    else:
        file.write_text("secret" if change == "replaced" else "hi secret")
    refused = await ci.ask("GET", f"/runs/{run}/files/content", **asked)
    assert (refused.status, refused.body["code"]) == (404, "UnknownHere"), refused.body
    if change != "linked":
        assert "secret" in (await ada.ask("GET", f"/runs/{run}/files/content", **asked)).body
    file.unlink()
    file.write_text("hi")
    assert (await ci.ask("GET", f"/runs/{run}/files/content", **asked)).status == 200
