"""The desk of a run: it takes questions and decisions, delivers answers, and shows outside what waits.

Owns the desk's state while its workflow runs. What each piece of news makes of that state is pure (`desk.state`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate
from temporalio.exceptions import FailureError

from llm_do_temporal.desk.grants import with_revocation
from llm_do_temporal.desk.state import (
    KEPT_IGNORED,
    at_time,
    find_question,
    next_due,
    pending,
    with_decision,
    with_ignored,
    with_request,
    with_withdrawal,
)
from llm_do_temporal.json_schema import Steps
from llm_do_temporal.messages.activities import DeskRecord, HeldNews
from llm_do_temporal.messages.approvals import (
    Approval,
    Decision,
    DeliverDecisionInput,
    DeliverVotesInput,
    DeskState,
    RequestApprovalInput,
    RevokeGrantInput,
    ScriptedAnswer,
    WithdrawApprovalsInput,
)
from llm_do_temporal.messages.base import (
    DELIVER_DECISION_SIGNAL,
    DELIVER_VOTES_SIGNAL,
    PENDING_ATTRIBUTE,
    PENDING_MEMO,
    STATE_ATTRIBUTE,
    WORKER_ATTRIBUTE,
)
from llm_do_temporal.messages.runs import StartRunInput, listed_worker
from llm_do_temporal.policy.budget import Action, Report
from llm_do_temporal.workflows.run.budget import RunBudget
from llm_do_temporal.workflows.run.notifications import Notifier
from llm_do_temporal.workflows.run.visibility import pending_details, pending_memo
from llm_do_temporal.workflows.runtime.activities import record_at_desk, send_signal
from llm_do_temporal.workflows.runtime.metrics import count_answer
from llm_do_temporal.workflows.runtime.task_steps import TaskSteps

_STATE = SearchAttributeKey.for_keyword(STATE_ATTRIBUTE)
_PENDING = SearchAttributeKey.for_int(PENDING_ATTRIBUTE)
_WORKER = SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)
_LONGEST_TIMER = timedelta(days=365)


class Answered(Protocol):
    """The invocation in the run's own workflow, as far as the desk answers it."""

    def take_decision(self, delivery: DeliverDecisionInput) -> None:
        """Take the answer to a question."""
        ...

    def show_votes(self, delivery: DeliverVotesInput) -> None:
        """Take note of the votes so far."""
        ...

    async def apply(self, action: Action) -> None:
        """Take an action about limits."""
        ...


