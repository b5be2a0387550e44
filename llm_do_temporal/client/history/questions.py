"""Questions of a run to people, and their answers, read from the run's history: with no worker service running.

The desk gives out ids in the order in which questions reach it, and tells each invocation who has agreed and what
was decided. All of that is events of the run's history, so it can be read there, however much there is. The rules are
those of `desk`, which the run's workflow follows too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.client.connection.connect import out_of_reach
from llm_do_temporal.client.history.events import ENDS
from llm_do_temporal.client.history.payloads import first_object
from llm_do_temporal.desk import state as desk
from llm_do_temporal.desk.votes import agreed_to
from llm_do_temporal.messages.approvals import (
    Approval,
    DeliverDecisionInput,
    DeliverVotesInput,
    DeskState,
    Grant,
    RequestApprovalInput,
    RevokeGrantInput,
    Verdict,
    WithdrawApprovalsInput,
)
from llm_do_temporal.messages.base import (
    DECIDE_SIGNAL,
    DELIVER_DECISION_SIGNAL,
    DELIVER_VOTES_SIGNAL,
    REQUEST_APPROVAL_SIGNAL,
    REVOKE_GRANT_SIGNAL,
    WITHDRAW_APPROVALS_SIGNAL,
)
from llm_do_temporal.storage.external_storage import is_kept_outside

M = TypeVar("M", bound=BaseModel)
_GRANTS = TypeAdapter(tuple[Grant, ...])
_SAME_TIME = timedelta(milliseconds=1)
"""Histories count in nanoseconds, verdicts in microseconds."""


@dataclass(frozen=True)
class Question:
    """A question that people were asked, with the whole call, and its answers."""

    id: str
    run: str
    request: RequestApprovalInput
    asked_at: datetime
    votes: tuple[Verdict, ...] = ()
    """Votes of those who have agreed where several must; the last has the arguments that are agreed to."""
    verdict: Verdict | None = None
    withdrawn: bool = False
    """Whether nobody needs an answer any more."""

    @classmethod
    def of(cls, approval: Approval, run: str) -> Question:
        """Return the question as the desk of this run keeps it."""
        return cls(
            id=approval.id,
            run=run,
            request=approval.request,
            asked_at=approval.asked_at,
            votes=approval.votes,
            verdict=approval.verdict,
            withdrawn=approval.withdrawn,
        )

    @property
    def is_open(self) -> bool:
        """Whether it waits for a person."""
        return self.verdict is None and not self.withdrawn

    @property
    def deadline(self) -> datetime | None:
        """Time at which it is decided without a person; None: never."""
        return self.request.deadline

    @property
    def args(self) -> dict[str, Any]:
        """The arguments that an approval would agree to now: those asked about, or their replacement."""
        return agreed_to(self)

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
            "digest": request.digest or None,
            "asked_at": self.asked_at.isoformat(),
            "deadline": self.deadline.isoformat() if self.deadline else None,
            "approvers": list(request.approvers),
            "quorum": request.quorum,
            "votes": [vote.model_dump(mode="json") for vote in self.votes],
            "verdict": self.verdict.model_dump(mode="json") if self.verdict else None,
            "withdrawn": self.withdrawn,
        }


@dataclass(frozen=True)
class DeskRecord:
    """A run's desk as far as the run's history tells it."""

    questions: list[Question]
    """Questions in the order of their ids."""
    grants: list[Grant]
    """Remembered decisions that are in force."""


async def read_desk(client: Client, run: str, events: AsyncIterator[HistoryEvent]) -> DeskRecord:
    """Return what the events tell of the run's desk. Raises UsageError where a value is kept elsewhere."""
    reader = _Reader(client)
    async for event in events:
        await reader.take(event)
    state = reader.state
    return DeskRecord([Question.of(one, run) for one in (*reader.archive, *state.approvals)], list(state.grants))


@dataclass(frozen=True)
class _Revocation:
    after_decision: bool
    """Whether a decision about the approval had been signalled before."""
    at: datetime | None = None
    """Time at which the desk saw to it; None: it has yet to."""


