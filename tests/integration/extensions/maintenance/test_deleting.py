"""Deleting a run: what it left behind is gone, and what others need is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.client.connections import is_missing
from llm_do_temporal.client.start import load_local_worker
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.extensions.maintenance import removal as deleting
from llm_do_temporal.extensions.maintenance.removal import collect, delete_run, open_parts, read_borrowers
from llm_do_temporal.messages.approvals import Decision
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.testing import call, scripted
from tests.support.runs.delegation import delegation_to
from tests.support.runs.place import Place
from tests.support.servers.session import FORGETFUL, session_server

LARGE = "x" * 900_000


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """A server that deletes at once."""
    async with session_server(FORGETFUL) as environment:
        yield environment


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "SETTLE_SECONDS", 0)


async def gone(place: Place, run: str) -> bool:
    """Whether the server has forgotten the run; it takes its time."""
    while True:
        try:
            await place.client.status(run)
        except UsageError as error:
            return "there is no run" in str(error)
        await asyncio.sleep(0.1)


async def listed(place: Place, *workflows: str) -> None:
    """Wait until the server lists these, a moment after they began: nobody settles here before a run is deleted."""
    for workflow in workflows:
        while not (await place.client.temporal.count_workflows(f"WorkflowId = '{workflow}'")).count:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.05)


async def test_an_execution_that_a_server_does_not_have_is_missing_whichever_server_says_so(place: Place) -> None:
    place.worker("main", scripted("Done."))
    run = await place.start("main", "go")
    await place.client.result(run)
    # What is left of it elsewhere, as in the list of a moment ago, names it by the id of its execution.
    deleted = place.client.temporal.get_workflow_handle(run, run_id=str(uuid4()))
    with pytest.raises(RPCError) as caught:
        await deleted.fetch_history()
    assert is_missing(caught.value)


async def test_histories_of_the_whole_tree_and_blobs_go_and_those_of_other_runs_stay(place: Place) -> None:
    place.worker("child", scripted("Done."))
    delegate = call("worker_call", worker_name="child", input_data="go")
    place.worker("main", scripted(delegate, "Done."), toolsets={"delegation": {"allow_workers": ["child"]}})
    place.workshop(approvals={"mode": "approve_all"})
    temporal, blobs = place.client.temporal, workshop_blobs(place.folder)
    run = f"job-{uuid4().hex}"
    # An id that begins like the run's, and a value that both have.
    other = await place.start("main", LARGE, run=f"{run}-2")
    await place.client.result(other)
    shared = {one.sha256 for one in blobs.stored()}
    both = await place.start("main", LARGE, run=run)
    await place.client.result(both)
    await place.client.result(await place.start("main", run=f"{run}-3"))
    view = await place.client.view(run)
    await listed(place, *view.nodes, *(await place.client.view(other)).nodes)
    deleted = await delete_run(temporal, run, blobs)

    place.started.remove(run)
    assert deleted.histories == len(view.nodes) == 2
    assert await gone(place, run)
    assert shared <= {one.sha256 for one in blobs.stored()}
    assert (await place.client.result(other)).output == "Done."


async def test_blobs_that_nobody_else_needs_go_too(place: Place) -> None:
    # No other test has had these values on this server.
    ours, answer = uuid4().hex * 20_000, uuid4().hex * 20_000
    place.worker("main", scripted(answer))
    await place.client.result(run := await place.start("main", ours))
    blobs = workshop_blobs(place.folder)
    await listed(place, run)
    deleted = await delete_run(place.client.temporal, run, blobs)
    place.started.remove(run)
    assert len(deleted.blobs) >= 2
    # A workflow's task that is tried again may leave a value behind that no history needs.
    rest = await collect(place.client.temporal, blobs, older_than=timedelta(0), dry_run=True)
    assert rest.left == ()


async def test_a_file_stays_that_a_run_is_about_to_start_with(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are stored before their run is started: here before the other run with the same file has ended."""
    place.worker("main", scripted("Done."), attachment_policy={"allowed_suffixes": [".txt"]})
    file = place.write("notes.txt", uuid4().hex)
    attached = [one.model_dump() for one in load_local_worker(place.folder, "main").attach([file])]
    await place.client.result(run := await place.start("main", attachments=attached))
    later: list[str] = []

    async def settle(_ended: float) -> None:
        later.append(await place.start("main", attachments=attached))
        while later[0] not in {one.run for one in await place.client.runs()}:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.05)

    monkeypatch.setattr(deleting, "settle", settle)
    deleted = await delete_run(place.client.temporal, run, blobs := workshop_blobs(place.folder))
    place.started.remove(run)
    assert attached[0]["sha256"] not in {one.sha256 for one in deleted.blobs}
    assert blobs.read(attached[0]["sha256"]) == file.read_bytes()
    await place.client.result(later[0])


