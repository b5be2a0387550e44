"""The script that makes Temporal's namespace and its search attributes, against a server."""

from __future__ import annotations

import os
import subprocess
from datetime import timedelta
from pathlib import Path

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client.embedded.host import temporal_binary
from llm_do_temporal.client.embedded.server import any_free_port
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, STATE_ATTRIBUTE, WORKER_ATTRIBUTE
from tests.support.deploy.programs import ROOT

SCRIPT = ROOT / "deploy/compose/temporal/namespace.sh"
NAMESPACE = "decks"


def run_script(address: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, with the `temporal` of this environment."""
    path = f"{Path(temporal_binary()).parent}{os.pathsep}{os.environ['PATH']}"
    told = {"PATH": path, "TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": NAMESPACE, "RETENTION": "72h"}
    return subprocess.run(["sh", str(SCRIPT)], env={**os.environ, **told, **variables}, capture_output=True, text=True)


async def test_it_makes_what_is_missing_and_does_no_harm_a_second_time(server: WorkflowEnvironment) -> None:
    service = server.client.service_client
    for retention in ("72h", "24h"):
        done = run_script(service.config.target_host, RETENTION=retention)
        assert done.returncode == 0, done.stderr
    made = await service.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=NAMESPACE))
    # What is there is left as it is.
    assert made.config.workflow_execution_retention_ttl.ToTimedelta() == timedelta(hours=72)
    known = await service.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=NAMESPACE))
    keyword, number = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD, IndexedValueType.INDEXED_VALUE_TYPE_INT
    wanted = {STATE_ATTRIBUTE: keyword, WORKER_ATTRIBUTE: keyword, PENDING_ATTRIBUTE: number}
    assert dict(known.custom_attributes) == wanted


def test_without_a_server_it_gives_up() -> None:
    done = run_script(f"127.0.0.1:{any_free_port()}", TRIES="1")
    assert done.returncode == 1
