"""Keys that change, are missing or wrong while runs are open: everything goes on once the key is there."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from google.protobuf.json_format import MessageToJson
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.converter import ActivitySerializationContext, SerializationContext, WithSerializationContext
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client.views.pending_work import note_troubles
from llm_do_temporal.encryption.codec import EncryptionCodec, encrypting, is_encrypted
from llm_do_temporal.encryption.keys import KEY_FILE_VARIABLE, NO_KEYS, key_ring
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.service.build import ServiceSettings, build_worker
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.testing import call, scripted
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
    from llm_do_temporal.extensions.maintenance.gc import collect

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
    from llm_do_temporal.extensions.maintenance.gc import collect

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
        """See WithSerializationContext."""
        lacking = isinstance(context, ActivitySerializationContext) and context.activity_type in self._activities
        return Forgetful(self._activities, lacking=lacking)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See PayloadCodec."""
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
