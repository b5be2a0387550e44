"""Temporal server of a test session: a development server of its own, or the one that `LLM_DO_TEST_SERVER` names.

With a server that is given, each session has namespaces of its own there, one for each set of options. Such a server
must have been started with the settings of all of them, as `make cluster-test` does.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from uuid import uuid4

from google.protobuf.duration_pb2 import Duration
from temporalio import workflow
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from llm_do_temporal.messages.base import STATE_ATTRIBUTE
from llm_do_temporal.service.build import register_search_attributes
from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers.temporal import temporal_server

SERVER_VARIABLE = "LLM_DO_TEST_SERVER"
"""Names a server, `host:port`, that runs already."""
_SESSIONS = ("main", *(f"gw{number}" for number in range(8)))
"""Sessions that may run at the same time, as pytest-xdist names them."""
_RETENTION = timedelta(days=3)
_SETTINGS = ("--dynamic-config-value", "frontend.enableServerVersionCheck=false")
"""Settings of every development server: it asks nobody whether there is a newer one."""


@dataclass(frozen=True)
class Options:
    """Settings by which a server differs from others, and their name."""

    name: str
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """As the server's dynamic configuration has them."""

    def namespace(self, session: str) -> str:
        return f"{self.name}-{session}"

    def namespaces(self) -> list[str]:
        return [self.namespace(session) for session in _SESSIONS]


PLAIN = Options("plain")
HASTY = Options("hasty", {"limit.historyCount.suggestContinueAsNew": 40})
"""Advises to continue as new after some turns."""
FORGETFUL = Options(
    "forgetful",
    {
        "history.transferProcessorEnsureCloseBeforeDelete": False,
        "history.visibilityProcessorEnsureCloseBeforeDelete": False,
    },
)
"""Deletes at once. Others first put all that they know of a run away, which takes half a minute."""
TALKATIVE = Options("talkative", {"matching.TaskQueueInfoByBuildIdTTL": "0s"})
"""Tells at once how much waits."""
ALL = (PLAIN, HASTY, FORGETFUL, TALKATIVE)


def connection_variables(client: Client) -> dict[str, str]:
    """Variables with which a program reaches the server and the namespace of this client."""
    return {"TEMPORAL_ADDRESS": client.service_client.config.target_host, "TEMPORAL_NAMESPACE": client.namespace}


def is_given() -> bool:
    """Whether tests use a server that runs already."""
    return bool(os.environ.get(SERVER_VARIABLE))


@asynccontextmanager
async def session_server(options: Options = PLAIN, *arguments: str) -> AsyncGenerator[WorkflowEnvironment]:
    """The server with these options, whose namespace knows our search attributes.

    `arguments` are more of the development server's, where it is one: what a given server has as it is.
    """
    if address := os.environ.get(SERVER_VARIABLE):
        namespace = options.namespace(os.environ.get("PYTEST_XDIST_WORKER", "main"))
        client = await _join(address, namespace)
        yield WorkflowEnvironment.from_client(client)
        return
    told = [("--dynamic-config-value", f"{name}={json.dumps(value)}") for name, value in options.settings.items()]
    # The SDK gives a server that it starts 5 s to answer, and gives up where somebody takes one of its ports.
    with ExitStack() as stack:
        server = temporal_server(*_SETTINGS, *arguments, *chain.from_iterable(told))
        address = await asyncio.to_thread(stack.enter_context, server)
        client = await Client.connect(address, data_converter=pydantic_data_converter)
        assert await register_search_attributes(client)
        yield WorkflowEnvironment.from_client(client)


async def new_namespace() -> dict[str, str]:
    """Return the variables of a new namespace on the server that is given, which knows our search attributes."""
    return connection_variables(await _join(os.environ[SERVER_VARIABLE], f"new-{uuid4().hex[:8]}"))


async def _join(address: str, namespace: str) -> Client:
    """A client for a namespace, which is made where it is missing."""
    client = await Client.connect(address, namespace=namespace, data_converter=pydantic_data_converter)
    kept = Duration(seconds=int(_RETENTION.total_seconds()))
    try:
        await client.workflow_service.register_namespace(
            RegisterNamespaceRequest(namespace=namespace, workflow_execution_retention_period=kept)
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
    # All roles of a server notice a new namespace, and then its search attributes, in their own time.
    await _eventually(lambda: register_search_attributes(client), f"the server knows the namespace {namespace}")
    queue = f"probe-{uuid4().hex}"
    async with Worker(client, task_queue=queue, workflows=[Probe], workflow_runner=UnsandboxedWorkflowRunner()):
        limit = timedelta(seconds=PATIENCE_SECONDS)
        await client.execute_workflow(Probe.run, id=queue, task_queue=queue, execution_timeout=limit)
    return client


async def _eventually(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await holds():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.2)


@workflow.defn
class Probe:
    """A run that ends as soon as the server takes our search attributes; its task is tried again until then."""

    @workflow.run
    async def run(self) -> None:
        workflow.upsert_search_attributes([SearchAttributeKey.for_keyword(STATE_ATTRIBUTE).value_set("probe")])
