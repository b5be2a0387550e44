"""`LlmDoClient`: start runs, watch them, answer their approvals."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Iterable
from datetime import timedelta
from typing import Any, TypedDict

from temporalio import activity
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import (
    Priority,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from llm_do_temporal.client.batches import read_unfinished
from llm_do_temporal.client.connections import ended_with, refuses_attributes, signal_read, translated, update_read
from llm_do_temporal.client.decisions import FrozenQuestion, QuestionOutcome, decide_each
from llm_do_temporal.client.history.events import read_chain, read_events
from llm_do_temporal.client.history.questions import Question, read_desk
from llm_do_temporal.client.open_questions import InboxContents, InboxReader, OpenQuestions, read_open_questions
from llm_do_temporal.client.views.follower import Follower, Tap, ordered_events
from llm_do_temporal.client.views.run_list import RunSummary, every_run, listed_run
from llm_do_temporal.client.views.run_view import RunView, ViewEvent
from llm_do_temporal.client.views.server_list import RunListing, asked_in_all, read_memo
from llm_do_temporal.desk.state import already_decided_message, only_meant
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.extension import Extensible
from llm_do_temporal.messages.approvals import Approval, Decision, DeskState, Grant, RevokeGrantInput
from llm_do_temporal.messages.base import (
    DECIDE_SIGNAL,
    DECIDE_UPDATE,
    DESK_QUERY,
    PENDING_ATTRIBUTE,
    REVOKE_GRANT_SIGNAL,
    RUN_MEMO,
    RUN_WORKFLOW,
    STATE_ATTRIBUTE,
    TASK_QUEUE,
    TASK_TIMEOUT,
    WORKER_ATTRIBUTE,
    check_json,
)
from llm_do_temporal.messages.runs import RunMemo, RunResult, StartRunInput, listed_worker
from llm_do_temporal.messages.sizes import MAX_RUN_ID_CHARS, SUMMARY_CHARS
from llm_do_temporal.policy.queues import BATCH_PRIORITY, fairness_key
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.telemetry import start_span

_STATE = SearchAttributeKey.for_keyword(STATE_ATTRIBUTE)
_PENDING = SearchAttributeKey.for_int(PENDING_ATTRIBUTE)
_WORKER = SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)
_NAMED_CHARS = 60
"""Most characters of a worker's name in an id, and of an id in an error."""


class StartOptions(TypedDict):
    """Arguments of Temporal's `start_workflow`, but for the workflow, its input, its id and its task queue."""

    task_timeout: timedelta
    memo: dict[str, Any]
    search_attributes: TypedSearchAttributes | None
    static_summary: str
    priority: Priority
    id_reuse_policy: WorkflowIDReusePolicy
    id_conflict_policy: WorkflowIDConflictPolicy


def start_options(request: StartRunInput, run: str, *, sets_attributes: bool = True, digest: str = "") -> StartOptions:
    """Return the options of a run with this id; `sets_attributes`: the namespace knows our search attributes.

    `digest` is that of the request of a door, which the run keeps.
    """
    inherited = activity.info().priority if activity.in_activity() else Priority()
    attributes = TypedSearchAttributes(
        [
            SearchAttributePair(_STATE, "running"),
            SearchAttributePair(_PENDING, 0),
            SearchAttributePair(_WORKER, listed_worker(request.worker)),
        ]
    )
    return {
        "task_timeout": TASK_TIMEOUT,
        "memo": {RUN_MEMO: RunMemo.of(request, request=digest)},
        "search_attributes": attributes if sets_attributes else None,
        "static_summary": f"{request.worker}: {request.task()}"[:SUMMARY_CHARS],
        # Runs take turns where work waits, and single questions come before batches. A tool's runs share its run's.
        "priority": Priority(
            priority_key=inherited.priority_key or (None if request.batch is None else BATCH_PRIORITY),
            fairness_key=inherited.fairness_key or fairness_key(run),
            fairness_weight=inherited.fairness_weight,
        ),
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
        "id_conflict_policy": WorkflowIDConflictPolicy.FAIL,
    }