async def test_an_open_run_is_told_of_and_can_be_stopped_first(place: Place, server: WorkflowEnvironment) -> None:
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("child", scripted(call("write_file", path="/a.txt", content="a")), toolsets={"filesystem": {}})
    place.worker("main", scripted(call("child", input="go")), toolsets=delegation_to("child"))
    run = await place.start("main")
    await place.pending(run)
    await listed(place, f"{run}/main/child-1")
    assert await open_parts(server.client, run) == [run, f"{run}/main/child-1"]
    await place.client.cancel(run)
    deleted = await delete_run(server.client, run, None)
    place.started.remove(run)
    assert deleted.histories == 2


async def start_again(place: Place, run: str) -> None:
    """Delete the run, and start another one of the worker `main` under its id."""
    await listed(place, run)
    await place.client.cancel(run)
    await delete_run(place.client.temporal, run, None)
    place.started.remove(run)
    assert await gone(place, run)
    await place.start("main", run=run)


async def test_a_decision_for_a_deleted_run_does_not_count_in_one_with_its_id(place: Place) -> None:
    """The run that has its id now asks the same question, under the same id; nobody was shown that one."""
    place.worker("child", scripted("Done."))
    place.worker("main", scripted(call("child", input="go"), "Done."), toolsets=delegation_to("child"))
    run = await place.start("main")
    (shown,) = await place.pending(run)
    await start_again(place, run)
    (asked,) = await place.pending(run)
    assert (asked.id, asked.request.args, asked.request.summary) == (
        shown.id,
        shown.request.args,
        shown.request.summary,
    )
    old, new = shown.request.digest, asked.request.digest
    for decision in ("approve", "reject"):
        with pytest.raises(DecisionRefused, match="is about something else"):
            await place.decide(run, decision, id=shown.id, digest=old)
    await place.signal(run, {"id": shown.id, "decision": "approve", "digest": old})
    await place.pending_is(run, "a1")
    await place.decide(run, id=shown.id, digest=new, hold=60, by="ada")
    with pytest.raises(DecisionRefused, match="is about something else"):
        await place.client.decide(run, Decision(id=shown.id, decision=None, by="ada", digest=old))
    await place.decide(run, id=shown.id, digest=new, by="ada")
    assert (await place.client.result(run)).output == "Done."


