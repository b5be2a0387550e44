"""Memos of runs as the server lists them, and search attributes in the open where a memo cannot be read here."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.converter import DataConverter

from llm_do_temporal.client.history.payloads import decode_json
from llm_do_temporal.client.views.server_list import attribute_of
from llm_do_temporal.encryption.codec import EncryptionCodec, is_encrypted, ring_of
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, PENDING_MEMO, RUN_MEMO, WORKER_ATTRIBUTE
from llm_do_temporal.messages.runs import PendingApprovalMemo, RunMemo
from llm_do_temporal.storage.external_storage import is_kept_outside

_QUESTIONS = TypeAdapter(list[PendingApprovalMemo])


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
    return run_from_memo({RUN_MEMO: await read_field(info, RUN_MEMO, converter)})


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
    fields = info.memo.fields
    return await _value(fields[name], converter) if name in fields else None


async def _value(payload: Payload, converter: DataConverter) -> Any:
    """Return the JSON value of the payload. Raises KeyMismatch."""
    codec = converter.payload_codec
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


def run_from_memo(memo: Mapping[str, Any]) -> RunMemo:
    """Return the run's facts in the memo; with an empty worker where it cannot be read."""
    try:
        return RunMemo.model_validate(memo.get(RUN_MEMO) or {"worker": ""})
    except ValidationError:
        return RunMemo(worker="")
