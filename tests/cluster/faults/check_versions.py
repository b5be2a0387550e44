"""Part of `make cluster-faults`: a version takes the place of another one beside runs at work and runs that wait."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.client import Client

from llm_do_temporal.client.embedded.host import temporal_binary
from tests.cluster.faults.clerk import Clerks
from tests.cluster.faults.stack import SERVICES, FaultStack
from tests.compose.stack import eventually
from tests.support.deploy.versions import await_routing, builds_of, next_version

OLD, NEW = SERVICES
DEPLOYMENT = "faults"


@dataclass
class Deployment:
    """Two versions of the services, which the server knows by name or does not."""

    stack: FaultStack
    is_named: bool

    def variables(self, build: str) -> dict[str, str]:
        """What a service is told of its version."""
        return {"TEMPORAL_DEPLOYMENT_NAME": DEPLOYMENT, "TEMPORAL_WORKER_BUILD_ID": build} if self.is_named else {}

    async def make_current(self, *version: str) -> None:
        """Have the server give work to this version, as docs/how-to/upgrade.md says."""
        if not self.is_named:
            return
        address = f"127.0.0.1:{self.stack.ports['TEMPORAL_PORT']}"
        command = [temporal_binary(), "worker", "deployment", "set-current-version", "--address", address, "--yes"]
        command += ["--deployment-name", DEPLOYMENT, *version]
        # A version is known a moment after its service polls.
        eventually(lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0, "it is current")
        await await_routing(await Client.connect(address), DEPLOYMENT)


@pytest.fixture(params=["unnamed", "named"])
async def deployment(stack: FaultStack, request: pytest.FixtureRequest) -> AsyncIterator[Deployment]:
    """Versions of which none serves yet."""
    usual = {name: stack.cluster.processes[name].variables for name in SERVICES}
    found = Deployment(stack, is_named=request.param == "named")
    yield found
    for name, variables in usual.items():
        stack.exchange(name, variables)
    await found.make_current("--unversioned")


async def test_runs_outlive_the_version_that_they_began_with(deployment: Deployment, tmp_path: Path) -> None:
    stack, name = deployment.stack, f"version{deployment.is_named:d}"
    changed = next_version(tmp_path, "workflow.patched('waits-first')", seconds=1)
    old, new = (stack.cluster.processes[one] for one in SERVICES)
    new.stop()
    stack.exchange(OLD, {**old.variables, **deployment.variables("1")})
    await deployment.make_current("--build-id", "1")
    parked = Clerks(stack, (f"{name}-parked1", f"{name}-parked2"))
    parked.start("asker")
    eventually(lambda: len(parked.questions()) == len(parked.runs), "runs wait for a person")
    at_work = Clerks.begin(stack, f"{name}-old")

    stack.exchange(NEW, {**new.variables, **changed, **deployment.variables("2")})
    await deployment.make_current("--build-id", "2")
    begun_meanwhile = Clerks(stack, (f"{name}-new1", f"{name}-new2"))
    begun_meanwhile.start()
    assert old.popen is not None
    old.popen.terminate()
    at_work.end()
    old.stop()
    assert old.popen.returncode == 0

    for runs in (parked, at_work, begun_meanwhile):
        runs.finish()
    # Whoever is told to stop finishes what is under way.
    assert not at_work.asked
    if deployment.is_named:
        client = await Client.connect(f"127.0.0.1:{stack.ports['TEMPORAL_PORT']}")
        for run in parked.runs:
            assert await builds_of(client, run) == ["1", "2"]