@pytest.mark.extension("forks")
async def test_forks_of_a_deleted_run_are_told_of_and_stay_complete_or_go_with_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from llm_do_temporal.extensions.forks.messages import ForkIndex, ForkSource

    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    place.worker("main", scripted("Done."))
    blobs = workshop_blobs(place.folder)

    async def family() -> tuple[str, str, str]:
        """A run, a fork of it, and a fork of that."""
        runs = [await place.start("main")]
        for _ in range(2):
            await place.client.result(runs[-1])
            record = ForkIndex(run=runs[-1], execution="1").model_dump_json().encode()
            source = ForkSource(run=runs[-1], index=blobs.put_bytes(record))
            runs.append(
                await place.start("main", aside=True, parts={"forks": source.model_dump()}, copies_of=source.run)
            )
        await place.client.result(runs[-1])
        # The list is a bit late.
        while {one.run for one in (await read_borrowers(place.client.temporal, runs[0])).known} != {*runs[1:]}:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.05)
        return runs[0], runs[1], runs[2]

    async def delete(*arguments: str) -> str:
        code = await asyncio.to_thread(run_command, ["delete", *arguments, "--yes", "--workshop", str(place.folder)])
        said = capsys.readouterr()
        assert code == 0, said
        return said.out + said.err

    run, fork, grandchild = await family()
    said = await delete(run)
    place.started.remove(run)
    assert f"note: 2 runs reuse its answers: {fork}, {grandchild}. Copies of them stay there" in said
    assert (await place.client.result(fork)).output == (await place.client.result(grandchild)).output == "Done."
    run, fork, grandchild = await family()
    said = await delete(run, "--with-forks")
    assert [line.split(":")[0] for line in said.splitlines()] == [
        f"deleted run {one}" for one in (grandchild, fork, run)
    ]
    for one in (run, fork, grandchild):
        assert await gone(place, one)
        place.started.remove(one)


async def test_the_command_deletes_nothing_that_is_open_or_without_a_yes(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker(
        "child", scripted(call("write_file", path="/a.txt", content="x"), "Done."), toolsets={"filesystem": {}}
    )
    place.worker("main", scripted(call("child", input="go"), "Done."), toolsets=delegation_to("child"))
    run, alone = await place.start("main"), await place.start("child")
    await place.pending(run)
    await place.pending(alone)
    await listed(place, f"{run}/main/child-1")

    async def delete(*arguments: str) -> tuple[int, str]:
        typed = ["delete", *arguments, "--workshop", str(place.folder)]
        code = await asyncio.to_thread(run_command, typed)
        said = capsys.readouterr()
        return code, said.out + said.err

    for arguments, says in (
        ((run, "--yes"), f"run '{run}' is open"),
        ((run, "--cancel"), "Add --yes."),
        ((f"{run}/main/child-1", "--yes", "--cancel"), f"'{run}/main/child-1' is a workflow, and no run"),
        (("nobody", "--yes"), "there is no run 'nobody'"),
    ):
        code, said = await delete(*arguments)
        assert (code, says in said) == (2, True), said
    for one, histories in ((run, "2 histories"), (alone, "1 history")):
        code, said = await delete(one, "--yes", "--cancel")
        assert (code, f"deleted run {one}: {histories}, 0 blobs\n" in said) == (0, True), said
        assert await gone(place, one)
        place.started.remove(one)


@pytest.mark.thorough
async def test_a_decision_without_a_digest_reaches_the_run_that_was_read_and_no_later_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading a run and deciding, it is deleted and started again under its id."""
    place.worker("child", scripted("Done."))
    place.worker("main", scripted(call("child", input="go"), "Done."), toolsets=delegation_to("child"))
    run = await place.start("main")
    await place.pending(run)
    read = await place.client._read(run)  # pyright: ignore[reportPrivateUsage]
    await start_again(place, run)
    await place.pending_is(run, "a1")
    really = place.client._read  # pyright: ignore[reportPrivateUsage]

    async def refuses(tell: Callable[[], Awaitable[object]]) -> None:
        stale = iter([read])

        async def before(run: str) -> Any:
            return next(stale, None) or await really(run)

        monkeypatch.setattr(place.client, "_read", before)
        with pytest.raises(DecisionRefused, match="was started again since it was read"):
            await tell()
        monkeypatch.undo()

    for named, decision, sent_only in product(({"id": "a1"}, {}), ("approve", "reject"), (False, True)):
        given = Decision.model_validate({"decision": decision, "note": "no", **named})
        await refuses(partial(place.client.decide, run, given, is_sent_only=sent_only))
    await refuses(partial(place.client.decide, run, Decision(id="a1", decision=None, by="ada")))
    await place.pending_is(run, "a1")
    assert (await place.client.desk(run)).ignored == ()
    # Who types a plain signal decides about the run that has the id now.
    await place.signal(run, {"id": "a1", "decision": "approve"})
    assert (await place.client.result(run)).output == "Done."