class _Reader:
    """Follows a desk by the desk's own steps, one event of the run's history after the other.

    Judges nothing again: answers are taken from what the desk has told the invocations. The desk tells them later
    than it takes a revocation, so a grant is held against all revocations at the end.
    """

    def __init__(self, client: Client) -> None:
        self.archive: tuple[Approval, ...] = ()
        """Questions from before the run was continued as new."""
        self._state = DeskState()
        """The desk, with grants that were taken back since."""
        self._client = client
        self._revoked: dict[str, _Revocation] = {}
        """Last revocation of each approval's grant."""
        self._decided: set[Any] = set()
        """Approvals about which a decision was signalled; None for a decision that named none."""
        self._task_began = datetime.min.replace(tzinfo=UTC)

    @property
    def state(self) -> DeskState:
        """The desk now, with the grants in force."""
        state = self._state
        for grant in self._state.grants:
            if self._is_revoked(grant):
                state = desk.with_revocation(state, RevokeGrantInput(id=grant.approval))
        return state

    def _is_revoked(self, grant: Grant) -> bool:
        """Return whether the grant was taken back; a revocation from before there was a grant is not about it."""
        revoked = self._revoked.get(grant.approval)
        if revoked is None:
            return False
        if revoked.at is None or revoked.at > grant.verdict.at + _SAME_TIME:
            return True
        # Of what one task of the desk sees to, signals come first, in their order, and updates after them.
        is_same_task = revoked.at + _SAME_TIME >= grant.verdict.at
        return is_same_task and grant.verdict.door == "signal" and revoked.after_decision

    async def take(self, event: HistoryEvent) -> None:
        """Take in the next event. Raises UsageError."""
        at = event.event_time.ToDatetime(UTC)
        if event.HasField("workflow_execution_started_event_attributes"):
            self._begin(event)
        elif event.HasField("workflow_task_started_event_attributes"):
            self._task_began = at
        elif event.HasField("workflow_task_completed_event_attributes"):
            for approval, revoked in self._revoked.items():
                self._revoked[approval] = replace(revoked, at=revoked.at or self._task_began)
        elif event.HasField("workflow_execution_signaled_event_attributes"):
            signal = event.workflow_execution_signaled_event_attributes
            await self._take_signal(signal.signal_name, signal.input, at)
        elif event.HasField("signal_external_workflow_execution_initiated_event_attributes"):
            signal = event.signal_external_workflow_execution_initiated_event_attributes
            await self._take_delivery(signal.signal_name, signal.input)
        elif event.event_type in ENDS:
            self._state = desk.with_all_withdrawn(self._state)

    def _begin(self, event: HistoryEvent) -> None:
        """Take over what a batch had settled before it was continued as new."""
        started = event.workflow_execution_started_event_attributes
        if not started.continued_execution_run_id:
            return
        if any(is_kept_outside(payload) for payload in started.input.payloads):
            raise out_of_reach()
        value: Any = first_object(started.input.payloads)
        for name in ("batch", "continued", "desk"):
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
        settled = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        grants = _GRANTS.validate_python(settled.get("grants") or [])
        self.archive += self._state.approvals
        self._state = DeskState(earlier=int(settled.get("earlier") or 0), grants=grants)
        self._revoked = {}

    async def _take_signal(self, name: str, payloads: Payloads, at: datetime) -> None:
        """Follow the desk: a signal that it drops is dropped here, too, and a question dropped has no id."""
        if name == REQUEST_APPROVAL_SIGNAL:
            request = await _decode(self._client, payloads, RequestApprovalInput)
            if request is not None:
                self._state, _ = desk.with_question(self._state, request, now=at)
        elif name == WITHDRAW_APPROVALS_SIGNAL:
            withdrawal = await _decode(self._client, payloads, WithdrawApprovalsInput)
            if withdrawal is not None:
                self._state = desk.with_withdrawal(self._state, withdrawal)
        elif name == REVOKE_GRANT_SIGNAL:
            revocation = await _decode(self._client, payloads, RevokeGrantInput)
            if revocation is not None:
                is_decided = bool(self._decided & {revocation.id, None})
                self._revoked[revocation.id] = _Revocation(after_decision=is_decided)
        elif name == DECIDE_SIGNAL:
            approval = first_object(payloads.payloads).get("id")
            self._decided |= {approval} if approval is None or isinstance(approval, str) else set()

    async def _take_delivery(self, name: str, payloads: Payloads) -> None:
        """Follow the desk in what it has told an invocation."""
        if name == DELIVER_VOTES_SIGNAL:
            delivery = await _decode(self._client, payloads, DeliverVotesInput)
            changes: dict[str, Any] = {} if delivery is None else {"votes": delivery.votes}
        elif name == DELIVER_DECISION_SIGNAL:
            delivery = await _decode(self._client, payloads, DeliverDecisionInput)
            # Withdrawn after it was decided, and before the desk told so.
            changes = {} if delivery is None else {"votes": delivery.votes, "verdict": delivery.verdict}
            changes["withdrawn"] = False
        else:
            return
        approval = None if delivery is None else desk.question(self._state, delivery.id)
        if approval is not None:
            self._state = desk.with_answer(self._state, approval.model_copy(update=changes))


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
