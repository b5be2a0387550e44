"""The metrics there are, by where they come from, and those that a PromQL query uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import promql_parser

from llm_do_temporal.workflows.runtime.spans import COST, TOKENS, WAITED
from worker_service.metrics import PENDING

_COUNTERS = """
    activity_execution_failed activity_task_received local_activity_total long_request request request_failure
    sticky_cache_hit worker_start workflow_canceled workflow_completed workflow_continue_as_new workflow_failed
    workflow_task_execution_failed workflow_task_queue_poll_succeed
"""
_GAUGES = "num_pollers sticky_cache_size worker_task_slots_available worker_task_slots_used"
_TIMES = """
    activity_execution_latency activity_schedule_to_start_latency activity_succeed_endtoend_latency
    local_activity_execution_latency local_activity_succeed_endtoend_latency long_request_latency request_latency
    workflow_endtoend_latency workflow_task_execution_latency workflow_task_replay_latency
    workflow_task_schedule_to_start_latency
"""
"""The SDK's, as a worker service with metrics answered at `/metrics`."""


def _histogram(name: str) -> list[str]:
    return [f"{name}_{part}" for part in ("bucket", "sum", "count")]


METRICS: frozenset[str] = frozenset(
    {
        PENDING,
        f"{TOKENS}_total",
        *(part for name in (COST, WAITED) for part in _histogram(name)),
        *(f"temporal_{name}_total" for name in _COUNTERS.split()),
        *(f"temporal_{name}" for name in _GAUGES.split()),
        *(f"temporal_{part}" for name in _TIMES.split() for part in _histogram(name)),
        # The Temporal server's, as it answered at its own endpoint.
        *("service_requests", *_histogram("service_latency"), *_histogram("persistence_latency")),
        # Prometheus' own, of everything it asks.
        "up",
    }
)


def used_metrics(query: str) -> set[str]:
    """The metrics in a PromQL query. Raises ValueError for what is none."""
    return {selector.name for selector in _selectors(promql_parser.parse(query)) if selector.name}


def _selectors(expression: Any) -> Iterator[promql_parser.VectorSelector]:
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
        return
    parts = [getattr(expression, name, None) for name in ("expr", "lhs", "rhs", "vector_selector", "param")]
    for part in (*parts, *cast("list[Any]", getattr(expression, "args", None) or [])):
        if part is not None:
            yield from _selectors(part)
