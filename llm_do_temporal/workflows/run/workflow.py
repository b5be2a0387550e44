"""`LlmDoRun`: one run. It is the desk, where all approvals of the tree are asked and answered; no LLM loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from llm_do_temporal.desk.state import (
        archived,
        at_time,
        find_question,
        next_due,
        pending,
        with_decision,
        with_ignored,
        with_request,
        with_revocation,
        with_withdrawal,
    )
    from llm_do_temporal.errors import LlmDoError, UsageError
    from llm_do_temporal.messages.activities import LOAD_RUN
    from llm_do_temporal.messages.approvals import (
        Approval,
        Decision,
        DeliverDecisionInput,
        DeliverVotesInput,
        DeskState,
        RequestApprovalInput,
        RevokeGrantInput,
        WithdrawApprovalsInput,
    )
    from llm_do_temporal.messages.base import (
        DECIDE_SIGNAL,
        DECIDE_UPDATE,
        DELIVER_DECISION_SIGNAL,
        DELIVER_VOTES_SIGNAL,
        DESK_QUERY,
        PENDING_ATTRIBUTE,
        PENDING_MEMO,
        REQUEST_APPROVAL_SIGNAL,
        REVOKE_GRANT_SIGNAL,
        RUN_MEMO,
        RUN_WORKFLOW,
        STATE_ATTRIBUTE,
        WITHDRAW_APPROVALS_SIGNAL,
        WORKER_ATTRIBUTE,
    )
    from llm_do_temporal.messages.batches import Batch, ContinuedBatch
    from llm_do_temporal.messages.budget import REPORT_SPENDING_SIGNAL
    from llm_do_temporal.messages.effects import LoadedRun, LoadRunInput
    from llm_do_temporal.messages.runs import InvokeWorkerInput, RunMemo, RunResult, StartRunInput
    from llm_do_temporal.policy.budget.ledger import Report
    from llm_do_temporal.policy.delegation import check_depth
    from llm_do_temporal.policy.files.attachments import check_attachments
    from llm_do_temporal.policy.files.sandbox import narrow
    from llm_do_temporal.policy.models.resolution import resolve_model
    from llm_do_temporal.policy.queues import Queues
    from llm_do_temporal.telemetry.spans import outside_workflow_span
    from llm_do_temporal.workflows.run.batch import BatchWork
    from llm_do_temporal.workflows.run.budget import RunBudget
    from llm_do_temporal.workflows.run.notifications import Notifier
    from llm_do_temporal.workflows.run.visibility import pending_details, pending_memo
    from llm_do_temporal.workflows.runtime.activities import run_local_first, send_signal
    from llm_do_temporal.workflows.runtime.children import run_invocation
    from llm_do_temporal.workflows.runtime.failures import as_failure, explain
    from llm_do_temporal.workflows.runtime.inbound import malformed, read_one, read_signal, read_start
    from llm_do_temporal.workflows.runtime.metrics import count_answer
    from llm_do_temporal.workflows.runtime.spans import run_span, tell_result
    from llm_do_temporal.workflows.runtime.task_queues import ActivityRoutes
    from llm_do_temporal.workflows.tools.delegate import limited_by, with_built_input

_STATE = SearchAttributeKey.for_keyword(STATE_ATTRIBUTE)
_PENDING = SearchAttributeKey.for_int(PENDING_ATTRIBUTE)
_WORKER = SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)
ENTRY_PATH = "main"
_LONGEST_TIMER = timedelta(days=365)


@workflow.defn(name=RUN_WORKFLOW, failure_exception_types=[LlmDoError])
class LlmDoRun:
    """Starts the entry worker and keeps the desk until it ends."""

    @workflow.init
    def __init__(self, payload: Any = None) -> None:
        self._desk = _desk_before(payload)
        self._search_attributes = False
        self._stale = False
        """Whether search attributes, memo and details, which show the desk outside, are behind it."""
        self._shown: tuple[Approval, ...] = ()
        """Questions that are shown outside as waiting."""
        self._due: datetime | None = None
        """Moment of the desk's next reminder or deadline; None: there is none."""
        self._undelivered: list[Approval] = []
        """Questions that were decided, or agreed to by one more person."""
        self._budget = RunBudget(self._desk.ledger)
        self._notifier = Notifier()
        self.routes = ActivityRoutes(Queues())

    @workflow.run
    async def run(self, payload: Any = None) -> RunResult:
        """Return the entry worker's output, and the usage of the whole tree.

        `payload` is a StartRunInput. It may have been written by hand, so it is checked here: the SDK would
        try a payload that does not fit again and again.
        """
        with run_span(payload) as span:
            result = await self._run(payload)
            tell_result(span, result.output, result.usage)
        return result

    async def _run(self, payload: Any) -> RunResult:
        # No command may stand in a `finally` here: one of a workflow that left the cache runs whenever Python
        # collects it, and would become a command of the workflow that happens to run then.
        serving = (self._serve_desk(), self._budget.serve(), self._keep_time())
        clerks = [asyncio.create_task(clerk) for clerk in serving]
        try:
            result = await self._run_entry(payload)
        except asyncio.CancelledError:
            self._close_desk(clerks)
            raise
        except LlmDoError as error:
            self._close_desk(clerks)
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError from error
            await self._notifier.finish(self._desk, error=error)
            raise as_failure(error) from error
        self._close_desk(clerks)
        await self._notifier.finish(self._desk, output=result.output)
        return result

    async def _run_entry(self, payload: Any) -> RunResult:
        start = read_start(payload)
        loaded = await self._load(start)
        entry = self._entry(start, loaded)
        if start.batch is not None:
            return await self._run_batch(start, start.batch, loaded, entry)
        if loaded.built is not None:
            entry = await with_built_input(entry, loaded.built)
        result = await run_invocation(entry)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return RunResult(output=result.output, usage=result.usage)

    async def _run_batch(
        self, start: StartRunInput, batch: Batch, loaded: LoadedRun, entry: InvokeWorkerInput
    ) -> RunResult:
        work = BatchWork(start, batch, entry, self)
        self._budget.take_own = work.take
        if not await work.run():
            await self._go_on_as_new(start, batch, loaded, work)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return RunResult(output=None, usage=work.usage, items=work.results)

    async def _go_on_as_new(self, start: StartRunInput, batch: Batch, loaded: LoadedRun, work: BatchWork) -> None:
        """Continue this workflow as new, between two items."""
        await self._notifier.settle()
        await workflow.wait_condition(lambda: workflow.all_handlers_finished() and not self._undelivered)
        continued = ContinuedBatch(
            done=work.done,
            usage=work.usage,
            worker=loaded.worker,
            settings=loaded.settings,
            tree=loaded.tree,
            notify=loaded.notify,
            desk=archived(self.desk_state()),
            spending=work.lease.state,
            started_at=work.started_at,
        )
        batch = batch.model_copy(update={"continued": continued})
        with outside_workflow_span():
            workflow.continue_as_new(start.model_copy(update={"batch": batch}))

    @property
    def is_asking(self) -> bool:
        """Whether a question waits for a person."""
        return bool(pending(self._desk))

    async def _load(self, start: StartRunInput) -> LoadedRun:
        before = start.batch.continued if start.batch is not None else None
        if before is None:
            loaded = await self._load_anew(start)
        else:
            loaded = LoadedRun(worker=before.worker, settings=before.settings, tree=before.tree, notify=before.notify)
        self._desk = self._desk.model_copy(update={"started_by": start.started_by})
        self._notifier.open(loaded.notify, loaded.worker.name)
        self._search_attributes = loaded.settings.search_attributes
        self.routes.queues = loaded.settings.queues
        if self._search_attributes:
            workflow.upsert_search_attributes(
                [_STATE.value_set("running"), _PENDING.value_set(0), _WORKER.value_set(loaded.worker.name)]
            )
        workflow.upsert_memo({RUN_MEMO: RunMemo(worker=loaded.worker.name, started_by=start.started_by)})
        return loaded

    async def _load_anew(self, start: StartRunInput) -> LoadedRun:
        try:
            return await run_local_first(LOAD_RUN, LoadRunInput(start=start), summary=f"load worker {start.worker}")
        except FailureError as error:
            raise explain(error) from error

    def _entry(self, start: StartRunInput, loaded: LoadedRun) -> InvokeWorkerInput:
        worker, settings = loaded.worker, loaded.settings
        check_depth(start.depth, settings.max_depth, worker=worker.name)
        check_attachments(worker.attachment_policy, start.attachments, whose=f"worker '{worker.name}'")
        model = resolve_model(
            settings.models,
            worker=worker.name,
            worker_model=worker.model,
            caller_model=None,
            compatible=worker.compatible_models,
        )
        run = workflow.info().workflow_id
        before = start.batch.continued if start.batch is not None else None
        self._budget.open(run if start.batch is not None else f"{run}/{ENTRY_PATH}", settings.limits)
        limited = limited_by(worker.limits, limited_by(settings.limits))
        return InvokeWorkerInput(
            run=run,
            path=ENTRY_PATH,
            depth=start.depth,
            worker=worker,
            settings=settings,
            tree=narrow(loaded.tree, worker.sandbox, workshop_has_sandbox=settings.workshop_has_sandbox),
            model=model,
            limited=limited,
            started_at=(before.started_at if before else workflow.info().start_time) if limited else None,
            prompt=start.prompt if loaded.prompt is None else loaded.prompt,
            input=start.input if loaded.template is None else None,
            attachments=start.attachments,
            template=loaded.template,
        )

    # --- the desk ---

    @workflow.signal(name=REQUEST_APPROVAL_SIGNAL)
    def request_approval(self, *payloads: Any) -> None:
        """Take a question from an invocation."""
        request = read_signal(RequestApprovalInput, payloads)
        if request is None:
            return
        self._desk, approval = with_request(self._desk, request, now=workflow.now())
        if approval.verdict is not None:
            self._undelivered.append(approval)
        self._stale = True

    @workflow.signal(name=WITHDRAW_APPROVALS_SIGNAL)
    def withdraw_approvals(self, *payloads: Any) -> None:
        """Take back questions of an invocation that needs no answers any more."""
        withdrawal = read_signal(WithdrawApprovalsInput, payloads)
        if withdrawal is None:
            return
        self._desk = with_withdrawal(self._desk, withdrawal)
        self._stale = True

    @workflow.signal(name=DECIDE_SIGNAL)
    def decide(self, *payloads: Any) -> None:
        """Take a decision by signal, which has no answer: a decision that cannot be taken is noted and ignored."""
        try:
            decision = read_one(Decision, payloads, "decision")
            self._desk, answered = with_decision(self._desk, decision, door="signal", now=workflow.now())
        except Exception as error:
            # Anybody may send anything; an exception that left here would stop the whole run.
            self._desk = with_ignored(self._desk, malformed("decision", error), now=workflow.now())
            return
        self._undelivered.extend(answered)
        self._stale = True

    @workflow.update(name=DECIDE_UPDATE)
    def decide_now(self, decision: Decision) -> Approval:
        """Take a decision by update, and return the approval as decided."""
        self._desk, answered = with_decision(self._desk, decision, door="update", now=workflow.now())
        self._undelivered.extend(answered)
        self._stale = True
        return answered[0]

    @decide_now.validator
    def _check_decision(self, decision: Decision) -> None:
        find_question(self._desk, decision)

    @workflow.signal(name=REVOKE_GRANT_SIGNAL)
    def revoke_grant(self, *payloads: Any) -> None:
        """Take back a remembered decision; a revocation that cannot be taken is noted and ignored."""
        try:
            revocation = read_one(RevokeGrantInput, payloads, "revocation")
            self._desk = with_revocation(self._desk, revocation)
        except Exception as error:
            self._desk = with_ignored(self._desk, malformed("revocation", error), now=workflow.now())

    @workflow.signal(name=REPORT_SPENDING_SIGNAL)
    def report_spending(self, *payloads: Any) -> None:
        """Take an invocation's report of its spending and wants."""
        report = read_signal(Report, payloads)
        if report is not None:
            self._budget.take(report)

    @workflow.query(name=DESK_QUERY)
    def desk_state(self) -> DeskState:
        """Return all approvals, decided or not, grants, ignored decisions, and the ledger of limits."""
        return self._desk.model_copy(update={"ledger": self._budget.ledger})

    async def _serve_desk(self) -> None:
        """Deliver decisions at once; then bring search attributes, memo and details up to date."""
        while True:
            await workflow.wait_condition(lambda: self._stale or bool(self._undelivered))
            while self._undelivered:
                await self._deliver(self._undelivered.pop(0))
            self._stale = False
            self._due = next_due(self._desk)
            self._show()
            self._notifier.see(self._desk)

    async def _keep_time(self) -> None:
        """Remind people when it is time, and reject questions whose deadline has passed."""
        while True:
            if await self._has_come(self._due):
                self._desk, late = at_time(self._desk, now=workflow.now())
                self._undelivered.extend(late)
                self._stale, self._due = True, next_due(self._desk)

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

    async def _deliver(self, approval: Approval) -> None:
        """Send the answer, or the votes so far, to the invocation that asked."""
        asked, key = approval.request.invocation, approval.request.key
        try:
            if approval.verdict is None:
                votes = DeliverVotesInput(key=key, id=approval.id, votes=approval.votes)
                await send_signal(asked, DELIVER_VOTES_SIGNAL, votes)
                return
            count_answer(approval)
            self._budget.decide(approval)
            delivery = DeliverDecisionInput(key=key, id=approval.id, verdict=approval.verdict, votes=approval.votes)
            await send_signal(asked, DELIVER_DECISION_SIGNAL, delivery)
        except FailureError:
            # The invocation ended while its answer was on the way.
            self._desk = with_ignored(
                self._desk, f"the worker that asked '{approval.id}' has ended", now=workflow.now()
            )

    def _show(self) -> None:
        waiting = self._shown = pending(self._desk)
        if self._search_attributes:
            state = "waiting" if waiting else "running"
            workflow.upsert_search_attributes([_STATE.value_set(state), _PENDING.value_set(len(waiting))])
        workflow.upsert_memo({PENDING_MEMO: pending_memo(waiting)})
        workflow.set_current_details(pending_details(waiting))

    def _close_desk(self, clerks: Sequence[asyncio.Task[None]]) -> None:
        """Stop the desk's tasks, and show outside that the run is closed and has no question."""
        for clerk in clerks:
            clerk.cancel()
        if self._search_attributes:
            workflow.upsert_search_attributes([_STATE.value_set("closed"), _PENDING.value_set(0)])
        if self._shown:
            workflow.upsert_memo({PENDING_MEMO: []})


def _desk_before(payload: Any) -> DeskState:
    """Return the desk as it was when this workflow was continued as new, else an empty one.

    It is needed before the payload is checked: signals may come at once.
    """
    try:
        batch = read_start(payload).batch
    except UsageError:
        return DeskState()
    return DeskState() if batch is None or batch.continued is None else batch.continued.desk
