"""Keys that change, are missing or wrong while runs are open: everything goes on once the key is there."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf.json_format import MessageToJson
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import ActivitySerializationContext, SerializationContext, WithSerializationContext
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.views.pending_work import note_troubles
from llm_do_temporal.client.views.transcripts import read_part_with
from llm_do_temporal.client.views.tree import Accounts, Branch, list_tree
from llm_do_temporal.doors.principal import TokenScope
from llm_do_temporal.encryption.codec import EncryptionCodec, encrypting, is_encrypted
from llm_do_temporal.encryption.keys import KEY_FILE_VARIABLE, NO_KEYS, key_ring
from llm_do_temporal.errors import KeyMismatch, UsageError
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.service.build import ServiceSettings, build_worker
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.invocation import conversation
from tests.support.doors.http_client import person, program
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.providers.answers import Answer, Gate, Text, tool_call
from tests.support.providers.provider import by_function
from tests.support.runs.batch_items import batch_of
from tests.support.runs.delegation import delegation_to
from tests.support.runs.parked import STREAMED_MODEL, live_tail
from tests.support.runs.place import Place
from tests.support.runs.vault import NEW_KEY, OLD_KEY, SECRET, Vault

IMPOSTOR = f"old:{base64.b64encode(b'x' * 32).decode()}"
BIG = f"beware of the {SECRET}. " * 20_000
"""More than a history holds: it goes to the blob store."""

TOOLS = """\
from pathlib import Path

def note() -> str:
    with Path(__file__).with_name("notes").open("a") as notes:
        notes.write("noted\\n")
    return "ok"
