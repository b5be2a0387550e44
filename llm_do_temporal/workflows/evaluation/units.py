"""The work on the units of an experiment: each is run, scored and judged, several of them at a time.

Owns the order of the units and the blobs of their results. Used by `LlmDoEvaluation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from temporalio import workflow
from temporalio.common import Priority, RawValue
from temporalio.exceptions import ActivityError, ChildWorkflowError, WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.activities import COLLECT_RESULTS, JUDGE_CASE, PREPARE_CASE, SCORE_CASE
from llm_do_temporal.messages.base import RUN_MEMO, RUN_WORKFLOW, TASK_TIMEOUT
from llm_do_temporal.messages.experiments.evaluations import (
    CollectedResults,
    CollectResultsInput,
    ContinuedEvaluation,
    JudgeCaseInput,
    PrepareCaseInput,
    RunEvaluationInput,
    ScoreCaseInput,
    ScoredCase,
)
from llm_do_temporal.messages.experiments.results import EVALUATION_MEMO, EvaluationMemo, ExperimentState
from llm_do_temporal.messages.runs import RunMemo, StartRunInput
from llm_do_temporal.messages.sizes import SUMMARY_CHARS
from llm_do_temporal.policy.queues import BATCH_PRIORITY, fairness_key
from llm_do_temporal.workflows.runtime.activities import LOCAL_ERRORS, await_shielded, run_activity, run_local_first
from llm_do_temporal.workflows.runtime.failures import explain

LEAST_NEWER = 25
"""Results that are put into the record together, at least. It is written anew each time: were each put there by itself,
the bytes that are written would grow with the square of the cases."""
NEWER_SHARE = 2
"""Share of the record's results, as a divisor, that there are more of before it is written anew."""

MAX_EVENTS = 1_000
"""Events after which an experiment goes on in a new history: a service that takes it over replays them all within one
task, which a busy machine must manage, too."""


class UnitWork:
    """The work on the units of one experiment."""

    def __init__(self, start: RunEvaluationInput, memo: EvaluationMemo) -> None:
        """`memo` has the facts about the experiment that lists show."""
        before = start.continued
        self._start = start
        self.memo = memo if before is None else before.memo
        self._next = 0 if before is None else before.next
        self._record = "" if before is None else before.record
        self._recorded = 0 if before is None else before.recorded
        self._newer = [] if before is None else list(before.newer)

    @property
    def continued(self) -> ContinuedEvaluation:
        """State for the next history; no unit may be under way."""
        return ContinuedEvaluation(
            next=self._next,
            record=self._record,
            recorded=self._recorded,
            newer=tuple(self._newer),
            memo=self.memo,
        )

    async def run(self) -> bool:
        """Work off units, and return whether all are done; if not, none is under way and the workflow must be continued
        as new.

        Raises LlmDoError where the experiment cannot go on.
        """
        running: list[asyncio.Task[None]] = []
        try:
            while self._is_left or running:
                while self._may_begin(len(running)):
                    running.append(asyncio.create_task(self._run_unit(self._next)))
                    self._next += 1
                if not running:
                    return False
                await workflow.wait_condition(_news(running, self._may_begin))
                for task in [task for task in running if task.done()]:
                    running.remove(task)
                    task.result()
                if len(self._newer) > max(LEAST_NEWER, self._recorded // NEWER_SHARE):
                    await self.collect("running")
        except BaseException:
            for task in running:
                task.cancel()
            if running:
                await workflow.wait(running)
            raise
        return True

    @property
    def _is_left(self) -> bool:
        return self._next < self._start.units

    def _may_begin(self, running: int) -> bool:
        info = workflow.info()
        is_long = info.is_continue_as_new_suggested() or info.get_current_history_length() > MAX_EVENTS
        return self._is_left and running < self._start.concurrency and not is_long

    async def collect(self, state: ExperimentState) -> CollectedResults:
        """Put the results so far into the record, and show it outside."""
        newer = tuple(self._newer)
        request = CollectResultsInput(plan=self._start.plan, record=self._record, newer=newer, state=state)
        try:
            collected = await run_activity(COLLECT_RESULTS, request, summary=f"keep {len(newer)} results")
        except ActivityError as error:
            raise explain(error) from error
        self._record, self._recorded = collected.record, self._recorded + len(newer)
        self._newer = self._newer[len(newer) :]
        done = max(self.memo.done, collected.memo.done)
        self._show(collected.memo.model_copy(update={"done": done}))
        return collected

    def _show(self, memo: EvaluationMemo) -> None:
        self.memo = memo
        workflow.upsert_memo({EVALUATION_MEMO: memo})

    async def _run_unit(self, number: int) -> None:
        plan = self._start.plan
        try:
            prepared = await run_local_first(
                PREPARE_CASE, PrepareCaseInput(plan=plan, unit=number), summary=f"prepare case {number + 1}"
            )
            if prepared.start is not None:
                await _run_to_its_end(prepared.run, prepared.start)
            request = ScoreCaseInput(plan=plan, unit=number, run=prepared.run, taken=prepared.taken)
            scored = await run_activity(SCORE_CASE, request, summary=f"score {prepared.run or 'a result taken over'}")
            digest, spent = scored.result, [scored.cost]
            if scored.judges:
                judged = await self._judge(scored)
                digest, spent = judged.result, [scored.cost, judged.cost]
        except LOCAL_ERRORS as error:
            raise explain(error) from error
        self._newer.append(digest)
        known = [amount for amount in (self.memo.cost_usd, *spent) if amount is not None]
        self._show(
            self.memo.model_copy(
                update={
                    "done": self.memo.done + 1,
                    "errors": self.memo.errors + scored.error,
                    "cost_usd": sum(known) if known else None,
                }
            )
        )

    async def _judge(self, scored: ScoredCase) -> ScoredCase:
        starting = [asyncio.create_task(_run_to_its_end(one.run, one.start)) for one in scored.judges]
        try:
            for task in starting:
                await task
        except BaseException:
            for task in starting:
                task.cancel()
            await workflow.wait(starting)
            raise
        runs = tuple(one.run for one in scored.judges)
        request = JudgeCaseInput(plan=self._start.plan, result=scored.result, runs=runs)
        return await run_activity(JUDGE_CASE, request, summary=f"take the judgement of {runs[0]}")


async def _run_to_its_end(run: str, start: StartRunInput) -> None:
    """Run a run, whatever becomes of it: its history is read afterwards. Raises UsageError where its id is taken."""
    starting = workflow.start_child_workflow(
        RUN_WORKFLOW,
        start,
        id=run,
        result_type=RawValue,
        task_timeout=TASK_TIMEOUT,
        memo={RUN_MEMO: RunMemo.of(start)},
        parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
        static_summary=run[:SUMMARY_CHARS],
        priority=Priority(priority_key=BATCH_PRIORITY, fairness_key=fairness_key(workflow.info().workflow_id)),
    )
    try:
        await await_shielded(await await_shielded(asyncio.create_task(starting)))
    except WorkflowAlreadyStartedError as error:
        raise UsageError(
            f"there is another run '{run}' that has not ended", next_step=f"Cancel it: llm-do-temporal cancel {run}"
        ) from error
    except ChildWorkflowError:
        # A cancellation of the experiment comes as this, too.
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError from None


def _news(running: list[asyncio.Task[None]], may_begin: Callable[[int], bool]) -> Callable[[], bool]:
    return lambda: any(task.done() for task in running) or may_begin(len(running))
