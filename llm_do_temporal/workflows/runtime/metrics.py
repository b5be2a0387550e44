"""Metrics of runs, for the endpoint of their worker service. A replay counts nothing again.

Owns the names. No label tells the contents of a run: labels are names of workers and of models. Names that models
give to workers they make are no labels, because a model may make any number of them.
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
"""Label for a question that no model caused."""
GENERATED_WORKERS = str(GENERATED)
"""Label of all workers that models made."""
_MOST = 1_000_000_000
"""Largest amount that is counted at once; a larger one is counted as this."""


def worker_label(name: str, *, generated: bool) -> str:
    """Return the label of a worker."""
    return GENERATED_WORKERS if generated else name


def is_generated(worker: PinnedWorker) -> bool:
    """Whether a model made the worker."""
    return PurePosixPath(worker.source).is_relative_to(GENERATED)


def count_turn(response: ModelResponse, *, worker: str, model: str) -> None:
    """Count the tokens of a turn, and its cost in dollars where the price is known."""
    meter = workflow.metric_meter().with_additional_attributes({"worker": worker, "model": model})
    tokens = meter.create_counter(TOKENS, "Tokens of model turns", "token")
    tokens.add(int(_countable(response.usage.input_tokens)), {"direction": "input"})
    tokens.add(int(_countable(response.usage.output_tokens)), {"direction": "output"})
    if response.usage.cost is not None:
        meter.create_histogram_float(COST, "Cost of model turns whose price is known", "usd").record(
            _countable(response.usage.cost)
        )


def count_answer(approval: Approval) -> None:
    """Record the time that a question waited for a person; one that a grant, an entry or a script answers does not."""
    if approval.verdict is None or approval.verdict.door in ("grant", "rule", "script"):
        return
    request, decision = approval.request, approval.verdict.decision.value
    worker = worker_label(request.worker, generated=request.generated)
    meter = workflow.metric_meter().with_additional_attributes(
        {"worker": worker, "model": request.model or UNKNOWN, "decision": decision}
    )
    waited = (approval.verdict.at - approval.asked_at).total_seconds()
    meter.create_histogram_float(WAITED, "Time from a question to its answer", "s").record(_countable(waited))


def _countable(amount: float | Decimal) -> float:
    """Return the amount within the bounds that a metric can take: a provider may report any amount, and an error here
    would stop the run."""
    return max(0.0, float(min(amount, _MOST)))
