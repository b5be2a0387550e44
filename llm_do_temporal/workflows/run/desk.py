"""The desk of a run: it takes questions and decisions, delivers answers, and shows outside what waits.

Owns the desk's state while its workflow runs. What each piece of news makes of that state is pure (`desk.state`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

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
    DecisionKind,
    DeliverDecisionInput,
    DeliverVotesInput,
    DeskState,
    RequestApprovalInput,
    RevokeGrantInput,
    ScriptedAnswer,
    WithdrawApprovalsInput,
)
from llm_do_temporal.messages.base import (
    DECIDE_SIGNAL,
    DELIVER_DECISION_SIGNAL,
    DELIVER_VOTES_SIGNAL,
    PENDING_ATTRIBUTE,
    PENDING_MEMO,
    STATE_ATTRIBUTE,
    WORKER_ATTRIBUTE,
)
from llm_do_temporal.messages.budget import GRANT_SPENDING_SIGNAL
from llm_do_temporal.messages.runs import PendingApprovalMemo, StartRunInput, listed_worker
from llm_do_temporal.messages.sizes import SUMMARY_CHARS
from llm_do_temporal.policy.budget import (
    Action,
    Dimension,
    Ledger,
    Limits,
    Report,
    agreed_limit,
    opened,
    raised,
    settle,
    with_report,
)
from llm_do_temporal.workflows.invocation.invocation import Invocation
from llm_do_temporal.workflows.run.notifications import Notifier
from llm_do_temporal.workflows.runtime.activities import record_at_desk, send_signal
from llm_do_temporal.workflows.runtime.inbound import TaskSteps
from llm_do_temporal.workflows.runtime.spans import count_answer


class RunBudget:
    """Ledger of a run's spending. Without limits it gets no reports and sends no actions."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._unsent: list[Action] = []
        self.take_own: Callable[[Action], Awaitable[None]] | None = None
        """Takes the actions for the invocation in the run's own workflow, or for a batch as a whole: a workflow cannot
        signal itself. None: there is neither yet."""

    @property
    def is_idle(self) -> bool:
        """Whether no action is left to be sent."""
        return not self._unsent

    def open(self, owner: str, limits: Limits) -> None:
        """Set the limits of the whole run; `owner` is the id of the run's workflow, which holds them."""
        self.ledger = opened(self.ledger, "", owner, limits)

    def take(self, report: Report) -> None:
        """Enter an invocation's report of spending, and queue the actions that follow from it."""
        try:
            self.ledger, actions = settle(with_report(self.ledger, report))
        except ArithmeticError as error:
            # Anybody may send anything; an exception that left here would stop the whole run.
            workflow.logger.warning("a report of spending was ignored: %s", type(error).__name__)
            return
        self._unsent += actions

    def decide(self, approval: Approval) -> None:
        """Raise a limit where the decision is about a limit, and agrees to a higher one."""
        account, verdict = approval.request.account, approval.verdict
        if account is None or verdict is None or verdict.decision is DecisionKind.REJECT:
            return
        try:
            dimension = Dimension(approval.request.args.get("limit"))
            limit = agreed_limit(dimension, verdict.args, approval.request.args)
        except ValueError:
            return  # no question of ours: anybody may have sent it
        self.ledger, actions = settle(raised(self.ledger, account, dimension, limit))
        self._unsent += actions

    async def serve(self) -> None:
        """Send queued actions to their invocations, for ever."""
        while True:
            await workflow.wait_condition(lambda: bool(self._unsent))
            by_invocation: dict[str, list[Action]] = {}
            for action in self._unsent:
                by_invocation.setdefault(action.invocation, []).append(action)
            self._unsent = []
            sending = [
                asyncio.create_task(self._tell(invocation, actions)) for invocation, actions in by_invocation.items()
            ]
            await workflow.wait(sending)

    async def _tell(self, invocation: str, actions: list[Action]) -> None:
        """Send the actions to an invocation, each after the one before it: sent at once, they may arrive in another
        order."""
        for action in actions:
            if self.take_own is not None and invocation == workflow.info().workflow_id:
                await self.take_own(action)
                continue
            try:
                await send_signal(invocation, GRANT_SPENDING_SIGNAL, action)
            except FailureError:
                # It ended without a last report, so the amounts it held count as spent.
                holder = self.ledger.holders.get(invocation)
                if holder is not None:
                    self.take(Report(invocation=invocation, path=holder.path, ended="lost"))
                return


SHOWN_IN_MEMO = 20
"""Largest number of pending approvals listed in the memo; the search attribute counts all of them."""


