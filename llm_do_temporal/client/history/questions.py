"""Questions of a run to people, and their answers, read from the run's history: with no worker service running.

The desk gives out ids in the order in which questions reach it, and tells each invocation who has agreed and what
was decided. To and from the workflows of other invocations that are signals; the entry invocation and the desk are in
one workflow, where the result of the local activity `record_at_desk` has the news. The rules are those of `desk`, which
the run's workflow follows too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from temporalio.api.history.v1 import (
    HistoryEvent,
    SignalExternalWorkflowExecutionInitiatedEventAttributes,
    WorkflowExecutionSignaledEventAttributes,
)

from llm_do_temporal.client.connections import out_of_reach
from llm_do_temporal.client.history.events import (
    ENDS,
    as_object,
    decode_json,
    first_object,
    local_effect,
    read_message,
    read_start,
)
from llm_do_temporal.desk import state as desk
from llm_do_temporal.desk.grants import with_revocation
from llm_do_temporal.desk.votes import agreed_to
from llm_do_temporal.messages.activities import LOAD_RUN, NOTIFY, READ_INPUTS, RECORD_AT_DESK, HeldNews
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
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.storage.external_storage import is_kept_outside

NewsKind = Literal["asked", "withdrawn", "decided", "voted", "held", "ignored"]
"""Kinds of news: the fields of the message DeskRecord."""
DESK_ACTIVITIES = frozenset({LOAD_RUN.name, READ_INPUTS.name, NOTIFY.name, RECORD_AT_DESK.name})
"""Activities of a run itself, which are no effects of its entry invocation."""
_TO_DESK: Mapping[str, NewsKind] = {REQUEST_APPROVAL_SIGNAL: "asked", WITHDRAW_APPROVALS_SIGNAL: "withdrawn"}
_FROM_DESK: Mapping[str, NewsKind] = {DELIVER_DECISION_SIGNAL: "decided", DELIVER_VOTES_SIGNAL: "voted"}
_OF_DESK: tuple[NewsKind, ...] = ("held", "ignored")
"""News that the desk tells no invocation: of decisions that have not taken effect, and of signals that it ignored."""
_KINDS: tuple[NewsKind, ...] = ("asked", "withdrawn", "decided", "voted", *_OF_DESK)
_SAME_TIME = timedelta(milliseconds=1)
"""Histories count in nanoseconds, verdicts in microseconds."""


@dataclass(frozen=True)
class DeskNews:
    """News as one event tells it."""

    kind: NewsKind
    value: Any
    """The message, as JSON: RequestApprovalInput, WithdrawApprovalsInput, DeliverDecisionInput, DeliverVotesInput,
    HeldNews or IgnoredDecision."""
    is_outside: bool = False
    """Whether the message is kept outside of the history, and not at hand."""

    @property
    def message(self) -> dict[str, Any]:
        """The message; empty where it is none, or cannot be read here."""
        return as_object(self.value)


def news_at_desk(event: HistoryEvent) -> DeskNews | None:
    """Return the news that this event of a run's history brings to the desk, or has from it; None for other events.

    A record that is kept outside and not at hand may be any news: it stands for a question.
    """
    return (
        _signalled(event.workflow_execution_signaled_event_attributes, _TO_DESK)
        or _signalled(event.signal_external_workflow_execution_initiated_event_attributes, _FROM_DESK)
        or _recorded(event)
    )


def news_at_invocation(event: HistoryEvent, *, is_entry: bool) -> DeskNews | None:
    """Return the news that this event of an invocation's history has from it, or brings to it; None for other events.

    `is_entry` says that the history is that of a run: signals in it are news of other invocations, or of nobody. A
    record that is kept outside and not at hand tells nothing.
    """
    if not is_entry:
        sent = event.signal_external_workflow_execution_initiated_event_attributes
        return _signalled(sent, _TO_DESK) or _signalled(event.workflow_execution_signaled_event_attributes, _FROM_DESK)
    news = _recorded(event)
    return None if news is None or news.is_outside or news.kind in _OF_DESK else news


def ignored_signal(event: HistoryEvent) -> str | None:
    """Return why a signal to a run was ignored, if this event of the run's history records one; else None."""
    news = _recorded(event)
    return str(news.message.get("reason") or "") if news is not None and news.kind == "ignored" else None


