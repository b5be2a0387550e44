"""A server's list of open runs with encrypted memos, without a server."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest, ListWorkflowExecutionsResponse
from temporalio.client import WorkflowExecution, WorkflowExecutionCount
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, encode_search_attributes
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import Key, KeyRing
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, PENDING_MEMO, RUN_MEMO, WORKER_ATTRIBUTE
from llm_do_temporal.messages.runs import PendingApprovalMemo, RunMemo

KEY = Key("first", bytes(32))
"""Key of the memos that can be read."""
_OTHER = Key("other", bytes([1]) * 32)
_PENDING = SearchAttributeKey.for_int(PENDING_ATTRIBUTE)
_WORKER = SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)


@dataclass
class ListServer:
    """A server that lists the open runs of a test, with encrypted memos, and the keys of whoever asks it."""

    keys: list[Key] = field(default_factory=lambda: [KEY])
    executions: dict[str, WorkflowExecutionInfo] = field(default_factory=dict[str, WorkflowExecutionInfo])
    opened: list[str] = field(default_factory=list[str])
    """Search for a key, once for each value that is decrypted."""
    page_sizes: list[int] = field(default_factory=list[int])
    """Sizes of the pages in which lists were asked for."""
    counted: int = 0
    knows_no_attributes: bool = False
    """Whether its namespace does not know our search attributes."""
    described: list[str] = field(default_factory=list[str])
    namespace: str = "default"

    def __post_init__(self) -> None:
        self._writer = encrypting(pydantic_data_converter, KeyRing.of(KEY))
        self._other_writer = encrypting(pydantic_data_converter, KeyRing.of(_OTHER))
        self.data_converter: DataConverter = encrypting(pydantic_data_converter, KeyRing(self._ring))
        self.opened.clear()

    def _ring(self) -> tuple[Key, ...]:
        self.opened.append("a value")
        return tuple(self.keys)

    async def put(
        self,
        run: str,
        pending: Sequence[PendingApprovalMemo],
        *,
        began: datetime | None = None,
        has_attributes: bool = True,
        is_readable: bool = True,
    ) -> None:
        """Put an open run of the worker `boss` into the list, with these questions in its memo.

        It began with its first question, unless said. One that is not readable has a key of its own.
        """
        writer = self._writer if is_readable else self._other_writer
        info = self.executions.setdefault(run, WorkflowExecutionInfo())
        info.execution.workflow_id, info.execution.run_id = run, info.execution.run_id or str(uuid.uuid4())
        info.status = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
        info.start_time.FromDatetime(began or pending[0].asked_at)
        attributes = TypedSearchAttributes(
            [SearchAttributePair(_PENDING, len(pending)), SearchAttributePair(_WORKER, "boss")]
        )
        if has_attributes:
            encode_search_attributes(attributes, info.search_attributes)
        for name, value in {RUN_MEMO: RunMemo(worker="boss"), PENDING_MEMO: list(pending)}.items():
            if name != RUN_MEMO or name not in info.memo.fields:
                info.memo.fields[name].CopyFrom((await writer.encode([value]))[0])

    @property
    def workflow_service(self) -> ListServer:
        return self

    async def list_workflow_executions(
        self, request: ListWorkflowExecutionsRequest, *, retry: bool
    ) -> ListWorkflowExecutionsResponse:
        """See WorkflowService. A token is the number of runs before the part."""
        assert retry
        self.page_sizes.append(request.page_size)
        found, first = self._found(request.query), int(request.next_page_token or 0)
        end = first + request.page_size
        following = str(end).encode() if end < len(found) else b""
        return ListWorkflowExecutionsResponse(executions=found[first:end], next_page_token=following)

    async def count_workflows(self, query: str) -> WorkflowExecutionCount:
        if self.knows_no_attributes and PENDING_ATTRIBUTE in query:
            message = f"Namespace default has no mapping defined for search attribute {PENDING_ATTRIBUTE}"
            raise RPCError(message, RPCStatusCode.INVALID_ARGUMENT, b"")
        self.counted += 1
        return WorkflowExecutionCount(len(self._found(query)), [])

    def _found(self, query: str) -> list[WorkflowExecutionInfo]:
        """What the server finds, newest first, as far as it understands queries."""
        found = [info for info in self.executions.values() if _is_asked_for(info, query)]
        for sign, time in re.findall(r"StartTime (<=|>) '(.+?)'", query):
            moment = Timestamp()
            moment.FromDatetime(datetime.fromisoformat(time))
            bound = moment.ToNanoseconds()
            found = [info for info in found if (info.start_time.ToNanoseconds() <= bound) is (sign == "<=")]
        if run := re.search(r"WorkflowId = '(.+?)'", query):
            found = [info for info in found if info.execution.workflow_id == run[1]]
        return sorted(found, key=lambda info: info.start_time.ToNanoseconds(), reverse=True)

    def _listed(self, info: WorkflowExecutionInfo) -> WorkflowExecution:
        return WorkflowExecution._from_raw_info(info, "default", self.data_converter)  # pyright: ignore[reportPrivateUsage]

    def get_workflow_handle(self, run: str) -> Any:
        server = self

        class Handle:
            async def describe(self) -> WorkflowExecution:
                server.described.append(run)
                return server._listed(server.executions[run])

        return Handle()


def _is_asked_for(info: WorkflowExecutionInfo, query: str) -> bool:
    is_open = info.status == WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
    if "ExecutionStatus = 'Running'" in query and not is_open:
        return False
    # A run that has no such attribute may wait.
    has_pending = PENDING_ATTRIBUTE in info.search_attributes.indexed_fields
    return PENDING_ATTRIBUTE not in query or not has_pending or _pending(info) > 0


def _pending(info: WorkflowExecutionInfo) -> int:
    return int(info.search_attributes.indexed_fields[PENDING_ATTRIBUTE].data)