def pending_memo(waiting: tuple[Approval, ...], start: StartRunInput | None) -> list[PendingApprovalMemo]:
    """Return the entries of the memo of a run that was started so, SHOWN_IN_MEMO at most; None: it has no start yet."""
    return [
        PendingApprovalMemo(
            id=approval.id,
            invocation=request.invocation,
            key=request.key,
            worker=request.worker,
            path=request.path,
            tool=request.tool,
            summary=request.summary[:SUMMARY_CHARS],
            asked_at=approval.asked_at,
            deadline=request.deadline,
            votes=len(approval.votes),
            quorum=request.quorum,
            approvers=request.approvers,
            reminded_at=approval.reminded_at,
            generated=request.generated,
            model=request.model,
            digest=request.digest,
            item=request.item[:SUMMARY_CHARS],
            task=start.task(request.path) if start is not None and request.item else "",
            group=request.group,
        )
        for approval, request in ((approval, approval.request) for approval in waiting[:SHOWN_IN_MEMO])
    ]


def pending_details(waiting: tuple[Approval, ...]) -> str:
    """Return Markdown for the Temporal UI: the pending questions, and the command that answers the first."""
    if not waiting:
        return ""
    run, first = workflow.info().workflow_id, waiting[0]
    by = ',"by":"YOUR NAME"' if first.request.names_people else ""
    lines = ["**Waiting for approval**", ""]
    lines += [
        f"- `{approval.id}` {approval.request.path}: {_plain(approval.request.summary)}"
        for approval in waiting[:SHOWN_IN_MEMO]
    ]
    lines += [
        "",
        f"`temporal workflow signal -w {run} --name {DECIDE_SIGNAL} "
        f'--input \'{{"id":"{first.id}","decision":"approve"{by}}}\'`',
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Escape model output so that Markdown shows it as plain text."""
    return "".join(f"\\{char}" if char in "`*_[]<>#|\\" else char for char in text)


_STATE = SearchAttributeKey.for_keyword(STATE_ATTRIBUTE)
_PENDING = SearchAttributeKey.for_int(PENDING_ATTRIBUTE)
_WORKER = SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)
_LONGEST_TIMER = timedelta(days=365)


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
        self._near: Invocation | None = None
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

    def serve_near(self, invocation: Invocation) -> None:
        """Answer the invocation in this workflow directly from now on."""
        self._near = invocation
        self.budget.take_own = invocation.guard.apply

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
        news = self._record(DeskRecord(asked=request), f"ask: {request.summary}", lambda: self.take_question(request))
        await asyncio.shield(asyncio.create_task(news))

    async def withdraw(self, withdrawal: WithdrawApprovalsInput) -> None:
        """See DeskLink."""
        news = self._record(
            DeskRecord(withdrawn=withdrawal), "take questions back", lambda: self.take_withdrawal(withdrawal)
        )
        await asyncio.shield(asyncio.create_task(news))

    async def report(self, report: Report) -> None:
        """See DeskLink."""
        self.budget.take(report)

    def show(self, details: str) -> None:
        """See DeskLink. The desk shows all questions of the run itself."""

    async def _record(self, news: DeskRecord, summary: str, take: Callable[[], None] = lambda: None) -> None:
        """Have the history keep the news, and then take them.

        The desk takes what the history tells, whatever is cancelled meanwhile; and one after the other, so that ids are
        given in the order of the history.
        """
        async with self._recording:
            await record_at_desk(news, summary=summary)
            take()

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
            await self._record(approval, f"hold {approval.held.id}" if approval.held else "ignore a signal")
            return
        asked, key = approval.request.invocation, approval.request.key
        near = self._near if asked == workflow.info().workflow_id else None
        if approval.verdict is None:
            votes = DeliverVotesInput(key=key, id=approval.id, votes=approval.votes)
            if near is None:
                await self._send(approval, DELIVER_VOTES_SIGNAL, votes)
            else:
                summary = f"votes on {votes.id}"
                await self._record(DeskRecord(voted=votes), summary, lambda: near.desk.show_votes(votes))
            return
        count_answer(approval)
        self.budget.decide(approval)
        answer = DeliverDecisionInput(key=key, id=approval.id, verdict=approval.verdict, votes=approval.votes)
        if near is None:
            await self._send(approval, DELIVER_DECISION_SIGNAL, answer)
        else:
            summary = f"answer {answer.id}"
            await self._record(DeskRecord(decided=answer), summary, lambda: near.desk.take_decision(answer))

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
