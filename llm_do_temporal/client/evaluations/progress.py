"""Progress of one experiment, from what the server tells of its workflow: no history is read for it."""

from __future__ import annotations

from temporalio.client import Client, WorkflowFailureError

from llm_do_temporal.client.connection.errors import ended_with, translated
from llm_do_temporal.client.views.tree import state_of
from llm_do_temporal.errors import LlmDoError, RunFailed
from llm_do_temporal.messages.experiments.results import EVALUATION_MEMO, EvaluationMemo


async def read_progress(client: Client, workflow: str) -> tuple[str, EvaluationMemo]:
    """Return the state of an experiment and the facts about it. Raises ConnectionFailed, UsageError."""
    async with translated(workflow):
        described = await client.get_workflow_handle(workflow).describe()
        facts = await described.memo_value(EVALUATION_MEMO, type_hint=EvaluationMemo)
    return state_of(described.raw_description.workflow_execution_info), facts


async def read_failure(client: Client, workflow: str) -> RunFailed:
    """Return the error that an experiment has ended with. Raises ConnectionFailed."""
    try:
        async with translated(workflow):
            await client.get_workflow_handle(workflow).result()
    except WorkflowFailureError as failure:
        return _as_failed(ended_with(failure))
    return RunFailed(f"experiment '{workflow}' has not completed")


def _as_failed(error: LlmDoError) -> RunFailed:
    return error if isinstance(error, RunFailed) else RunFailed(error.message, next_step=error.next_step)
