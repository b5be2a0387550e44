"""The server's list of workflows, part by part, as the server sends it.

The SDK makes an object of each workflow and decodes all of its search attributes, twice: for thousands of runs that
takes as long as the server itself.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.evaluations.run_ids import EXPERIMENT_PREFIX

NEWEST_EXECUTION = "ExecutionStatus != 'ContinuedAsNew'"
"""Condition of a query with which a workflow that was continued as new is listed once."""
OF_EVALUATIONS = f"ParentWorkflowId STARTS_WITH '{EXPERIMENT_PREFIX}'"
"""Condition of a query for the runs that experiments have started, of their cases and judges."""
NOT_OF_EVALUATIONS = f"(ParentWorkflowId IS NULL OR ParentWorkflowId NOT STARTS_WITH '{EXPERIMENT_PREFIX}')"
"""Condition of a query for all other runs."""
ANSWERED_RUNS = 1_000
"""Runs that the server lists in one answer at most."""
_REFUSED = (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.UNKNOWN)
"""Answers of servers to a token that is none. A server that hides its errors says the second for any of them."""
_REFUSALS = 2
"""Refusals after which a token counts as invalid."""
_ATTEMPTS = 5
"""Times that a token is tried at most."""


@dataclass(frozen=True)
class ListPart:
    """A part of the list."""

    found: Sequence[WorkflowExecutionInfo]
    token: bytes
    """Token with which this part was asked for; empty for the first part."""
    following: bytes
    """Token of the next part; empty: there is none."""


async def read_part(client: Client, query: str, *, token: bytes = b"", size: int = ANSWERED_RUNS) -> ListPart:
    """Return a part of the list, of so many workflows at most. Raises RPCError."""
    return await _ask(client, query, token, size, retry=True)


async def read_given(client: Client, query: str, *, token: bytes, size: int = ANSWERED_RUNS) -> ListPart:
    """Return the part at a token that came from outside, without one the first. Raises UsageError, RPCError.

    The server may refuse it in the words of a failure that passes, after which the SDK would ask again for ten seconds.
    So the SDK asks once, and a token is none if it is refused twice; in between, the list without it was answered. A
    failure that is no refusal counts for nothing: the token is tried again, five times at most.
    """
    if not token:
        return await read_part(client, query, size=size)
    failures: list[RPCError] = []
    while True:
        try:
            return await _ask(client, query, token, size, retry=False)
        except RPCError as error:
            failures.append(error)
            if sum(one.status in _REFUSED for one in failures) == _REFUSALS:
                raise no_part() from error
            if len(failures) == _ATTEMPTS:
                raise
        await read_part(client, query, size=1)


def no_part() -> UsageError:
    """Return the error for a place in the list that is none."""
    return UsageError("this address does not name a part of the list", next_step="Begin again with the first part.")


async def _ask(client: Client, query: str, token: bytes, size: int, *, retry: bool) -> ListPart:
    answer = await client.workflow_service.list_workflow_executions(
        ListWorkflowExecutionsRequest(namespace=client.namespace, page_size=size, next_page_token=token, query=query),
        retry=retry,
    )
    return ListPart(answer.executions, token, answer.next_page_token)


async def every_part(
    client: Client, query: str, *, token: bytes = b"", first: int = ANSWERED_RUNS
) -> AsyncIterator[ListPart]:
    """Yield the parts of the list, the first with so many workflows at most, from a token on that came from outside.

    Raises UsageError for a token that is none, RPCError.
    """
    part = await read_given(client, query, token=token, size=first)
    yield part
    while part.following:
        part = await read_part(client, query, token=part.following)
        yield part


def stamp(moment: datetime) -> str:
    """Return the moment as it stands in a query."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def attribute_of(info: WorkflowExecutionInfo, name: str) -> Any:
    """Return the value of a search attribute; None where the workflow has none of this name."""
    fields = info.search_attributes.indexed_fields
    return json.loads(fields[name].data) if name in fields and fields[name].data else None
