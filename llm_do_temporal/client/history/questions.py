"""What a run asked people, and what they answered, read from its history: with no worker service running.

The desk gives out ids in the order in which questions reach it, and tells each invocation who has agreed and what
was decided. All of that is events of the run's history, so it can be read there, however much there is.
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
from llm_do_temporal.messages.approvals import (
    DeliverDecisionInput,
    DeliverVotesInput,
    Grant,
    Remember,
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
    """One thing that a person was asked, with the whole call, and what came of it."""

    id: str
    run: str
    request: RequestApprovalInput
    asked_at: datetime
    votes: tuple[Verdict, ...] = ()
    """Who has agreed where several must; the last of them has the arguments that are agreed to."""
    verdict: Verdict | None = None
    withdrawn: bool = False
    """Whether nobody needs an answer any more."""

    @property
    def is_open(self) -> bool:
        """Whether it waits for a person."""
        return self.verdict is None and not self.withdrawn

    @property
    def deadline(self) -> datetime | None:
        """When it is decided without a person; None: never."""
        return self.request.deadline

    @property
    def args(self) -> dict[str, Any]:
        """The arguments that an approval would agree to now: those asked about, or their replacement."""
        return self.votes[-1].args if self.votes else self.request.args

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
    """All that a run's history tells of its desk."""

    questions: list[Question]
    """In the order of their ids."""
    grants: list[Grant]
    """Remembered decisions that are in force."""


async def read_desk(client: Client, run: str, events: AsyncIterator[HistoryEvent]) -> DeskRecord:
    """What the events tell of the run's desk. Raises UsageError where a value is kept elsewhere."""
    reader = _Reader(client, run)
    async for event in events:
        await reader.take(event)
    return DeskRecord(list(reader.questions.values()), reader.grants_in_force)


@dataclass(frozen=True)
class _Revocation:
    after_decision: bool
    """Whether a decision about the approval had been signalled before."""
    at: datetime | None = None
    """When the desk saw to it; None: it has yet to."""


class _Reader:
    """Takes in one event of a run's history after the other."""

    def __init__(self, client: Client, run: str) -> None:
        self.questions: dict[str, Question] = {}
        self._client = client
        self._run = run
        self._asked = 0
        self._grants: dict[str, Grant] = {}
        self._revoked: dict[str, _Revocation] = {}
        """By the approval whose grant was taken back."""
        self._decided: set[Any] = set()
        """Approvals about which a decision was signalled; None for one that did not say."""
        self._task_began = datetime.min.replace(tzinfo=UTC)

    @property
    def grants_in_force(self) -> list[Grant]:
        """The grants that nobody has taken back; what was said before there was a grant is not about it."""
        return [grant for grant in self._grants.values() if not self._is_revoked(grant)]

    def _is_revoked(self, grant: Grant) -> bool:
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
            await self._signaled(signal.signal_name, signal.input, at)
        elif event.HasField("signal_external_workflow_execution_initiated_event_attributes"):
            told = event.signal_external_workflow_execution_initiated_event_attributes
            await self._told(told.signal_name, told.input)
        elif event.event_type in ENDS:
            self._withdraw(list(self.questions.values()))

    def _begin(self, event: HistoryEvent) -> None:
        """Take over what a batch had settled before it was continued as new."""
        started = event.workflow_execution_started_event_attributes
        if not started.continued_execution_run_id:
            return
        if any(is_kept_outside(payload) for payload in started.input.payloads):
            raise out_of_reach()
        found: Any = first_object(started.input.payloads)
        for name in ("batch", "continued", "desk"):
            found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
        desk = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        self._asked = int(desk.get("earlier") or 0)
        self._grants = {grant.approval: grant for grant in _GRANTS.validate_python(desk.get("grants") or [])}
        self._revoked = {}

    async def _signaled(self, name: str, payloads: Payloads, at: datetime) -> None:
        """Follow the desk: what it drops is dropped here, too, and a question dropped has no id."""
        if name == REQUEST_APPROVAL_SIGNAL:
            request = await _decode(self._client, payloads, RequestApprovalInput)
            if request is not None:
                self._asked += 1
                question = Question(f"a{self._asked}", self._run, request, at)
                self.questions[question.id] = question
        elif name == WITHDRAW_APPROVALS_SIGNAL:
            gone = await _decode(self._client, payloads, WithdrawApprovalsInput)
            if gone is not None:
                requests = self.questions.values()
                self._withdraw([one for one in requests if gone.covers(one.request.invocation, one.request.key)])
        elif name == REVOKE_GRANT_SIGNAL:
            revoked = await _decode(self._client, payloads, RevokeGrantInput)
            if revoked is not None:
                decided = bool(self._decided & {revoked.id, None})
                self._revoked[revoked.id] = _Revocation(after_decision=decided)
        elif name == DECIDE_SIGNAL:
            approval = first_object(payloads.payloads).get("id")
            self._decided |= {approval} if approval is None or isinstance(approval, str) else set()

    def _withdraw(self, questions: list[Question]) -> None:
        self.questions |= {one.id: replace(one, withdrawn=True) for one in questions if one.is_open}

    async def _told(self, name: str, payloads: Payloads) -> None:
        """What the desk has told an invocation."""
        if name == DELIVER_VOTES_SIGNAL:
            agreed = await _decode(self._client, payloads, DeliverVotesInput)
            if agreed is not None and agreed.id in self.questions:
                self.questions[agreed.id] = replace(self.questions[agreed.id], votes=agreed.votes)
        elif name == DELIVER_DECISION_SIGNAL:
            delivery = await _decode(self._client, payloads, DeliverDecisionInput)
            if delivery is not None and delivery.id in self.questions:
                decided = replace(
                    self.questions[delivery.id], verdict=delivery.verdict, votes=delivery.votes, withdrawn=False
                )
                self.questions[delivery.id] = decided
                self._remember(decided, delivery.verdict)

    def _remember(self, decided: Question, verdict: Verdict) -> None:
        # What a grant answered makes no grant of its own.
        if verdict.remember is Remember.SESSION and verdict.door != "grant":
            self._grants[decided.id] = Grant.of(decided.id, decided.request, verdict)


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