class LlmDoClient(Extensible):
    """All that can be done to runs. Methods raise LlmDoError; an unknown run is a UsageError."""

    def __init__(self, temporal: Client, *, task_queue: str = TASK_QUEUE) -> None:
        self.temporal = temporal
        self.task_queue = task_queue
        """Name of the task queue on which runs are started."""
        self._inbox = InboxReader(temporal)
        self._sets_attributes = True
        """Whether runs are started with search attributes; not once the namespace has refused them."""

    @property
    def takes_big_values(self) -> bool:
        """Whether this client knows where values are kept that are too big for Temporal."""
        return self.temporal.data_converter.external_storage is not None

    async def start(self, request: StartRunInput, *, run: str | None = None, digest: str = "") -> str:
        """Start a run and return its id. Raises UsageError when the id is taken.

        The run keeps `digest`, which tells whether it was started by the same request; see `RunSummary.request`.
        """
        run = run or f"{request.worker.replace(':', '-').replace('/', '-')[-_NAMED_CHARS:]}-{secrets.token_hex(4)}"
        if "/" in run:
            raise UsageError(f"the run id '{run}' contains '/', which separates a run from its invocations")
        if len(run) > MAX_RUN_ID_CHARS:
            raise UsageError(
                f"the run id '{run[:_NAMED_CHARS]}…' has {len(run)} characters; it may have {MAX_RUN_ID_CHARS}",
                next_step="Choose a shorter one; the rest of an id is for the paths of what the run delegates to.",
            )
        try:
            check_json(request.input)
        except ValueError as error:
            raise UsageError(f"the input cannot be sent: {error}") from error
        try:
            async with translated():
                with start_span(request.worker, run):
                    await self._start(request, run, digest)
        except WorkflowAlreadyStartedError as error:
            raise UsageError(f"there is already a run '{run}'; choose another id") from error
        return run

    async def _start(self, request: StartRunInput, run: str, digest: str) -> None:
        """Start the run's workflow, without search attributes where the namespace does not know ours."""
        options = start_options(request, run, sets_attributes=self._sets_attributes, digest=digest)
        try:
            await self.temporal.start_workflow(RUN_WORKFLOW, request, id=run, task_queue=self.task_queue, **options)
        except RPCError as error:
            if not self._sets_attributes or not refuses_attributes(error):
                raise
            self._sets_attributes = False
            await self._start(request, run, digest)

    async def result(self, run: str) -> RunResult:
        """Wait for the run and return its result. Raises the error it ended with."""
        try:
            async with translated(run):
                value: Any = await self._handle(run).result()
        except WorkflowFailureError as failure:
            raise ended_with(failure) from failure
        return RunResult.model_validate(value)

    async def unfinished(self, run: str) -> StartRunInput:
        """Return the start of a batch, with only the items that have not completed. Raises UsageError."""
        async with translated(run):
            return await read_unfinished(self.temporal, run)

    async def cancel(self, run: str) -> None:
        """Ask the run, and everything below it, to stop."""
        async with translated(run):
            await self._handle(run).cancel()

    async def runs(
        self, wanted: RunFilter | None = None, *, limit: int = 50, told: Callable[[int], None] | None = None
    ) -> list[RunSummary]:
        """Return the first runs that pass the filter, the open ones first, then those that ended last.

        `told` hears now and then how many were looked at; for words and people that may be all there are."""
        every = every_run(self.temporal, wanted or RunFilter(), limit=limit, told=told)
        return [run async for run in every]

    async def status(self, run: str) -> RunSummary:
        """Return the state of one run. Raises KeyMismatch."""
        return listed_run(*await self._read(run))

    async def approvals(self, run: str | None = None) -> list[Question]:
        """Return the questions that wait for a person, oldest first, of one run or of all that can be read.

        Needs no worker service."""
        if run is None:
            return (await self.all_approvals()).questions
        async with translated(run):
            handle = self._handle(run)
            if (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING:
                return []
            asked, _ = await read_desk(run, read_events(handle, wait=False, converter=self.temporal.data_converter))
            return sorted((one for one in asked if one.is_open), key=lambda one: one.asked_at)

    async def all_approvals(self, *, limit: int | None = None) -> OpenQuestions:
        """Return the questions that wait in all runs, oldest first; at most `limit`, None for all.

        Reads one list of the server, and the histories of the runs that ask."""
        return await read_open_questions(self, limit)

    async def questions(self, run: str) -> list[Question]:
        """Return all questions of the run, decided or not, in order; also after its end. Needs no worker service."""
        async with translated(run):
            return (await read_desk(run, read_chain(self.temporal, run, None, wait=False)))[0]

    async def grants(self, run: str) -> list[Grant]:
        """Return the remembered decisions in force, in order; also after the run's end. Needs no worker service."""
        async with translated(run):
            return (await read_desk(run, read_chain(self.temporal, run, None, wait=False)))[1]

    async def inbox(self, run: str | None = None, *, whole: bool = False) -> InboxContents:
        """Return the questions that wait in all open runs, or in one, oldest first, up to 20 of each run.

        Of very many runs only the oldest, at most 300 that ask, unless the `whole` is wanted; a run that was continued
        counts from then. No history is read."""
        async with translated():
            return await self._inbox.read(run, whole=whole)

    async def revoke(self, run: str, approval_id: str, by: str = "") -> None:
        """Take back the grant that came from this approval. Raises UsageError where there is none, or the run ended."""
        if all(grant.approval != approval_id for grant in await self.grants(run)):
            raise UsageError(
                f"run '{run}' has no grant of approval '{approval_id}'",
                next_step=f"`llm-do-temporal grants {run}` lists them.",
            )
        summary = await self.status(run)
        if summary.ended_at is not None:
            raise UsageError(f"run '{run}' has ended: {summary.status}; its grants ended with it")
        info, _ = await self._read(run)
        await self._tell(info, RevokeGrantInput(id=approval_id, by=by), signal=REVOKE_GRANT_SIGNAL)

    async def decide(self, run: str, decision: Decision, *, is_sent_only: bool = False) -> Approval | None:
        """Take a decision. None: it was sent, but no worker service answered yet. Raises DecisionRefused.

        For one without an id the run's history is read for the question that waits; where none or several do, it is
        refused. Raises UsageError where the history needs values that are out of reach here.

        One with a `hold` is in `held` of the approval, whose `verdict` is None until it takes effect. Until then its
        author can send another one in its place; one whose `decision` is None takes it back.

        It reaches the run that is read here, and no later one with its id. `is_sent_only`: no answer is waited for."""
        info, listed = await self._read(run)
        if decision.id is None:
            decision = decision.model_copy(update={"id": await self._meant(run, decision, info, listed)})
        return await self._tell(info, decision, update="" if is_sent_only else DECIDE_UPDATE, signal=DECIDE_SIGNAL)

    async def _read(self, run: str) -> tuple[WorkflowExecutionInfo, RunListing]:
        """Return what the server keeps of the run, and its memo as it is read here. Raises KeyMismatch.

        Who cannot read the run has not its keys: what is sent would be in the open, or unreadable for the run."""
        async with translated(run):
            info = (await self._handle(run).describe()).raw_info
            return info, await read_memo(info, self.temporal.data_converter)

    async def _meant(self, run: str, decision: Decision, info: WorkflowExecutionInfo, listed: RunListing) -> str:
        """Return the id of the one question that a decision without an id can mean now. Raises DecisionRefused.

        It is sent with that id: without one an update that comes late, or the signal after it, could count for the next
        question, which nobody has seen. The questions are in the memo, which is quicker to read than the history. The
        history has those of which the memo shows a part alone, or none yet."""
        if listed.pending and asked_in_all(info, listed) == len(listed.pending):
            return only_meant({one.id: one.digest for one in listed.pending}, decision.digest)
        waiting = {one.id: one.request.digest for one in await self.approvals(run)}
        if not waiting and (await self.status(run)).ended_at is not None:
            raise await self._too_late(run, None)
        return only_meant(waiting, decision.digest)

    async def _tell(
        self,
        info: WorkflowExecutionInfo,
        message: Decision | RevokeGrantInput,
        *,
        update: str = "",
        signal: str,
    ) -> Approval | None:
        """Send news to the desk of the run that was read, as an update, and as a signal where nobody answers."""
        try:
            taken = None
            if isinstance(message, Decision) and not message.key and (message.hold or message.decision is None):
                # An update that nobody has answered may reach the desk behind the signal, and behind later decisions.
                message = message.model_copy(update={"key": secrets.token_hex(8)})
            if update and not isinstance(message, RevokeGrantInput):
                taken = await update_read(self.temporal, info, update, message)
            if taken is None:
                await signal_read(self.temporal, info, signal, message)
        except UsageError as error:
            # The server says "not found" of a run that has ended, too.
            raise await self._too_late(info.execution.workflow_id, message.id) from error
        return taken

    async def _too_late(self, run: str, question: str | None) -> DecisionRefused:
        """Return the refusal of a decision for a run that has ended: it says who was first, where somebody was."""
        summary = await self.status(run)
        if summary.ended_at is None:
            return DecisionRefused(f"run '{run}' was started again since it was read; look at what it asks now")
        ended = f"run '{run}' has ended: {summary.status}"
        questions = [] if question is None else await self.questions(run)
        asked = next((one for one in questions if one.id == question), None)
        if asked is None or asked.verdict is None:
            return DecisionRefused(f"{ended}; nothing waits for a decision")
        return DecisionRefused(f"{already_decided_message(asked.id, asked.verdict)}; {ended}")

    async def decide_many(
        self,
        questions: Iterable[FrozenQuestion],
        decision: Decision,
        *,
        told: Callable[[QuestionOutcome], None] | None = None,
    ) -> list[QuestionOutcome]:
        """Decide each of these questions by itself, as it was shown; `told` hears of each outcome at once."""
        return await decide_each(self, questions, decision, told=told)

    async def desk(self, run: str) -> DeskState:
        """Return all approvals of a run, decided or not, grants, and ignored decisions. Needs a worker service."""
        async with translated(run):
            return await self._handle(run).query(DESK_QUERY, result_type=DeskState)

    async def view(self, run: str, *, tap: Tap | None = None) -> RunView:
        """Return the run as its histories tell it now; `tap` is called with every event and the id of its workflow."""
        async with translated(run):
            return await Follower(self.temporal, run, wait=False, tap=tap).read()

    def follow(self, run: str) -> Follower:
        """Return a follower of the run; iterate its `events()` and look at its `view`."""
        return Follower(self.temporal, run, wait=True)

    async def events(self, run: str, *, follow: bool = False) -> AsyncGenerator[ViewEvent]:
        """Yield the events of the run in order, the same on every reading; with `follow`, until the run ends."""
        async with translated(run):
            async for event in ordered_events(self.temporal, run, follow=follow):
                yield event

    def _handle(self, run: str) -> WorkflowHandle[Any, Any]:
        return self.temporal.get_workflow_handle(run)
