"""`LlmDoEvaluation`: one experiment. Each case and each judgement is a run of its own below it.

What is big stays in blobs. The history has a few events for each case, and goes on in a new one before it gets long.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import ValidationError
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from llm_do_temporal.errors import LlmDoError, UsageError
    from llm_do_temporal.messages.experiments.evaluations import (
        EvaluationEnd,
        RunEvaluationInput,
    )
    from llm_do_temporal.messages.experiments.results import EVALUATION_MEMO, EVALUATION_WORKFLOW, EvaluationMemo
    from llm_do_temporal.messages.experiments.source import ForkSource
    from llm_do_temporal.policy.queues import Queues
    from llm_do_temporal.workflows.evaluation.units import UnitWork
    from llm_do_temporal.workflows.runtime.failures import as_failure
    from llm_do_temporal.workflows.runtime.inbound import malformed
    from llm_do_temporal.workflows.runtime.task_queues import ActivityRoutes


@workflow.defn(name=EVALUATION_WORKFLOW, failure_exception_types=[LlmDoError])
class LlmDoEvaluation:
    """Runs and scores the cases of an experiment, several at a time."""

    def __init__(self) -> None:
        self.routes = ActivityRoutes(Queues())
        self.fork: ForkSource | None = None

    @workflow.run
    async def run(self, payload: Any = None) -> EvaluationEnd:
        """Return the record of the experiment. `payload` is a RunEvaluationInput."""
        start = _read(payload)
        work = UnitWork(start, EvaluationMemo.model_validate(workflow.memo_value(EVALUATION_MEMO, None) or _NO_FACTS))
        # No command may stand in a `finally` here: see `LlmDoRun`.
        try:
            is_done = await work.run()
        except asyncio.CancelledError:
            await _shielded(work.collect("cancelled"))
            raise
        except LlmDoError as error:
            if workflow.cancellation_reason() is not None:
                await _shielded(work.collect("cancelled"))
                raise asyncio.CancelledError from error
            await work.collect("failed")
            raise as_failure(error) from error
        if not is_done:
            workflow.continue_as_new(
                start.model_copy(update={"continued": work.continued}), memo={EVALUATION_MEMO: work.memo}
            )
        collected = await work.collect("completed")
        return EvaluationEnd(record=collected.record, memo=collected.memo)


_NO_FACTS = {"name": "", "digest": "", "worker": ""}


async def _shielded(work: Any) -> None:
    """Await what a cancellation must not stop."""
    task = asyncio.create_task(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                return


def _read(payload: Any) -> RunEvaluationInput:
    """Return the input. Raises UsageError for a payload that is none."""
    try:
        return RunEvaluationInput.model_validate(payload)
    except ValidationError as error:
        raise UsageError(malformed("start of an evaluation", error)) from error
