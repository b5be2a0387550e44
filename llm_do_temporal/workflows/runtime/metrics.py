"""What runs tell the metrics endpoint of their worker service. Nothing is told again on a replay.

Owns the names. No label says anything of what a run is about: they are names of workers and of models, and those that
models give to the workers they make, as many as they like, are none.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import PurePosixPath

from pydantic_ai.messages import ModelResponse
from temporalio import workflow

from llm_do_temporal.definitions.workers.places import GENERATED
from llm_do_temporal.messages.approvals import Approval
from llm_do_temporal.messages.definitions import PinnedWorker

TOKENS = "llm_do_tokens"
COST = "llm_do_turn_cost_usd"
WAITED = "llm_do_approval_wait_seconds"
UNKNOWN = "unknown"
"""The label of what an earlier version did not say."""
GENERATED_WORKERS = str(GENERATED)
"""The label of all workers that models made."""
_MOST = 1_000_000_000
"""More than anything that is counted at once."""


def worker_label(name: str, *, generated: bool) -> str:
    """What a worker is called in metrics."""
    return GENERATED_WORKERS if generated else name


def is_generated(worker: PinnedWorker) -> bool:
    """Whether a model made the worker."""
    return PurePosixPath(worker.source).is_relative_to(GENERATED)


def count_turn(response: ModelResponse, *, worker: str, model: str) -> None:
    """Count what a turn took: tokens, and dollars where the price is known."""
    meter = workflow.metric_meter().with_additional_attributes({"worker": worker, "model": model})
    tokens = meter.create_counter(TOKENS, "Tokens of model turns", "token")
    tokens.add(int(_countable(response.usage.input_tokens)), {"direction": "input"})
    tokens.add(int(_countable(response.usage.output_tokens)), {"direction": "output"})
    if response.usage.cost is not None:
        meter.create_histogram_float(COST, "Cost of model turns whose price is known", "usd").record(
            _countable(response.usage.cost)
        )


def count_answer(approval: Approval) -> None:
    """Count how long a question waited for a person; one that a remembered decision answers did not."""
    if approval.verdict is None or approval.verdict.door == "grant":
        return
    request, decision = approval.request, approval.verdict.decision.value
    worker = worker_label(request.worker, generated=request.generated)
    meter = workflow.metric_meter().with_additional_attributes(
        {"worker": worker, "model": request.model or UNKNOWN, "decision": decision}
    )
    waited = (approval.verdict.at - approval.asked_at).total_seconds()
    meter.create_histogram_float(WAITED, "Time from a question to its answer", "s").record(_countable(waited))


def _countable(amount: float | Decimal) -> float:
    """What a metric can take: a provider may say anything of a turn, and an error here would stop the run."""
    return max(0.0, float(min(amount, _MOST)))
