"""`LlmDoRun`: one run. It is the desk, where all approvals of the tree are asked and answered, and beside it the entry
worker's invocation."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn, cast

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from llm_do_temporal.desk.entry import entry_invocation
    from llm_do_temporal.desk.state import archived, waits_of
    from llm_do_temporal.errors import LlmDoError, UsageError
    from llm_do_temporal.messages.activities import (
        CALL_FOR_TOOL_UPDATE,
        LOAD_RUN,
        READ_INPUTS,
        CalledForTool,
        CallForToolInput,
        LoadedRun,
        LoadRunInput,
        ReadInputsInput,
    )
    from llm_do_temporal.messages.approvals import (
        Approval,
        Decision,
        DeskState,
        RequestApprovalInput,
        RevokeGrantInput,
        WithdrawApprovalsInput,
    )
    from llm_do_temporal.messages.base import (
        DECIDE_SIGNAL,
        DECIDE_UPDATE,
        DESK_QUERY,
        INVOCATION_MEMO,
        REQUEST_APPROVAL_SIGNAL,
        REVOKE_GRANT_SIGNAL,
        RUN_MEMO,
        RUN_WORKFLOW,
        WITHDRAW_APPROVALS_SIGNAL,
    )
    from llm_do_temporal.messages.budget import REPORT_SPENDING_SIGNAL, Usage, Waits
    from llm_do_temporal.messages.runs import (
        Batch,
        ContinuedBatch,
        ContinuedRun,
        InputFiles,
        InvokeWorkerInput,
        ItemCounts,
        RunMemo,
        RunResult,
        StartRunInput,
    )
    from llm_do_temporal.policy.budget import Report
    from llm_do_temporal.policy.notifications import NotifySettings
    from llm_do_temporal.policy.queues import Queues
    from llm_do_temporal.telemetry.spans import outside_workflow_span
    from llm_do_temporal.workflows.invocation.invocation import Invocation
    from llm_do_temporal.workflows.run.batch import BatchWork
    from llm_do_temporal.workflows.run.desk import RunDesk
    from llm_do_temporal.workflows.runtime.activities import ActivityRoutes, run_activity, run_local_first
    from llm_do_temporal.workflows.runtime.children import check_sendable, memo_of
    from llm_do_temporal.workflows.runtime.failures import as_failure, explain
    from llm_do_temporal.workflows.runtime.inbound import malformed, read_one, read_signal, read_start, read_update
    from llm_do_temporal.workflows.runtime.spans import run_span, tell_result
    from llm_do_temporal.workflows.tools.delegate import with_built_attachments


@workflow.defn(name=RUN_WORKFLOW, failure_exception_types=[LlmDoError])
class LlmDoRun:
    """Keeps the desk, and runs the entry worker or the items of a batch until they end."""

    @workflow.init
    def __init__(self, payload: Any = None) -> None:
        self._desk = RunDesk(_desk_before(payload))
        self._notify = NotifySettings()
        self.invocation: Invocation | None = None
        """Invocation of the entry worker; None until it begins, and for a batch."""
        self._batch: BatchWork | None = None
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
        return result.model_copy(update={"waited": self._waited})

    async def _run(self, payload: Any) -> RunResult:
        # No command may stand in a `finally` here: one of a workflow that left the cache runs whenever Python
        # collects it, and would become a command of the workflow that happens to run then.
        self._desk.begin()
        try:
            result = await self._run_entry(payload)
        except asyncio.CancelledError:
            self._close()
            raise
        except LlmDoError as error:
            self._close()
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError from error
            await self._desk.notifier.finish(self._desk.state, error=error)
            usage = None if self.invocation is None else self.invocation.usage
            raise as_failure(error, usage, self._waited) from error
        counts = self._close()
        await self._desk.notifier.finish(self._desk.state, output=result.output, items=counts)
        return result

    def _close(self) -> ItemCounts | None:
        """Close the desk, show how many items of a batch have completed and failed, and return that.

        None: the run is not a batch.
        """
        self._desk.close()
        if self._batch is None:
            return None
        counts, shown = self._batch.counts, RunMemo.model_validate(workflow.memo_value(RUN_MEMO))
        workflow.upsert_memo({RUN_MEMO: shown.model_copy(update={"items": counts})})
        return counts

    async def _run_entry(self, payload: Any) -> RunResult:
        start = read_start(payload)
        if start.reads is not None and start.continued is None:
            return await self._read(start, start.reads)
        entry = await self._entry(start) if start.continued is None else start.continued.entry
        if start.continued is not None:
            self._open(start, entry, start.continued.notify)
        self._desk.budget.open(entry.run, entry.settings.limits)
        if start.batch is not None:
            return await self._run_batch(start, start.batch, entry)

        async def go_on(invocation: InvokeWorkerInput) -> None:
            await self._go_on_as_new(start, invocation)

        check_sendable(entry)
        invocation = self.invocation = Invocation(entry, self._desk, go_on)
        self.routes.model = invocation.models
        self._desk.serve_near(invocation)
        result = await invocation.run()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return RunResult(output=result.output, usage=result.usage, layer=result.layer, truncated=result.truncated)

    async def _entry(self, start: StartRunInput) -> InvokeWorkerInput:
        """Return the invocation that the run begins with; of a batch, that which its items are made from."""
        loaded = await self._load(start)
        self._open(start, loaded, loaded.notify)
        info = workflow.info()
        entry = entry_invocation(info.workflow_id, start, loaded, started_at=info.start_time)
        if start.batch is None:
            workflow.upsert_memo({INVOCATION_MEMO: memo_of(entry)})
            if loaded.built is not None:
                entry = await with_built_attachments(entry, loaded.built)
        return entry

    async def _read(self, start: StartRunInput, files: InputFiles) -> RunResult:
        """Read what the run is given, and go on as new with that: readers of it find the whole start in one place.

        Returns a result where there are no items now. Raises AttachmentRefusal and UsageError, which name the file.
        """
        loaded = await self._load(start)
        self._open(start, loaded, loaded.notify)
        policy, name = loaded.worker.attachment_policy, loaded.worker.name
        asked = ReadInputsInput(files=files, policy=policy, worker=name, given=start.attachments)
        try:
            found = await run_activity(READ_INPUTS, asked, summary=f"read {files.words}")
        except FailureError as error:
            raise explain(error) from error
        if found.items is not None and not found.items:
            shown = RunMemo.model_validate(workflow.memo_value(RUN_MEMO))
            none = ItemCounts(total=0, completed=0)
            workflow.upsert_memo({RUN_MEMO: shown.model_copy(update={"items": none})})
            return RunResult(output=f"There was nothing to do: {files.nothing}.", usage=Usage())
        batch = start.batch if found.items is None else Batch(items=found.items, concurrency=files.concurrency)
        given = (*start.attachments, *found.attachments)
        start = start.model_copy(update={"reads": None, "attachments": given, "batch": batch})
        await self._settle()
        return _leave(start, {RUN_MEMO: _kept_memo().model_copy(update={"items": RunMemo.of(start).items})})

    async def _load(self, start: StartRunInput) -> LoadedRun:
        try:
            return await run_local_first(LOAD_RUN, LoadRunInput(start=start), summary=f"load worker {start.worker}")
        except FailureError as error:
            raise explain(error) from error

    def _open(self, start: StartRunInput, loaded: LoadedRun | InvokeWorkerInput, notify: NotifySettings) -> None:
        """Begin to show and to notify, as the run's settings say."""
        worker, settings = loaded.worker.name, loaded.settings
        self._notify = notify
        self._desk.notifier.open(notify, worker)
        self._desk.has_attributes = settings.search_attributes
        self.routes.queues = settings.queues
        self._desk.start = start
        self._desk.open(worker, start.started_by, scripted=settings.scripted)
        if isinstance(loaded, LoadedRun):
            self._desk.take_script(loaded.script)
        shown = _shown()
        # A client of ours has set the memo already.
        is_shown = {"worker": worker, "started_by": start.started_by}.items() <= shown.items()
        if start.continued is None and not is_shown:
            memo = RunMemo.of(start, request=str(shown.get("request", "")))
            workflow.upsert_memo({RUN_MEMO: memo.model_copy(update={"worker": worker})})

    async def _run_batch(self, start: StartRunInput, batch: Batch, entry: InvokeWorkerInput) -> RunResult:
        before = None if start.continued is None else start.continued.batch
        work = self._batch = BatchWork(start, batch, before, entry, self._desk)
        self._desk.budget.take_own = work.take
        if not await work.run():
            progress = ContinuedBatch(done=work.done, usage=work.usage, spending=work.lease.state)
            await self._go_on_as_new(start, entry, progress)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return RunResult(output=None, usage=work.usage, items=work.results)

    async def _go_on_as_new(
        self, start: StartRunInput, entry: InvokeWorkerInput, batch: ContinuedBatch | None = None
    ) -> None:
        """Continue this workflow as new, with its desk: between two turns, or two items of a batch."""
        await self._settle()
        continued = ContinuedRun(entry=entry, notify=self._notify, desk=archived(self._desk.state), batch=batch)
        # The next execution otherwise begins with the memo of the start alone.
        memo: dict[str, Any] = {RUN_MEMO: _kept_memo()}
        memo |= {} if batch is not None else {INVOCATION_MEMO: memo_of(entry)}
        _leave(start.model_copy(update={"continued": continued}), memo)

    async def _settle(self) -> None:
        """Wait until nothing is under way that the next execution would not know of."""
        await self._desk.notifier.settle()
        await workflow.wait_condition(lambda: workflow.all_handlers_finished() and self._desk.is_idle)

    # --- the desk ---

    @property
    def _waited(self) -> Waits | None:
        """Return the time that questions waited; None where nobody was asked."""
        waits = waits_of(self._desk.state)
        return waits if waits.questions else None

    @workflow.signal(name=REQUEST_APPROVAL_SIGNAL)
    def request_approval(self, *payloads: Any) -> None:
        """Take a question from an invocation."""
        request = read_signal(RequestApprovalInput, payloads)
        if request is not None:
            self._desk.take_question(request)

    @workflow.signal(name=WITHDRAW_APPROVALS_SIGNAL)
    def withdraw_approvals(self, *payloads: Any) -> None:
        """Take back questions of an invocation that needs no answers any more."""
        withdrawal = read_signal(WithdrawApprovalsInput, payloads)
        if withdrawal is not None:
            self._desk.take_withdrawal(withdrawal)

    @workflow.signal(name=DECIDE_SIGNAL)
    def decide(self, *payloads: Any) -> None:
        """Take a decision by signal, which has no answer: a decision that cannot be taken is noted and ignored."""
        try:
            self._desk.take_signal(read_one(Decision, payloads, "decision"))
        except Exception as error:
            # Anybody may send anything; an exception that left here would stop the whole run.
            self._desk.ignore(malformed("decision", error))

    @workflow.update(name=DECIDE_UPDATE)
    def decide_now(self, *payloads: Any) -> Approval:
        """Take a decision by update, and return the approval as decided."""
        return self._desk.take_update(read_update(Decision, payloads, "decision"))

    @decide_now.validator
    def _check_decision(self, *payloads: Any) -> None:
        self._desk.check_update(read_update(Decision, payloads, "decision"))

    @workflow.signal(name=REVOKE_GRANT_SIGNAL)
    def revoke_grant(self, *payloads: Any) -> None:
        """Take back a remembered decision; a revocation that cannot be taken is noted and ignored."""
        try:
            self._desk.take_revocation(read_one(RevokeGrantInput, payloads, "revocation"))
        except Exception as error:
            self._desk.ignore(malformed("revocation", error))

    @workflow.signal(name=REPORT_SPENDING_SIGNAL)
    def report_spending(self, *payloads: Any) -> None:
        """Take an invocation's report of its spending and wants."""
        report = read_signal(Report, payloads)
        if report is not None:
            self._desk.budget.take(report)

    @workflow.query(name=DESK_QUERY)
    def desk_state(self) -> DeskState:
        """Return all approvals, decided or not, grants, ignored decisions, and the ledger of limits."""
        return self._desk.state

    # --- the entry worker's tools ---

    @workflow.update(name=CALL_FOR_TOOL_UPDATE, unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def call_for_tool(self, asked: CallForToolInput) -> CalledForTool:
        """Call a worker for a tool of the entry worker that runs in an activity."""
        return await self._entry_invocation.errands.answer(asked)

    @call_for_tool.validator
    def _check_call_for_tool(self, asked: CallForToolInput) -> None:
        self._entry_invocation.errands.check(asked)

    @property
    def _entry_invocation(self) -> Invocation:
        """Raises UsageError where there is none."""
        if self.invocation is None:
            raise UsageError("no tool of this run asks for a call: no worker runs in this workflow")
        return self.invocation


def _shown() -> dict[str, Any]:
    """Return the memo as it is; empty where whoever started the run has set none."""
    shown: Any = workflow.memo_value(RUN_MEMO, None)
    return cast("dict[str, Any]", shown) if isinstance(shown, dict) else {}


def _leave(start: StartRunInput, memo: dict[str, Any]) -> NoReturn:
    """Continue this workflow as new."""
    with outside_workflow_span():
        workflow.continue_as_new(start, memo=memo)


def _kept_memo() -> RunMemo:
    """Return what the run shows of itself, with the start of its first execution."""
    info, shown = workflow.info(), RunMemo.model_validate(workflow.memo_value(RUN_MEMO))
    return shown.model_copy(update={"started_at": shown.started_at or info.workflow_start_time})


def _desk_before(payload: Any) -> DeskState:
    """Return the desk as it was when this workflow was continued as new, else an empty one.

    It is needed before the payload is checked: signals may come at once.
    """
    try:
        continued = read_start(payload).continued
    except UsageError:
        return DeskState()
    return DeskState() if continued is None else continued.desk
