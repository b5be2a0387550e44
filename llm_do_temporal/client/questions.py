"""What waits for a person, read from a run's history: with the whole call, and with no worker service running.

The desk gives out ids in the order in which questions reach it, and tells each invocation its answer. Both are
events of the run's history, so the questions without an answer can be read there, however many there are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.big_payloads import is_kept_outside
from llm_do_temporal.client.connecting import out_of_reach
from llm_do_temporal.client.payloads import first_object
from llm_do_temporal.messages import (
    DELIVER_DECISION_SIGNAL,
    REQUEST_APPROVAL_SIGNAL,
    WITHDRAW_APPROVALS_SIGNAL,
    DeliverDecisionInput,
    RequestApprovalInput,
    WithdrawApprovalsInput,
)

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class PendingApproval:
    """A question that waits for a person, with the whole call."""

    id: str
    run: str
    request: RequestApprovalInput
    asked_at: datetime
    deadline: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        """The object `approvals --json` prints."""
        request = self.request
        return {
            "id": self.id,
            "run": self.run,
            "worker": request.worker,
            "path": request.path,
            "tool": request.tool,
            "args": request.args,
            "capabilities": [{"name": use.name, "payload": use.payload} for use in request.capabilities],
            "summary": request.summary,
            "diff": request.diff,
            "asked_at": self.asked_at.isoformat(),
            "deadline": self.deadline.isoformat() if self.deadline else None,
        }


async def read_pending(client: Client, run: str, events: AsyncIterator[HistoryEvent]) -> list[PendingApproval]:
    """The questions of a run that have no answer yet, oldest first. Raises UsageError where one is kept elsewhere."""
    open_: dict[tuple[str, str], PendingApproval] = {}
    asked = 0
    async for event in events:
        if event.HasField("workflow_execution_started_event_attributes"):
            asked = _asked_before(event)
        signal = event.workflow_execution_signaled_event_attributes
        told = event.signal_external_workflow_execution_initiated_event_attributes
        if signal.signal_name == REQUEST_APPROVAL_SIGNAL:
            request = await _decode(client, signal.input, RequestApprovalInput)
            if request is None:
                continue  # the desk dropped it too, and gave it no id
            asked += 1
            at = event.event_time.ToDatetime(UTC)
            open_[request.invocation, request.key] = PendingApproval(f"a{asked}", run, request, at)
        elif signal.signal_name == WITHDRAW_APPROVALS_SIGNAL:
            withdrawn = await _decode(client, signal.input, WithdrawApprovalsInput)
            if withdrawn is not None:
                open_ = {key: one for key, one in open_.items() if not withdrawn.covers(*key)}
        elif told.signal_name == DELIVER_DECISION_SIGNAL:
            delivery = await _decode(client, told.input, DeliverDecisionInput)
            if delivery is not None:
                open_.pop((told.workflow_execution.workflow_id, delivery.key), None)
    return list(open_.values())


def _asked_before(started: HistoryEvent) -> int:
    """How many questions were settled before a batch was continued as new."""
    found: Any = first_object(started.workflow_execution_started_event_attributes.input.payloads)
    for name in ("batch", "continued", "desk", "earlier"):
        found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    return found if isinstance(found, int) else 0


async def _decode(client: Client, payloads: Payloads, kind: type[M]) -> M | None:
    """The one message a signal carries, or None where the desk would ignore it too. Raises UsageError."""
    if len(payloads.payloads) != 1:
        return None
    if is_kept_outside(payloads.payloads[0]):
        raise out_of_reach()
    try:
        (decoded,) = await client.data_converter.decode(payloads.payloads, [kind])
    except (ValidationError, ValueError, RuntimeError):
        return None
    return cast("M", decoded)
