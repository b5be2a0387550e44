"""Versions of worker services: one with more workflow code, and what the server knows of those that there are."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from temporalio.api.enums.v1 import RoutingConfigUpdateState
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest
from temporalio.client import Client

import llm_do_temporal
from tests.support.patience import PATIENCE_SECONDS

_WAITS_FIRST = """

_load = LlmDoRun._load

async def _wait_and_load(self, start):
    if CONDITION:
        await workflow.sleep(SECONDS)
    return await _load(self, start)

LlmDoRun._load = _wait_and_load
"""
"""What is put behind a workflow's module, so that it gives an order which open runs have not given."""


def next_version(folder: Path, condition: str, *, seconds: int = 60) -> dict[str, str]:
    """Make a version that waits before it loads a worker where a condition holds; the variables that choose it."""
    package = Path(llm_do_temporal.__file__).parent
    copy = shutil.copytree(package, folder / package.name)
    with (copy / "workflows" / "run" / "workflow.py").open("a") as module:
        module.write(_WAITS_FIRST.replace("CONDITION", condition).replace("SECONDS", str(seconds)))
    # Without it the folder that a command is typed in comes first.
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(package.parent))), "PYTHONSAFEPATH": "1"}


async def await_routing(client: Client, deployment: str) -> None:
    """Wait until all task queues know which version is the current one."""
    request = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=deployment)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = (await client.workflow_service.describe_worker_deployment(request)).worker_deployment_info
            if found.routing_config_update_state != RoutingConfigUpdateState.ROUTING_CONFIG_UPDATE_STATE_IN_PROGRESS:
                return
            await asyncio.sleep(0.05)


async def builds_of(client: Client, workflow_id: str) -> list[str]:
    """The builds that carried a workflow on, in order."""
    history = await client.get_workflow_handle(workflow_id).fetch_history()
    done = [event.workflow_task_completed_event_attributes for event in history.events]
    return list(dict.fromkeys(one.deployment_version.build_id for one in done if one.started_event_id))