def _signalled(
    signal: WorkflowExecutionSignaledEventAttributes | SignalExternalWorkflowExecutionInitiatedEventAttributes,
    kinds: Mapping[str, NewsKind],
) -> DeskNews | None:
    """Return the news in a signal; None where it has not one value, as both sides ignore it too."""
    kind, payloads = kinds.get(signal.signal_name), signal.input.payloads
    if kind is None or len(payloads) != 1:
        return None
    return DeskNews(kind, decode_json(payloads[0]), is_kept_outside(payloads[0]))


def _recorded(event: HistoryEvent) -> DeskNews | None:
    local = local_effect(event)
    if local is None or local.activity != RECORD_AT_DESK.name or not local.result:
        return None
    if is_kept_outside(local.result[0]):
        return DeskNews("asked", None, is_outside=True)
    record = first_object(local.result)
    return next((DeskNews(kind, record[kind]) for kind in _KINDS if record.get(kind) is not None), None)


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
    held: Verdict | None = None
    """Decision that has not taken effect; see Approval. None: there is none."""
    task: str = ""
    """Words for what the run, or the item of a batch, is about, see `StartRunInput.task`; empty where nothing tells."""
    again: str = ""
    """Id of the question that asks about the same call again; empty: none does. See Approval."""

    @classmethod
    def of(cls, approval: Approval, run: str, task: str = "") -> Question:
        """Return the question as the desk of this run keeps it; `task` says what the run, or the item, is about."""
        same = {one.name: getattr(approval, one.name) for one in fields(cls) if one.name not in ("run", "task")}
        return cls(**same, run=run, task=task)

    @property
    def is_open(self) -> bool:
        """Whether it waits for a person."""
        return self.verdict is None and self.held is None and not self.withdrawn

    @property
    def deadline(self) -> datetime | None:
        """Time at which it is decided without a person; None: never."""
        return self.request.deadline

    @property
    def undone_words(self) -> str:
        """Words for a call that was not carried out although it was agreed to; empty for any other."""
        return f"not carried out: {self.again} asks again, and says why" if self.again else ""

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
            "task": self.task,
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
            "held": self.held.model_dump(mode="json") if self.held else None,
            "asks_again": request.again or None,
            "asked_again": self.again or None,
        }