"""


@pytest.mark.extension("maintenance")
async def test_a_key_is_rotated_while_a_run_is_parked(vault: Vault, server: WorkflowEnvironment) -> None:
    from llm_do_temporal.extensions.maintenance.removal import collect

    place = vault.place
    model = scripted(call("write_file", path="/a.txt", content=BIG), f"Mind the {SECRET}.")
    place.worker("main", model, toolsets={"filesystem": {}})
    async with vault.serving(OLD_KEY):
        run = await place.start("main", BIG)
        await place.pending(run)
        # What the Temporal UI shows of it.
        handle = server.client.get_workflow_handle(run)
        details = await handle.query("__temporal_workflow_metadata", result_type=RawValue)
        assert is_encrypted(details.payload)
    async with vault.serving(NEW_KEY, OLD_KEY):
        (asked,) = await place.client.approvals(run)
        assert asked.request.args["content"] == BIG
        await place.decide(run, note=f"ask the {SECRET}", by="ada")
        result = await place.client.result(run)
        view = await place.client.view(run)
    assert (result.output, view.status) == (f"Mind the {SECRET}.", "completed")
    assert (place.folder / "a.txt").read_text() == BIG
    assert model.requests[-1].prompt == BIG
    told = "".join(MessageToJson(event) for history in await vault.raw() for event in history.events)
    assert {base64.b64encode(name).decode() in told for name in (b"old", b"new")} == {True}
    stored = b"".join(path.read_bytes() for path in (place.folder / ".llm-do").rglob("*") if path.is_file())
    plain = b"".join(event.SerializeToString() for history in await vault.raw() for event in history.events)
    assert SECRET.encode() not in stored + plain
    collected = await collect(place.client.temporal, workshop_blobs(place.folder))
    assert (collected.removed, len(collected.left) > 0) == ((), True)


async def test_a_running_service_takes_the_keys_of_its_file_as_they_change(vault: Vault, tmp_path: Path) -> None:
    place = vault.place
    (file := tmp_path / "keys").write_text(OLD_KEY)
    place.worker("main", scripted(call("write_file", path="/a.txt", content="x"), "Done."), toolsets={"filesystem": {}})
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(KEY_FILE_VARIABLE, str(file))
        async with vault.serving():
            run = await place.start("main", SECRET)
            await place.pending(run)
            file.write_text(f"{NEW_KEY}\n{OLD_KEY}\n")
            await place.decide(run)
            assert (await place.client.result(run)).output == "Done."
    (history,) = [one for one in await vault.raw() if one.workflow_id == run]
    # In quotes: what is encrypted may hold these letters by chance.
    used = [f'"{base64.b64encode(name).decode()}"' for name in (b"old", b"new")]
    first, last = (MessageToJson(history.events[at]) for at in (0, -1))
    assert ([name in first for name in used], [name in last for name in used]) == ([True, False], [False, True])


@pytest.mark.thorough
async def test_a_service_with_a_wrong_key_says_so_and_loses_nothing(vault: Vault) -> None:
    place = vault.place
    place.worker("main", scripted(call("write_file", path="/a.txt", content="x"), "Done."), toolsets={"filesystem": {}})
    async with vault.serving(OLD_KEY):
        request = StartRunInput(worker="main", prompt=SECRET)
        place.started.append(run := f"job-{uuid4().hex}")
        # What a service cannot read it tells once; later attempts at a task just run into its timeout.
        await place.client.temporal.start_workflow(
            RUN_WORKFLOW, request, id=run, task_queue=place.queue, task_timeout=timedelta(seconds=10)
        )
        await place.pending(run)
    vault.use(OLD_KEY)
    await place.signal(run, {"decision": "approve", "by": "ada"})
    async with vault.serving(IMPOSTOR):
        vault.use(OLD_KEY)
        said = await failed_task(vault, run)
        view = await place.client.view(run)
        while not (troubles := await note_troubles(place.client.temporal, view)):
            pass
    assert [(path, trouble.failure) for path, trouble in troubles] == [("run", said)]
    assert said.startswith("this is encrypted with a key 'old' that is not the key this process has under that name")
    async with vault.serving(OLD_KEY):
        assert (await place.client.result(run)).output == "Done."


async def failed_task(vault: Vault, run: str) -> str:
    """What a worker service says that cannot read the run, as everybody can read it."""
    handle = vault.connected().get_workflow_handle(run)
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.HasField("workflow_task_failed_event_attributes"):
            return event.workflow_task_failed_event_attributes.failure.message
    raise AssertionError("the run has ended")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("keys", [(), (NEW_KEY,), (IMPOSTOR,)], ids=["none", "another", "wrong"])
@pytest.mark.extension("maintenance")
async def test_a_client_without_the_key_is_told_which_and_changes_nothing(vault: Vault, keys: tuple[str, ...]) -> None:
    from llm_do_temporal.extensions.maintenance.removal import collect

    place = vault.place
    place.worker("main", scripted(call("write_file", path="/a.txt", content="x"), "Done."), toolsets={"filesystem": {}})
    async with vault.serving(OLD_KEY):
        run = await place.start("main", SECRET)
        await place.pending(run)
        before = len((await vault.raw())[0].events)
        # What is not listed yet keeps nobody from collecting.
        while run not in {one.run for one in await place.client.runs(RunFilter(begins=run))}:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.05)
        vault.use(*keys)
        client = place.client
        for asked in (client.status(run), client.view(run), client.approvals(run), client.unfinished(run)):
            with pytest.raises(KeyMismatch, match="'old'"):
                await asked
        with pytest.raises(KeyMismatch, match="'old'"):
            await place.decide(run, note=SECRET)
        with pytest.raises(KeyMismatch, match=r"^'.+': this is encrypted .* 'old'"):
            # Keys that are missing must not make what they seal look like what nobody needs.
            await collect(client.temporal, workshop_blobs(place.folder))
        vault.use(OLD_KEY)
        assert len((await vault.raw())[0].events) == before
        await place.decide(run)
        result = await place.client.result(run)
        vault.use(*keys)
        with pytest.raises(KeyMismatch, match="'old'"):
            await place.client.result(run)
    assert result.output == "Done."


class Forgetful(EncryptionCodec, WithSerializationContext):
    """A codec of a service that lacks the key the first time it is to carry out an activity."""

    def __init__(self, activities: list[str], *, lacking: bool = False) -> None:
        super().__init__(key_ring())
        self._activities = activities
        self._lacking = lacking

    def with_context(self, context: SerializationContext) -> Forgetful:
        lacking = isinstance(context, ActivitySerializationContext) and context.activity_type in self._activities
        return Forgetful(self._activities, lacking=lacking)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        if self._lacking and self._activities:
            self._activities.clear()
            NO_KEYS.find("old")
        return await super().decode(payloads)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("activity", ["call_python_tool", "write_file", "agent__llmdo__model_request"])
async def test_an_effect_that_comes_to_a_service_without_the_key_happens_once_there_is_one(
    vault: Vault, activity: str
) -> None:
    place = vault.place
    place.write("tools.py", TOOLS)
    model = scripted([call("note"), call("write_file", path="/a.txt", content="x")], "Done.")
    place.worker("main", model, toolsets={"filesystem": {}, "custom": {"note": {"pre_approved": True}}})
    vault.use(OLD_KEY)
    config = place.client.temporal.config()
    to_fail = [activity]
    config["data_converter"] = encrypting(config["data_converter"], key_ring())
    object.__setattr__(config["data_converter"], "payload_codec", Forgetful(to_fail))
    async with build_worker(Client(**config), place.folder, ServiceSettings(task_queue=place.queue)):
        result = await place.run("main", SECRET, mode="approve_all")
    assert result.output == "Done."
    assert (place.folder / "notes").read_text() == "noted\n"
    assert len(model.requests) == 2
    assert to_fail == []


def then(gate: Gate) -> Any:
    """A model that calls the reader, then writes a text that stops half way."""

    def answer(request: dict[str, Any]) -> Answer:
        if any(message["role"] == "tool" for message in request["messages"]):
            return Text(f"Mind the {SECRET}, {SECRET}, {SECRET}.", pause=gate)
        return tool_call("reader", input=f"look for the {SECRET}")

    return by_function(answer)


@pytest.mark.extension("export")
async def test_everything_that_is_shown_of_a_run_is_opened(
    vault: Vault, point_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "TURNS_A_RUN", 1)
    place, gate = vault.place, Gate()
    point_at(then(gate))
    place.worker("main", STREAMED_MODEL, toolsets=delegation_to("reader"))
    place.worker("reader", scripted(f"No {SECRET} here."))
    async with vault.serving(OLD_KEY):
        run = await place.start("main", f"beware of the {SECRET}", started_by="ada")
        await place.pending(run)
        await shown_while_it_waits(place, run)
        await place.decide(run, remember="session")
        tail = await live_tail(place, run)
        assert f"Mind the {SECRET}".startswith(tail.text[:17])
        gate.open()
        await place.client.result(run)
        await shown_in_the_end(place, run)
        await items_are_shown(place)


async def shown_while_it_waits(place: Place, run: str) -> None:
    """What is in memos, and the question."""
    ada = await signed_in_browser(place)
    await page_with(ada, f"/?run={run}", f"look for the {SECRET}", "reader")
    await page_with(ada, f"/runs?begins={run}", "main", "waiting", "ada")
    assert f"look for the {SECRET}" in (await ada.open(f"/runs/{run}/approvals/a1")).text


async def shown_in_the_end(place: Place, run: str) -> None:
    """Tree, spending, conversation, log and export."""
    from llm_do_temporal.extensions.export.report import read_exported

    client, temporal = place.client, place.client.temporal
    ada = await signed_in_browser(place)
    await page_with(ada, f"/runs/{run}", "completed", "main", "reader-1", "2 turns", "1 turn")
    root = await ended_tree(place, run)
    assert (root.worker, [one.worker for one in root.children]) == ("main", ["reader"])
    spent = await Accounts(temporal).read(root.children)
    assert [one.total.requests for one in spent.values()] == [1]
    page = await ada.open(f"/runs/{run}/invocations/main")
    assert f"Mind the {SECRET}, {SECRET}" in page.text
    first = await read_part_with(temporal, run, 1)
    assert [entry.text for entry in first.entries if entry.kind == "prompt"] == [f"beware of the {SECRET}"]
    assert {entry.turn for entry in first.entries if entry.kind == "turn"} == {1}
    assert [grant.tool for grant in await client.grants(run)] == ["reader"]
    (question,) = await client.questions(run)
    assert question.args["input"] == f"look for the {SECRET}"
    assert SECRET in str([event.data async for event in client.events(run)])
    exported = str((await read_exported(client, run)).as_json())
    assert all(re.search(f"{said} the {SECRET}", exported) for said in ("beware of", "look for", "Mind"))


async def ended_tree(place: Place, run: str) -> Branch:
    """The tree, once the server lists all of it as ended."""
    async with asyncio.timeout(60):
        while True:
            (root,) = await list_tree(place.client.temporal, run)
            if {root.status, *(child.status for child in root.children)} == {"completed"}:
                return root


async def items_are_shown(place: Place) -> None:
    """Those of a batch, and that none of them is left to do."""
    run = await place.start("reader", batch=batch_of("one", "two"))
    await place.client.result(run)
    view = await place.client.view(run)
    assert {item.name: item.output for item in view.items.values()} == {
        "one": f"No {SECRET} here.",
        "two": f"No {SECRET} here.",
    }
    with pytest.raises(UsageError, match="all 2 items"):
        await place.client.unfinished(run)


async def test_a_run_whose_key_is_missing_is_listed_and_hides_no_other(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, name = vault.place, f"job-{uuid4().hex}"
    theirs, ours = f"{name}-theirs", f"{name}-ours"
    for variable, value in place.variables.items():
        monkeypatch.setenv(variable, value)
    place.worker("main", scripted(call("write_file", path="/a.txt", content="x"), "Done."), toolsets={"filesystem": {}})
    for run, key in ((theirs, OLD_KEY), (ours, NEW_KEY)):
        async with vault.serving(key):
            await place.pending(await place.start("main", SECRET, run=run))
    ada, missing = await signed_in_browser(place), "cannot be read: its encryption key 'old' is missing here"
    await page_with(
        ada, f"/runs?begins={name}", f"{theirs} waiting 1 question main {missing}", f"{SECRET} waiting 1 question"
    )
    page = await page_with(ada, "/", f"{theirs} main 1 question {missing}", SECRET)
    assert f"/runs/{ours}/approvals/a1" in page.html
    assert f"/runs/{theirs}/approvals" not in page.html

    async def typed(*words: str) -> tuple[str, str]:
        assert await asyncio.to_thread(run_command, [*words, "--workshop", str(place.folder)]) == 0
        return capsys.readouterr()

    # Tests before this one may have left runs that wait, and older questions.
    everything = ("--limit", "1000")
    lines = (await typed("list", *everything))[0].splitlines()
    shown = {run: next(line.rstrip() for line in lines if run in line) for run in (theirs, ours)}
    assert re.search(r" main +waiting, key 'old' is missing +1 +\d+\w ago$", shown[theirs])
    assert re.search(r" main +waiting +1 +\d+\w ago$", shown[ours])
    told = {one["run"]: one for one in json.loads((await typed("list", "--json", *everything))[0])}
    assert [(told[run]["status"], told[run]["missing_key"]) for run in (theirs, ours)] == [
        ("waiting", "old"),
        ("waiting", None),
    ]
    out, said = await typed("approvals", *everything)
    assert (ours in out, theirs in out) == (True, False)
    assert f"run {theirs} waits for approval (1), and cannot be read: its key 'old' is missing here" in said
    with pytest.raises(KeyMismatch, match="'old'"):
        await place.client.approvals(theirs)
    async with vault.serving(NEW_KEY, OLD_KEY):
        assert {theirs, ours} <= {one.run for one in await place.client.approvals()}
        for run in (theirs, ours):
            await place.decide(run)
            await place.client.result(run)


@pytest.mark.parametrize("who", ["", "ada", "nobody"])
async def test_a_connection_without_our_codec_lists_what_it_cannot_read(vault: Vault, who: str) -> None:
    place = vault.place
    place.worker("main", scripted("Done."))
    async with vault.serving(OLD_KEY):
        run = await place.start("main", f"beware of the {SECRET}", started_by="ada")
        await place.client.result(run)
        while run not in [one.run for one in await place.client.runs(RunFilter(begins=run))]:
            pass
        config = place.client.temporal.config()
        config["data_converter"] = pydantic_data_converter
        foreign = LlmDoClient(Client(**config))
        (own,) = await foreign.runs(RunFilter(begins=run))
        assert own.missing_key == ""
        assert own.started_by == "ada"
        vault.use()
        listed = await foreign.runs(RunFilter(begins=run, who=who))
        assert [(one.run, one.started_by, one.missing_key) for one in listed] == ([(run, "", "old")] if not who else [])


async def test_at_a_door_a_run_without_its_key_is_not_there_for_programs_and_says_so_to_people(vault: Vault) -> None:
    place = vault.place
    place.worker("main", scripted("Done."), export=True)
    async with vault.serving(OLD_KEY):
        run = await place.start("main", f"beware of the {SECRET}", started_by="ada")
        await place.client.result(run)
        vault.use(NEW_KEY)
        ci, ada = program(place, scopes=frozenset({TokenScope.READ})), person(place)
        missing = await ci.ask("GET", "/runs/nothing")
        for path in ("", "/questions", "/events", "/files", "/tree"):
            refused = await ci.ask("GET", f"/runs/{run}{path}")
            assert (refused.status, refused.body["code"]) == (404, "UnknownHere"), refused.body
            assert refused.body["detail"] == missing.body["detail"].replace("nothing", run)
            told = await ada.ask("GET", f"/runs/{run}{path}")
            assert (told.status, told.body["code"]) == (424, "KeyMismatch"), told.body
            assert ("'old'" in told.body["detail"], "new" in str(told.body)) == (True, False)
        decider = program(place, "nightly", frozenset({TokenScope.READ, TokenScope.DECIDE}))
        assert (await decider.ask("GET", f"/runs/{run}")).status == 424
        vault.use(OLD_KEY)


@pytest.mark.thorough
@pytest.mark.extension("forks")
async def test_a_file_that_is_sealed_with_a_missing_key_says_so_to_whoever_reads_its_run(vault: Vault) -> None:
    place = vault.place
    place.worker("main", scripted("Done."), export=True)
    deck = {"name": "deck.txt", "content": base64.b64encode(SECRET.encode()).decode()}
    async with vault.serving(OLD_KEY):
        ada = person(place)
        run = (await ada.start("main", attachments=[deck])).body["run"]
        place.started.append(run)
        await ada.until(run, "completed")
    async with vault.serving(NEW_KEY, OLD_KEY):
        ada = person(place, "eve")
        fork = (await ada.ask("POST", f"/runs/{run}/forks", json={})).body["run"]
        place.started.append(fork)
        await ada.until(fork, "completed")
    asked = {"params": {"origin": "given", "name": "deck.txt"}}
    assert (await ada.ask("GET", f"/runs/{fork}/files/content", **asked)).body == SECRET
    vault.use(NEW_KEY)
    for who in (program(place), person(place, "cleo")):
        assert (await who.ask("GET", f"/runs/{fork}")).body["output"] == "Done."
        told = await who.ask("GET", f"/runs/{fork}/files/content", **asked)
        assert (told.status, told.body["code"]) == (424, "KeyMismatch"), told.body
