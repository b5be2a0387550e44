"""The spans of a run: of itself, its invocations, their turns, tool calls and approvals.

Owns their attributes beside their shapes (`telemetry.contents`), by the GenAI conventions of OpenTelemetry where there
are any. Content (prompts, arguments, results) is recorded only where that is configured.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, cast

from opentelemetry.trace import Span
from pydantic_ai.messages import ModelResponse
from temporalio import workflow

from llm_do_temporal.definitions.workers.places import GENERATED
from llm_do_temporal.messages.approvals import Approval, RequestApprovalInput, Verdict
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.models import full_name, models_of
from llm_do_temporal.telemetry.contents import (
    approval_shape,
    as_text,
    invocation_shape,
    run_shape,
    scrubbed,
    tool_shape,
)
from llm_do_temporal.telemetry.spans import fail, shows_content, span, will_tell

_NAME_CHARS = 100


@contextmanager
def run_span(payload: Any) -> Generator[Span]:
    """The span of the whole run. The payload has not been checked yet and may be anything."""
    given = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    worker = str(given.get("worker") or "")[:_NAME_CHARS]
    name, attributes = run_shape(workflow.info().workflow_id, worker)
    with span(
        name, attributes | content_attribute("llm_do.prompt", given.get("prompt")), workflow_wide=True
    ) as current:
        yield current


@contextmanager
def invocation_span(invocation: InvokeWorkerInput) -> Generator[Span]:
    """The span of one invocation."""
    worker = invocation.worker
    name, attributes = invocation_shape(
        worker.name,
        workflow_id=workflow.info().workflow_id,
        path=invocation.path,
        depth=invocation.depth,
        sha256=worker.sha256,
        model=full_name(invocation.settings.models.aliases, models_of(invocation.model)[0]),
    )
    attributes |= {
        "llm_do.run": invocation.run,
        **content_attribute("gen_ai.system_instructions", worker.instructions),
        **content_attribute("llm_do.prompt", invocation.prompt),
    }
    with span(name, attributes, workflow_wide=True) as current:
        yield current


def tell_result(current: Span, output: Any, usage: Usage) -> None:
    """Record the usage of a run or an invocation with all below it and, where content is wanted, its output."""
    if will_tell(current):
        spent = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        current.set_attributes({f"gen_ai.usage.{name}": count for name, count in spent.items()})
        current.set_attributes(content_attribute("llm_do.output", output))


@contextmanager
def tool_span(tool: str, args: dict[str, Any], call_id: str | None) -> Generator[Span]:
    """The span of a tool call, from the model's request to the result, waiting for people included."""
    name, attributes = tool_shape(tool, None if call_id is None else call_id[:_NAME_CHARS])
    with span(name, attributes | content_attribute("gen_ai.tool.call.arguments", args)) as current:
        yield current


def tell_outcome(current: Span, value: Any, failure: Exception | None) -> None:
    """Record the failure of a tool call, or where content is wanted, its result."""
    if failure is not None:
        fail(current, failure)
    elif will_tell(current):
        current.set_attributes(content_attribute("gen_ai.tool.call.result", value))


@contextmanager
def approval_span(request: RequestApprovalInput) -> Generator[Span]:
    """The span of a question, from being asked to being answered."""
    name, attributes = approval_shape(request.tool)
    with span(name, attributes | content_attribute("llm_do.summary", request.summary)) as current:
        yield current


def tell_verdict(current: Span, verdict: Verdict) -> None:
    """Record the decision on a question; its author and note only where content is wanted."""
    if will_tell(current):
        current.set_attributes(
            {"llm_do.approval.decision": verdict.decision.value, "llm_do.approval.door": verdict.door}
        )
        current.set_attributes(
            content_attribute("llm_do.approval.by", verdict.by)
            | content_attribute("llm_do.approval.note", verdict.note)
        )


def content_attribute(name: str, value: Any) -> dict[str, Any]:
    """Return an attribute that holds content; no attribute unless content is wanted and the value is not empty."""
    return {name: as_text(scrubbed(value, binary=False))} if value and shows_content() else {}


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