async def read_desk(run: str, events: AsyncIterator[HistoryEvent]) -> tuple[list[Question], list[Grant]]:
    """Return the run's questions in the order of their ids, and the remembered decisions in force, as events tell them.

    Raises UsageError where a value is kept elsewhere.
    """
    reader = _Reader()
    async for event in events:
        reader.take(event)
    state = reader.state
    approvals = (*reader.archive, *state.approvals)
    questions = [Question.of(one, run, reader.start.task(one.request.path) or one.request.item) for one in approvals]
    return questions, list(state.grants)


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

    def __init__(self) -> None:
        self.archive: tuple[Approval, ...] = ()
        """Questions from before the run was continued as new."""
        self.start = StartRunInput(worker="")
        self._state = DeskState()
        """The desk, with grants that were taken back since."""
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
                state = with_revocation(state, RevokeGrantInput(id=grant.approval))
        return state

    def _is_revoked(self, grant: Grant) -> bool:
        """Return whether the grant was taken back; a revocation from before there was a grant is not about it."""
        revoked = self._revoked.get(grant.approval)
        if revoked is None:
            return False
        if grant.verdict.effective_at is not None:
            return revoked.at is None or revoked.at > grant.verdict.effective_at + _SAME_TIME
        if revoked.at is None or revoked.at > grant.verdict.at + _SAME_TIME:
            return True
        # Of what one task of the desk sees to, signals come first, in their order, and updates after them.
        is_same_task = revoked.at + _SAME_TIME >= grant.verdict.at
        return is_same_task and grant.verdict.door == "signal" and revoked.after_decision

    def take(self, event: HistoryEvent) -> None:
        """Take in the next event. Raises UsageError."""
        at = event.event_time.ToDatetime(UTC)
        if event.HasField("workflow_execution_started_event_attributes"):
            self._begin(event)
        elif event.HasField("workflow_task_started_event_attributes"):
            self._task_began = at
        elif event.HasField("workflow_task_completed_event_attributes"):
            for approval, revoked in self._revoked.items():
                self._revoked[approval] = replace(revoked, at=revoked.at or self._task_began)
        elif event.event_type in ENDS:
            self._state = desk.with_all_withdrawn(self._state)
        else:
            news = news_at_desk(event)
            if news is not None:
                self._take_news(news, at)
            self._take_signal(event.workflow_execution_signaled_event_attributes)

    def _begin(self, event: HistoryEvent) -> None:
        """Take in the task, and what the run had settled before its workflow was continued as new."""
        started = event.workflow_execution_started_event_attributes
        self.start = read_start(started.input.payloads)
        if not started.continued_execution_run_id:
            return
        if any(is_kept_outside(payload) for payload in started.input.payloads):
            raise out_of_reach()
        continued = as_object(first_object(started.input.payloads).get("continued"))
        carried = DeskState.model_validate(continued.get("desk") or {})
        kept = {approval.id for approval in carried.approvals}
        self.archive += tuple(approval for approval in self._state.approvals if approval.id not in kept)
        self._state = DeskState(approvals=carried.approvals, grants=carried.grants, earlier=carried.earlier)
        self._revoked = {}

    def _take_signal(self, signal: WorkflowExecutionSignaledEventAttributes) -> None:
        """Note a revocation, or the approval that a decision is about."""
        if signal.signal_name == REVOKE_GRANT_SIGNAL:
            if any(map(is_kept_outside, signal.input.payloads)):
                raise out_of_reach()
            values = [decode_json(payload) for payload in signal.input.payloads]
            revocation = read_message(RevokeGrantInput, values[0]) if len(values) == 1 else None
            if revocation is not None:
                is_decided = bool(self._decided & {revocation.id, None})
                self._revoked[revocation.id] = _Revocation(after_decision=is_decided)
        elif signal.signal_name == DECIDE_SIGNAL:
            approval = first_object(signal.input.payloads).get("id")
            self._decided |= {approval} if approval is None or isinstance(approval, str) else set()

    def _take_news(self, news: DeskNews, at: datetime) -> None:
        """Follow the desk: news that it drops is dropped here, too, and a question dropped has no id."""
        if news.is_outside:
            raise out_of_reach()
        match news.kind:
            case "asked" if request := read_message(RequestApprovalInput, news.value):
                self._state, _ = desk.with_question(self._state, request, now=at)
            case "withdrawn" if withdrawal := read_message(WithdrawApprovalsInput, news.value):
                self._state = desk.with_withdrawal(self._state, withdrawal)
            case "voted" if votes := read_message(DeliverVotesInput, news.value):
                self._answer(votes.id, {"votes": votes.votes, "held": None})
            case "held" if held := read_message(HeldNews, news.value):
                self._answer(held.id, {"held": held.held})
            case "decided" if delivery := read_message(DeliverDecisionInput, news.value):
                # Withdrawn after it was decided, and before the desk told so.
                changes = {"votes": delivery.votes, "verdict": delivery.verdict, "withdrawn": False, "held": None}
                self._answer(delivery.id, changes)
            case _:
                pass

    def _answer(self, approval_id: str, changes: dict[str, Any]) -> None:
        approval = desk.question(self._state, approval_id)
        if approval is not None:
            self._state = desk.with_answer(self._state, approval.model_copy(update=changes))
