"""Memos of runs as the server lists them, and search attributes in the open where a memo cannot be read here."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.converter import DataConverter

from llm_do_temporal.client.history.payloads import decode_json
from llm_do_temporal.encryption.codec import EncryptionCodec
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, PENDING_MEMO, RUN_MEMO, WORKER_ATTRIBUTE
from llm_do_temporal.messages.runs import PendingApprovalMemo, RunMemo
from llm_do_temporal.storage.external_storage import is_kept_outside

NEWEST_EXECUTION = "ExecutionStatus != 'ContinuedAsNew'"
"""Condition of a query with which a workflow that was continued as new is listed once."""
ANSWERED_RUNS = 1_000
"""Runs that the server lists in one answer at most."""
_PENDING_COUNT = SearchAttributeKey.for_int(PENDING_ATTRIBUTE)
_QUESTIONS = TypeAdapter(list[PendingApprovalMemo])
_WORKER = SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)


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


async def read_memo(execution: WorkflowExecution) -> RunListing:
    """Return the facts in the memo. Raises KeyMismatch."""
    # A list has thousands of them: what nobody asks for is not decrypted.
    names = (RUN_MEMO, PENDING_MEMO) if _is_open(execution) else (RUN_MEMO,)
    fields, converter = execution.raw_info.memo.fields, execution.data_converter
    memo = {name: await _value(fields[name], converter) for name in names if name in fields}
    pending = pending_from_memo(memo.get(PENDING_MEMO))
    return RunListing(run_from_memo(memo), tuple(pending), len(pending))


async def read_listing(execution: WorkflowExecution) -> RunListing:
    """Return the facts in the memo; where its key is missing, those in the search attributes."""
    try:
        return await read_memo(execution)
    except KeyMismatch as error:
        told = execution.typed_search_attributes
        waiting = told.get(_PENDING_COUNT) if _is_open(execution) else 0
        return RunListing(RunMemo(worker=told.get(_WORKER) or ""), (), waiting, missing_key=error.key)


class KnownMemos:
    """Memos that were read before: of a long list that changes little, only what is new is decrypted."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, RunListing]] = {}

    async def read(self, execution: WorkflowExecution) -> RunListing:
        """Return the facts in the memo of an open execution, as `read_listing` does."""
        memo = execution.raw_info.memo.SerializeToString(deterministic=True)
        before = self._known.get(execution.run_id)
        if before is not None and before[0] == memo:
            return before[1]
        listed = await read_listing(execution)
        if not listed.missing_key:  # the key may be there the next time
            self._known[execution.run_id] = memo, listed
        return listed

    def keep(self, run_ids: Container[str]) -> None:
        """Forget the memos of all other executions."""
        self._known = {run_id: known for run_id, known in self._known.items() if run_id in run_ids}


async def _value(payload: Payload, converter: DataConverter) -> Any:
    """Return the JSON value of the payload. Raises KeyMismatch."""
    codec = converter.payload_codec
    # The SDK's way to the same value takes four times as long.
    if codec is None and payload.metadata.get("encoding") == b"json/plain" and not is_kept_outside(payload):
        return decode_json(payload)
    if not is_kept_outside(payload) and isinstance(codec, EncryptionCodec):
        return decode_json(codec.opened(payload))
    return (await converter.decode([payload]))[0]


def started_at(execution: WorkflowExecution, listed: RunListing) -> datetime:
    """Return the start of the run: that of its first execution, where it was continued as new."""
    return listed.begun.started_at or execution.start_time


def asked_in_all(execution: WorkflowExecution, listed: RunListing) -> int:
    """Return the number of questions that an open run asks, those that its memo has no room for included."""
    return max(execution.typed_search_attributes.get(_PENDING_COUNT) or 0, len(listed.pending))


def _is_open(execution: WorkflowExecution) -> bool:
    return execution.status is WorkflowExecutionStatus.RUNNING


def pending_from_memo(value: Any) -> list[PendingApprovalMemo]:
    """Return the questions in the desk's memo; empty where it cannot be read."""
    try:
        return _QUESTIONS.validate_python(value or [])
    except ValidationError:
        return []


def run_from_memo(memo: Mapping[str, Any]) -> RunMemo:
    """Return the run's facts in the memo; with an empty worker where it cannot be read."""
    try:
        return RunMemo.model_validate(memo.get(RUN_MEMO) or {"worker": ""})
    except ValidationError:
        return RunMemo(worker="")