class RunDesk:
    """The desk while its run's workflow is open."""

    def __init__(self, state: DeskState) -> None:
        self._state = state
        self.budget = RunBudget(state.ledger)
        self.notifier = Notifier()
        self.has_attributes = False
        """Whether the namespace knows our search attributes."""
        self.start: StartRunInput | None = None
        """Start of the run, which says what it is about; None until it was read."""
        self._scripted = False
        """Whether nobody is asked: what no script and no grant answers is rejected."""
        self._near: Answered | None = None
        self._stale = False
        """Whether search attributes, memo and details, which show the desk outside, are behind it."""
        self._shown: tuple[Approval, ...] = ()
        """Questions that are shown outside as waiting."""
        self._due: datetime | None = None
        """Moment of the desk's next reminder or deadline; None: there is none."""
        self._undelivered: list[Approval | DeskRecord] = []
        """Questions that were decided, or agreed to by one more person; and what the history alone is to keep."""
        self._recording = asyncio.Lock()
        self._update_steps = TaskSteps()
        self._signal_steps = TaskSteps()
        self._clerks: list[asyncio.Task[None]] = []

    @property
    def state(self) -> DeskState:
        """All approvals, decided or not, grants, ignored decisions, and the ledger of limits."""
        return self._state.model_copy(update={"ledger": self.budget.ledger})

    @property
    def asking_paths(self) -> list[str]:
        """Places in the run's tree of the invocations whose questions wait for a person."""
        return [approval.request.path for approval in pending(self._state)]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to be delivered."""
        return not self._undelivered and self.budget.is_idle

    def begin(self) -> None:
        """Begin to deliver answers and to keep time."""
        self._clerks = [asyncio.create_task(clerk) for clerk in (self._serve(), self.budget.serve(), self._keep_time())]

    def open(self, worker: str, started_by: str, *, scripted: bool = False) -> None:
        """Show outside that the run goes on; `worker` is the name of its entry worker.

        With `scripted`, what no script and no grant answers is rejected, and nobody is asked.
        """
        self._state = self._state.model_copy(update={"started_by": started_by})
        self._scripted = scripted
        self._show_attributes("running", 0, listed_worker(worker))

    def take_script(self, script: Sequence[ScriptedAnswer]) -> None:
        """Answer what these fit, without a person."""
        self._state = self._state.model_copy(update={"script": tuple(script)})

    def serve_near(self, invocation: Answered) -> None:
        """Answer the invocation in this workflow directly from now on."""
        self._near = invocation
        self.budget.take_own = invocation.apply

    def close(self) -> None:
        """Stop the desk's tasks, and show outside that the run is closed and has no question."""
        for clerk in self._clerks:
            clerk.cancel()
        self._show_attributes("closed", 0)
        if self._shown:
            workflow.upsert_memo({PENDING_MEMO: []})

    # --- from the invocation in this workflow: see DeskLink ---

    async def ask(self, request: RequestApprovalInput) -> None:
        """See DeskLink."""
        await asyncio.shield(asyncio.create_task(self._record_question(request)))

    async def withdraw(self, withdrawal: WithdrawApprovalsInput) -> None:
        """See DeskLink."""
        await asyncio.shield(asyncio.create_task(self._record_withdrawal(withdrawal)))

    async def report(self, report: Report) -> None:
        """See DeskLink."""
        self.budget.take(report)

    def show(self, details: str) -> None:
        """See DeskLink. The desk shows all questions of the run itself."""

    # What the history tells, the desk takes, whatever is cancelled meanwhile; and one after the other, so that ids are
    # given in the order of the history.

    async def _record_question(self, request: RequestApprovalInput) -> None:
        async with self._recording:
            await record_at_desk(DeskRecord(asked=request), summary=f"ask: {request.summary}")
            self.take_question(request)

    async def _record_withdrawal(self, withdrawal: WithdrawApprovalsInput) -> None:
        async with self._recording:
            await record_at_desk(DeskRecord(withdrawn=withdrawal), summary="take questions back")
            self.take_withdrawal(withdrawal)

    # --- from anybody ---

    def take_question(self, request: RequestApprovalInput) -> None:
        """Take a question."""
        self._state, approval = with_request(self._state, request, now=workflow.now(), scripted=self._scripted)
        if approval.verdict is not None:
            self._undelivered.append(approval)
        self._stale = True

    def take_withdrawal(self, withdrawal: WithdrawApprovalsInput) -> None:
        """Take questions back that need no answers any more."""
        self._state = with_withdrawal(self._state, withdrawal)
        self._stale = True

    def check_update(self, decision: Decision) -> None:
        """Check a decision that comes as an update. Raises DecisionRefused where it cannot be taken.

        A replay checks none: the steps for it are not those of signals.
        """
        find_question(self._state, decision, self._update_steps.of_this_task(), now=workflow.now())

    def take_update(self, decision: Decision) -> Approval:
        """Take a decision that `check_update` has just checked, and return the approval as decided."""
        return self._take(decision, door="update")

    def take_signal(self, decision: Decision) -> None:
        """Take a decision that comes as a signal. Raises DecisionRefused where it cannot be taken."""
        self._take(decision, door="signal", steps=self._signal_steps.of_this_task())

    def _take(self, decision: Decision, *, door: Literal["signal", "update"], steps: Steps | None = None) -> Approval:
        now, checked = workflow.now(), door == "update"
        self._state, answered = with_decision(self._state, decision, door=door, now=now, steps=steps, checked=checked)
        first = answered[0]
        if first.held is None and decision.decision is not None:
            self._undelivered.extend(answered)
        else:
            self._undelivered.append(DeskRecord(held=HeldNews(id=first.id, held=first.held)))
        self._stale = True
        return first

    def take_revocation(self, revocation: RevokeGrantInput) -> None:
        """Take back a remembered decision. Raises DecisionRefused."""
        self._state = with_revocation(self._state, revocation)

    def ignore(self, reason: str) -> None:
        """Note news that cannot be taken. The history keeps why, until KEPT_IGNORED are noted."""
        is_kept = len(self._state.ignored) < KEPT_IGNORED
        self._state = with_ignored(self._state, reason, now=workflow.now())
        if is_kept:
            self._undelivered.append(DeskRecord(ignored=self._state.ignored[-1]))

    # --- the desk's tasks ---

    async def _serve(self) -> None:
        """Deliver decisions at once; then bring search attributes, memo and details up to date."""
        while True:
            await workflow.wait_condition(lambda: self._stale or bool(self._undelivered))
            while self._undelivered:
                await self._deliver(self._undelivered[0])
                self._undelivered.pop(0)
            self._stale = False
            self._due = next_due(self._state)
            self._show()
            self.notifier.see(self._state)

    async def _keep_time(self) -> None:
        """Remind people and let held decisions take effect when it is time, and reject questions that were not answered
        in time."""
        while True:
            if await self._has_come(self._due):
                self._state, late = at_time(self._state, now=workflow.now())
                self._undelivered.extend(late)
                self._stale, self._due = True, next_due(self._state)

    async def _has_come(self, due: datetime | None) -> bool:
        """Wait for the moment `due`; return False as soon as another moment is the next."""
        left = None if due is None else min(due - workflow.now(), _LONGEST_TIMER)
        if left is not None and left <= timedelta(0):
            return True
        summary = "time to decide" if left else None
        try:
            await workflow.wait_condition(lambda: self._due != due, timeout=left, timeout_summary=summary)
        except TimeoutError:
            return True
        return False

    async def _deliver(self, approval: Approval | DeskRecord) -> None:
        """Give the answer, or the votes so far, to the invocation that asked; news of a held decision to nobody."""
        if isinstance(approval, DeskRecord):
            await self._record(approval)
            return
        asked, key = approval.request.invocation, approval.request.key
        near = self._near if asked == workflow.info().workflow_id else None
        if approval.verdict is None:
            votes = DeliverVotesInput(key=key, id=approval.id, votes=approval.votes)
            await (self._send(approval, DELIVER_VOTES_SIGNAL, votes) if near is None else self._vote(near, votes))
            return
        count_answer(approval)
        self.budget.decide(approval)
        answer = DeliverDecisionInput(key=key, id=approval.id, verdict=approval.verdict, votes=approval.votes)
        await (self._send(approval, DELIVER_DECISION_SIGNAL, answer) if near is None else self._answer(near, answer))

    async def _answer(self, near: Answered, answer: DeliverDecisionInput) -> None:
        async with self._recording:
            await record_at_desk(DeskRecord(decided=answer), summary=f"answer {answer.id}")
            near.take_decision(answer)

    async def _record(self, news: DeskRecord) -> None:
        about = f"hold {news.held.id}" if news.held else "ignore a signal"
        async with self._recording:
            await record_at_desk(news, summary=about)

    async def _vote(self, near: Answered, votes: DeliverVotesInput) -> None:
        async with self._recording:
            await record_at_desk(DeskRecord(voted=votes), summary=f"votes on {votes.id}")
            near.show_votes(votes)

    async def _send(self, approval: Approval, signal: str, delivery: DeliverDecisionInput | DeliverVotesInput) -> None:
        try:
            await send_signal(approval.request.invocation, signal, delivery)
        except FailureError:
            # The invocation ended while its answer was on the way.
            self.ignore(f"the worker that asked '{approval.id}' has ended")

    def _show(self) -> None:
        waiting = pending(self._state)
        self._show_attributes("waiting" if waiting else "running", len(waiting))
        if waiting != self._shown:
            workflow.upsert_memo({PENDING_MEMO: pending_memo(waiting, self.start)})
        workflow.set_current_details(pending_details(waiting))
        self._shown = waiting

    def _show_attributes(self, state: str, waiting: int, worker: str | None = None) -> None:
        """Set the search attributes that are not so already."""
        if not self.has_attributes:
            return
        known = workflow.info().typed_search_attributes
        changed: list[SearchAttributeUpdate[Any]] = []
        if known.get(_STATE) != state:
            changed.append(_STATE.value_set(state))
        if known.get(_PENDING) != waiting:
            changed.append(_PENDING.value_set(waiting))
        if worker is not None and known.get(_WORKER) != worker:
            changed.append(_WORKER.value_set(worker))
        if changed:
            workflow.upsert_search_attributes(changed)
