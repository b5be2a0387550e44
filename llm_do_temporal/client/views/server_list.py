"""The server's list of workflows, part by part, and the memos in it; search attributes where a memo is locked.

The SDK makes an object of each workflow and decodes all of its search attributes, twice: for thousands of runs that
takes as long as the server itself.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.history.events import decode_json, read_message
from llm_do_temporal.encryption.codec import EncryptionCodec, is_encrypted, ring_of
from llm_do_temporal.errors import KeyMismatch, UsageError
from llm_do_temporal.extension import run_starters
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, PENDING_MEMO, RUN_MEMO, WORKER_ATTRIBUTE
from llm_do_temporal.messages.runs import PendingApprovalMemo, RunMemo
from llm_do_temporal.storage.external_storage import is_kept_outside

NEWEST_EXECUTION = "ExecutionStatus != 'ContinuedAsNew'"
"""Condition of a query with which a workflow that was continued as new is listed once."""
ANSWERED_RUNS = 1_000
"""Runs that the server lists in one answer at most."""
_REFUSED = (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.UNKNOWN)
"""Answers of servers to a token that is none. A server that hides its errors says the second for any of them."""
_REFUSALS = 2
_ATTEMPTS = 5
_QUESTIONS = TypeAdapter(list[PendingApprovalMemo])


def is_part(*, wanted: bool) -> str:
    """Return the condition of a query for runs that capabilities have started, of which some do, or for all others."""
    prefixes = [one.prefix for one in run_starters()]
    if wanted:
        started = " OR ".join(f"ParentWorkflowId STARTS_WITH '{prefix}'" for prefix in prefixes)
        return f"({started})"
    others = " AND ".join(f"ParentWorkflowId NOT STARTS_WITH '{prefix}'" for prefix in prefixes)
    return f"(ParentWorkflowId IS NULL OR {others})"


@dataclass(frozen=True)
class ListPart:
    """A part of the list."""

    found: Sequence[WorkflowExecutionInfo]
    token: bytes
    """Token with which this part was asked for; empty for the first part."""
    following: bytes
    """Token of the next part; empty: there is none."""


async def read_part(
    client: Client, query: str, *, token: bytes = b"", size: int = ANSWERED_RUNS, retry: bool = True
) -> ListPart:
    """Return a part of the list, of so many workflows at most; `retry`: the SDK may ask again. Raises RPCError."""
    asked = ListWorkflowExecutionsRequest(
        namespace=client.namespace, page_size=size, next_page_token=token, query=query
    )
    answer = await client.workflow_service.list_workflow_executions(asked, retry=retry)
    return ListPart(answer.executions, token, answer.next_page_token)


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
            return await read_part(client, query, token=token, size=size, retry=False)
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


@dataclass(frozen=True)
class RunListing:
    """Facts about a run that are known without its history."""

    begun: RunMemo
    """Worker of the run, and the person who started it; empty where nothing tells."""
    pending: tuple[PendingApprovalMemo, ...]
    """Questions that wait for a person, as far as the memo has room for them and can be read."""
    waiting: int | None
    """Number of questions that wait; None where nothing tells."""
    missing_key: str = ""
    """The id of the encryption key without which the memo cannot be read."""


async def read_memo(info: WorkflowExecutionInfo, converter: DataConverter) -> RunListing:
    """Return the facts in the memo. Raises KeyMismatch."""
    begun = await read_begun(info, converter)
    # A list has thousands of them: what nobody asks for is not decrypted.
    value = await read_field(info, PENDING_MEMO, converter) if _is_open(info) else None
    pending = pending_from_memo(value)
    return RunListing(begun, tuple(pending), len(pending))


async def read_begun(info: WorkflowExecutionInfo, converter: DataConverter) -> RunMemo:
    """Return the facts about the run in its memo, and nothing of its questions. Raises KeyMismatch."""
    return read_message(RunMemo, await read_field(info, RUN_MEMO, converter)) or RunMemo(worker="")


async def read_listing(info: WorkflowExecutionInfo, converter: DataConverter) -> RunListing:
    """Return the facts in the memo; where its key is missing, those in the search attributes."""
    try:
        return await read_memo(info, converter)
    except KeyMismatch as error:
        waiting = attribute_of(info, PENDING_ATTRIBUTE) if _is_open(info) else 0
        begun = RunMemo(worker=attribute_of(info, WORKER_ATTRIBUTE) or "")
        return RunListing(begun, (), waiting, missing_key=error.key)


class KnownMemos:
    """Memos that were read before: of a long list that changes little, only what is new is decrypted."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, RunListing]] = {}

    async def read(self, info: WorkflowExecutionInfo, converter: DataConverter) -> RunListing:
        """Return the facts in the memo of an open run, as `read_listing` does."""
        memo, run_id = info.memo.SerializeToString(deterministic=True), info.execution.run_id
        before = self._known.get(run_id)
        if before is not None and before[0] == memo:
            return before[1]
        listed = await read_listing(info, converter)
        if not listed.missing_key:  # the key may be there the next time
            self._known[run_id] = memo, listed
        return listed

    def keep(self, run_ids: Container[str]) -> None:
        """Forget the memos of all other executions."""
        self._known = {run_id: known for run_id, known in self._known.items() if run_id in run_ids}


async def read_field(info: WorkflowExecutionInfo, name: str, converter: DataConverter) -> Any:
    """Return the value of a field of the memo; None where it has no such field. Raises KeyMismatch."""
    if name not in info.memo.fields:
        return None
    payload, codec = info.memo.fields[name], converter.payload_codec
    # The SDK's way to the same value takes four times as long.
    if codec is None and payload.metadata.get("encoding") == b"json/plain" and not is_kept_outside(payload):
        return decode_json(payload)
    if not is_kept_outside(payload) and isinstance(codec, EncryptionCodec):
        return decode_json(codec.opened(payload))
    if codec is None and is_encrypted(payload):
        # A connection of somebody else's making, which has no keys but those of this environment.
        return decode_json(EncryptionCodec(ring_of(converter)).opened(payload))
    return (await converter.decode([payload]))[0]


def started_at(info: WorkflowExecutionInfo, listed: RunListing) -> datetime:
    """Return the start of the run: that of its first execution, where it was continued as new."""
    return listed.begun.started_at or info.start_time.ToDatetime(UTC)


def ended_at(info: WorkflowExecutionInfo) -> datetime | None:
    """Return the end of the run; None: it is open."""
    return info.close_time.ToDatetime(UTC) if info.HasField("close_time") else None


def asked_in_all(info: WorkflowExecutionInfo, listed: RunListing) -> int:
    """Return the number of questions that an open run asks, those that its memo has no room for included."""
    return max(attribute_of(info, PENDING_ATTRIBUTE) or 0, len(listed.pending))


def _is_open(info: WorkflowExecutionInfo) -> bool:
    return info.status == WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING


def pending_from_memo(value: Any) -> list[PendingApprovalMemo]:
    """Return the questions in the desk's memo; empty where it cannot be read."""
    try:
        return _QUESTIONS.validate_python(value or [])
    except ValidationError:
        return []
