"""Namespaces and endpoints of a server, as an operator makes them for Nexus."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from google.protobuf.duration_pb2 import Duration
from temporalio.api.nexus.v1 import EndpointSpec, EndpointTarget
from temporalio.api.operatorservice.v1 import CreateNexusEndpointRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from tests.support.patience import PATIENCE_SECONDS

NAMESPACE = "another-team"


async def other_namespace(client: Client) -> Client:
    """Return a connection to the other team's namespace, which is made where it is not there."""
    request = RegisterNamespaceRequest(
        namespace=NAMESPACE, workflow_execution_retention_period=Duration(seconds=86_400)
    )
    with suppress(RPCError):  # another test has made it
        await client.workflow_service.register_namespace(request)
    connected = await Client.connect(client.service_client.config.target_host, namespace=NAMESPACE)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await anext(connected.list_workflows(), None)
                return connected
            except RPCError:
                await asyncio.sleep(0.1)


async def make_endpoint(client: Client, name: str, queue: str) -> None:
    """Make an endpoint of this name that leads to a task queue of the client's namespace."""
    target = EndpointTarget(worker=EndpointTarget.Worker(namespace=client.namespace, task_queue=queue))
    spec = EndpointSpec(name=name, target=target)
    await client.operator_service.create_nexus_endpoint(CreateNexusEndpointRequest(spec=spec))
