"""A server's list of runs in pages, without a server: open runs first, then those that ended last."""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import WorkflowExecutionStatus as Status
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest, ListWorkflowExecutionsResponse
from temporalio.client import WorkflowExecutionCount, WorkflowExecutionCountAggregationGroup
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.views.server_list import is_part
from llm_do_temporal.extension import run_starters
from llm_do_temporal.messages.base import RUN_MEMO
from llm_do_temporal.messages.runs import RunMemo

STATUSES = {
    "Running": Status.WORKFLOW_EXECUTION_STATUS_RUNNING,
    "Completed": Status.WORKFLOW_EXECUTION_STATUS_COMPLETED,
    "Failed": Status.WORKFLOW_EXECUTION_STATUS_FAILED,
    "Canceled": Status.WORKFLOW_EXECUTION_STATUS_CANCELED,
    "TimedOut": Status.WORKFLOW_EXECUTION_STATUS_TIMED_OUT,
}
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass
class RunServer:
    """A server that lists the runs of a test, as far as it understands queries."""

    runs: list[WorkflowExecutionInfo] = field(default_factory=list[WorkflowExecutionInfo])
    data_converter: DataConverter = pydantic_data_converter
    queries: list[str] = field(default_factory=list[str])
    namespace: str = "default"
    refuses_with: RPCStatusCode = RPCStatusCode.UNKNOWN
    """Status with which a token that is none is refused."""
    hiccups: deque[RPCStatusCode] = field(default_factory=deque[RPCStatusCode])
    """Failures of the next answers that the SDK is not to ask for again."""

    async def put(
        self,
        run: str,
        status: str,
        memo: RunMemo,
        *,
        began: datetime,
        ended: datetime | None = None,
        parent: str = "",
    ) -> None:
        """Put a run into the list; `parent` is the id of the workflow that started it, if one did."""
        info = WorkflowExecutionInfo(status=STATUSES[status])
        info.execution.workflow_id, info.execution.run_id = run, f"{run}-1"
        info.start_time.FromDatetime(began)
        info.parent_execution.workflow_id = parent
        if ended is not None:
            info.close_time.FromDatetime(ended)
        payload: Payload = (await self.data_converter.encode([memo]))[0]
        info.memo.fields[RUN_MEMO].CopyFrom(payload)
        self.runs.append(info)

    @property
    def workflow_service(self) -> RunServer:
        return self

    async def list_workflow_executions(
        self, request: ListWorkflowExecutionsRequest, *, retry: bool
    ) -> ListWorkflowExecutionsResponse:
        """See WorkflowService. A token is the number of runs before the part, and any other is refused."""
        token = request.next_page_token
        assert retry or token
        self.queries.append(request.query)
        is_hiccup = bool(self.hiccups) and not retry
        if is_hiccup or (token and not token.isdigit()):
            assert not retry, "the SDK would ask again for ten seconds"
            status = self.hiccups.popleft() if is_hiccup else self.refuses_with
            raise RPCError("something went wrong, please retry (6fa7df64)", status, b"")
        found, first = self._found(request.query), int(token or 0)
        end = first + request.page_size
        following = str(end).encode() if end < len(found) else b""
        return ListWorkflowExecutionsResponse(executions=found[first:end], next_page_token=following)

    async def count_workflows(self, query: str) -> WorkflowExecutionCount:
        """See Client; counts by status."""
        names = {number: name for name, number in STATUSES.items()}
        counted = Counter(names[info.status] for info in self._found(query))
        groups = [WorkflowExecutionCountAggregationGroup(count, [name]) for name, count in counted.items()]
        return WorkflowExecutionCount(sum(counted.values()), groups)

    def _found(self, query: str) -> list[WorkflowExecutionInfo]:
        found = self.runs
        for sign, name in re.findall(r"ExecutionStatus (=|!=) '(\w+)'", query):
            number = STATUSES.get(name)
            found = [info for info in found if (info.status == number) is (sign == "=")]
        for wanted in (False, True):
            if run_starters() and is_part(wanted=wanted) in query:
                found = [info for info in found if _is_part(info) is wanted]
        for which, sign, time in re.findall(r"(StartTime|CloseTime) (>=|<) '(.+?)'", query):
            bound = datetime.fromisoformat(time)
            found = [info for info in found if (_time(info, which) >= bound) is (sign == ">=")]
        return sorted(found, key=lambda info: (_time(info, "CloseTime"), _time(info, "StartTime")), reverse=True)


def _is_part(info: WorkflowExecutionInfo) -> bool:
    return info.parent_execution.workflow_id.startswith(tuple(one.prefix for one in run_starters()))


def _time(info: WorkflowExecutionInfo, which: str) -> datetime:
    if which == "StartTime":
        return info.start_time.ToDatetime(UTC)
    return info.close_time.ToDatetime(UTC) if info.HasField("close_time") else _NEVER
