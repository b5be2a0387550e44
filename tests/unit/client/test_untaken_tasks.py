"""Tasks that no worker service takes: a service that begins just now is not called missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, cast

import pytest
from temporalio.api.enums.v1 import PendingWorkflowTaskState
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    DescribeWorkflowExecutionResponse,
)

from llm_do_temporal.client.views import pending_work
from llm_do_temporal.client.views.pending_work import note_troubles
from llm_do_temporal.client.views.run_view import RunView


@dataclass
class WaitingServer:
    """A server with one run, whose task has waited for so many seconds; services have asked so many seconds ago."""

    waited: int
    asked: list[int] = field(default_factory=list[int])
    task_queue: str = "llm-do"
    run_id: str = "1"

    @property
    def raw_description(self) -> DescribeWorkflowExecutionResponse:
        """See WorkflowExecutionDescription."""
        description = DescribeWorkflowExecutionResponse()
        pending = description.pending_workflow_task
        pending.state = PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
        pending.scheduled_time.FromDatetime(datetime.now(UTC) - timedelta(seconds=self.waited))
        return description

    @property
    def workflow_service(self) -> WaitingServer:
        """See Client."""
        return self

    namespace = "default"

    def get_workflow_handle(self, _run: str) -> WaitingServer:
        """See Client."""
        return self

    async def describe(self) -> WaitingServer:
        """See WorkflowHandle."""
        return self

    async def describe_task_queue(self, _request: DescribeTaskQueueRequest) -> DescribeTaskQueueResponse:
        """See WorkflowService."""
        answer = DescribeTaskQueueResponse()
        for seconds in self.asked:
            poller = PollerInfo(identity=f"service {seconds}")
            poller.last_access_time.FromDatetime(datetime.now(UTC) - timedelta(seconds=seconds))
            answer.pollers.append(poller)
        return answer


NOBODY = "nobody has asked for work at the task queue 'llm-do' "


@pytest.mark.parametrize(
    ("server", "served", "told"),
    [
        # a service that is there has some time for a task
        (WaitingServer(15), None, ""),
        (WaitingServer(25), None, f"{NOBODY}for two minutes"),
        (WaitingServer(25, asked=[50]), None, ""),
        (WaitingServer(25, asked=[130]), None, f"{NOBODY}for two minutes"),
        # the service of an embedded server begins with it, and may take long on a busy machine
        (WaitingServer(25), 26, ""),
        # a run that waited since before the server was last stopped
        (WaitingServer(9_000), 1, ""),
        (WaitingServer(9_000), 75, f"{NOBODY}since the server began, 75 s ago; .llm-do/service.log may say why"),
        (WaitingServer(25), 9_000, f"{NOBODY}for two minutes"),
        # a run that has just begun
        (WaitingServer(5), 75, ""),
    ],
)
async def test_a_service_is_missed_once_it_had_time_to_begin(
    server: WaitingServer, served: int | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
            return now

    monkeypatch.setattr(pending_work, "datetime", Clock)  # seconds are told
    since = None if served is None else now - timedelta(seconds=served)
    view = RunView("run")
    troubles = await note_troubles(cast("Any", server), view, served_since=since)
    assert view.trouble == told
    assert [trouble.failure for _, trouble in troubles] == ([told] if told else [])
