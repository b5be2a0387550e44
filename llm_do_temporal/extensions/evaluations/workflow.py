"""`LlmDoEvaluation`: one experiment. Each case and each judgement is a run of its own below it, several at a time.

What is big stays in blobs. The history has a few events for each case, and goes on in a new one before it gets long.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import Priority, RawValue
from temporalio.exceptions import ActivityError, ChildWorkflowError, WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

from llm_do_temporal.errors import LlmDoError, UsageError
from llm_do_temporal.extensions.evaluations.messages import (
    COLLECT_RESULTS,
    EVALUATION_MEMO,
    EVALUATION_WORKFLOW,
    JUDGE_CASE,
    PREPARE_CASE,
    SCORE_CASE,
    CollectedResults,
    CollectResultsInput,
    ContinuedEvaluation,
    EvaluationMemo,
    ExperimentState,
    JudgeCaseInput,
    PrepareCaseInput,
    RunEvaluationInput,
    ScoreCaseInput,
    ScoredCase,
)
from llm_do_temporal.extensions.evaluations.policy.figures import known_sum
from llm_do_temporal.messages.base import RUN_MEMO, RUN_WORKFLOW, TASK_TIMEOUT
from llm_do_temporal.messages.runs import RunMemo, StartRunInput
from llm_do_temporal.messages.sizes import SUMMARY_CHARS
from llm_do_temporal.policy.queues import BATCH_PRIORITY, Queues, fairness_key
from llm_do_temporal.workflows.runtime.activities import (
    LOCAL_ERRORS,
    ActivityRoutes,
    await_shielded,
    await_to_its_end,
    run_activity,
    run_local_first,
)
from llm_do_temporal.workflows.runtime.failures import as_failure, explain
from llm_do_temporal.workflows.runtime.inbound import malformed

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
        self._start = start
        self.state = start.continued or ContinuedEvaluation(next=0, memo=memo)
        """State for the next history, once no unit is under way."""

    async def run(self) -> bool:
        """Work off units, and return whether all are done; if not, none is under way and the workflow must be continued
        as new.

        Raises LlmDoError where the experiment cannot go on.
        """
        running: list[asyncio.Task[None]] = []
        try:
            while self.state.next < self._start.units or running:
                while self._may_begin(len(running)):
                    running.append(asyncio.create_task(self._run_unit(self.state.next)))
                    self.state = self.state.model_copy(update={"next": self.state.next + 1})
                if not running:
                    return False
                await workflow.wait_condition(
                    lambda: any(task.done() for task in running) or self._may_begin(len(running))
                )
                for task in [task for task in running if task.done()]:
                    running.remove(task)
                    task.result()
                if len(self.state.newer) > max(LEAST_NEWER, self.state.recorded // NEWER_SHARE):
                    await self.collect("running")
        except BaseException:
            for task in running:
                task.cancel()
            if running:
                await workflow.wait(running)
            raise
        return True

    def _may_begin(self, running: int) -> bool:
        info = workflow.info()
        is_long = info.is_continue_as_new_suggested() or info.get_current_history_length() > MAX_EVENTS
        return self.state.next < self._start.units and running < self._start.concurrency and not is_long

    async def collect(self, state: ExperimentState) -> CollectedResults:
        """Put the results so far into the record, and show it outside."""
        plan, newer = self._start.plan, self.state.newer
        request = CollectResultsInput(plan=plan, record=self.state.record, newer=newer, state=state)
        try:
            collected = await run_activity(COLLECT_RESULTS, request, summary=f"keep {len(newer)} results")
        except ActivityError as error:
            raise explain(error) from error
        before = self.state
        self._note(
            collected.memo.model_copy(update={"done": max(before.memo.done, collected.memo.done)}),
            record=collected.record,
            recorded=before.recorded + len(newer),
            newer=before.newer[len(newer) :],
        )
        return collected

    def _note(self, memo: EvaluationMemo, **changes: Any) -> None:
        """Change the state, and show the facts outside."""
        self.state = self.state.model_copy(update={**changes, "memo": memo})
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
        memo = self.state.memo
        changes = {
            "done": memo.done + 1,
            "errors": memo.errors + scored.error,
            "cost_usd": known_sum((memo.cost_usd, *spent)),
        }
        self._note(memo.model_copy(update=changes), newer=(*self.state.newer, digest))

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


@workflow.defn(name=EVALUATION_WORKFLOW, failure_exception_types=[LlmDoError])
class LlmDoEvaluation:
    """Runs and scores the cases of an experiment, several at a time."""

    def __init__(self) -> None:
        self.routes = ActivityRoutes(Queues())

    @workflow.run
    async def run(self, payload: Any = None) -> CollectedResults:
        """Return the record of the experiment. `payload` is a RunEvaluationInput."""
        try:
            start = RunEvaluationInput.model_validate(payload)
        except ValidationError as error:
            raise UsageError(malformed("start of an evaluation", error)) from error
        work = UnitWork(start, EvaluationMemo.model_validate(workflow.memo_value(EVALUATION_MEMO, None) or _NO_FACTS))
        # No command may stand in a `finally` here: see `LlmDoRun`.
        try:
            is_done = await work.run()
        except asyncio.CancelledError:
            await await_to_its_end(work.collect("cancelled"))
            raise
        except LlmDoError as error:
            if workflow.cancellation_reason() is not None:
                await await_to_its_end(work.collect("cancelled"))
                raise asyncio.CancelledError from error
            await work.collect("failed")
            raise as_failure(error) from error
        if not is_done:
            workflow.continue_as_new(
                start.model_copy(update={"continued": work.state}), memo={EVALUATION_MEMO: work.state.memo}
            )
        return await work.collect("completed")


_NO_FACTS = {"name": "", "digest": "", "worker": ""}
