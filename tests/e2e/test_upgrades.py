"""A version of the program takes the place of another one while runs wait for people."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.client import Client

from llm_do_temporal.client import Connection, LlmDoClient, connect
from llm_do_temporal.client.connections import connect_embedded
from llm_do_temporal.client.embedded.host import Host, HostSettings
from llm_do_temporal.client.embedded.server import running_host
from llm_do_temporal.messages.runs import StartRunInput
from tests.support.deploy.versions import await_routing, builds_of, next_version
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.desk import Desk
from tests.support.ports import unused_port
from tests.support.servers.sockets import http_reply

DEPLOYMENT = "decks"


async def begin_version(desk: Desk, client: Client, build: str, **variables: str) -> subprocess.Popen[str]:
    """Start a service of this build, as docs/how-to/upgrade.md says, and make its version the current one."""
    health = unused_port()
    as_it_is = desk.environment
    own = {"TEMPORAL_DEPLOYMENT_NAME": DEPLOYMENT, "TEMPORAL_WORKER_BUILD_ID": build, "LLM_DO_HEALTH_PORT": str(health)}
    desk.environment = as_it_is | own | variables
    service = desk.begin("worker")
    desk.environment = as_it_is
    eventually(lambda: http_reply(health, "/readyz")[0] == 200, f"the service of build {build} is ready")
    version = ("--deployment-name", DEPLOYMENT, "--build-id", build)

    def registered() -> bool:
        with suppress(AssertionError):
            return bool(desk.temporal("worker", "deployment", "describe-version", *version))
        return False

    eventually(registered, f"the server knows version {build}")
    desk.temporal("worker", "deployment", "set-current-version", *version, "--yes")
    await await_routing(client, DEPLOYMENT)
    return service


async def park(client: LlmDoClient, run: str) -> None:
    """Start a run, and wait until it waits for a person."""
    await client.start(StartRunInput(worker="approvals_demo", prompt="go"), run=run)
    async for event in client.follow(run).events():
        if event.type == "desk.changed" and event.data["pending"]:
            return


async def listed(client: LlmDoClient, count: int) -> None:
    """Wait until the server lists so many open workflows of ours: it does so a moment after they have begun."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            query = "ExecutionStatus = 'Running' AND WorkflowType STARTS_WITH 'LlmDo'"
            if (await client.temporal.count_workflows(query)).count == count:
                return
            await asyncio.sleep(0.05)


@pytest.mark.thorough
async def test_parked_runs_go_on_with_the_current_version_unless_they_are_pinned(
    desk: Desk, address: str, tmp_path: Path
) -> None:
    desk.environment["TEMPORAL_ADDRESS"] = address
    client = LlmDoClient(await connect(Connection(address=address)))
    await begin_version(desk, client.temporal, "1", LLM_DO_VERSIONING="pinned")
    await park(client, "pinned")
    second = await begin_version(desk, client.temporal, "2")
    await park(client, "job")
    await listed(client, 2)

    as_it_is = desk.environment
    compatible = next_version(tmp_path / "compatible", "workflow.patched('waits-first')")
    desk.environment = as_it_is | compatible
    assert desk.type("migrate-check").stdout == "replayed 2 open workflows: all would go on\n"
    desk.environment = as_it_is | next_version(tmp_path / "incompatible", "True")
    told = json.loads(desk.type("migrate-check", "--json", "--task-queue", "llm-do", code=1).stdout)
    troubles = sorted((one["workflow"], one["diverges"]) for one in told["troubles"])
    assert troubles == [("job", True), ("pinned", True)]
    assert told["workflows"] == 2
    desk.environment = as_it_is

    await begin_version(desk, client.temporal, "3", **compatible)
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=PATIENCE_SECONDS) == 0
    for run, versions in (("job", ["2", "3"]), ("pinned", ["1"])):
        desk.type("approve", run, "a1")
        assert (await client.result(run)).output
        assert await builds_of(client.temporal, run) == versions


@pytest.mark.thorough
async def test_migrate_check_serves_nothing_at_the_embedded_server(desk: Desk) -> None:
    folder = desk.workshop
    async with Host(HostSettings(folder)).server_alone() as info:
        client = LlmDoClient(await connect_embedded(info.address, folder))
        await client.start(StartRunInput(worker="approvals_demo", prompt="go"), run="job")
        await listed(client, 1)
        before = await client.temporal.get_workflow_handle("job").fetch_history()
    assert desk.type("migrate-check").stdout == "replayed 1 open workflows: all would go on\n"
    assert running_host(folder) is None
    assert not (folder / ".llm-do" / "service.log").exists()
    async with Host(HostSettings(folder)).server_alone() as info:
        handle = (await connect_embedded(info.address, folder)).get_workflow_handle("job")
        # Maps in events have no order.
        assert json.loads((await handle.fetch_history()).to_json()) == json.loads(before.to_json())
