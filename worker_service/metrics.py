"""Metrics for Prometheus: the SDK's own, the counts of runs, and the number of pending approvals.

Owns the endpoint. The names of the counts of runs are in `workflows.runtime.metrics`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import TypeAlias

from temporalio.client import Client
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)
from temporalio.service import RPCError

from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, RUN_WORKFLOW, WORKER_ATTRIBUTE
from llm_do_temporal.workflows.runtime.spans import COST, UNKNOWN, WAITED, worker_label

PENDING = "llm_do_approvals_pending"
POLL_SECONDS = 15.0
_LONGEST_POLL_SECONDS = 300.0
_PAUSE_FACTOR = 20
"""Shortest pause, in durations of the last count: all services of a namespace count."""
_DOLLARS = [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0]
_SECONDS = [1.0, 10.0, 60.0, 600.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0]
_OPEN = f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus = 'Running' AND {PENDING_ATTRIBUTE} > 0"
Asker: TypeAlias = tuple[str, str]
"""Worker and model of an approval."""
_log = logging.getLogger("worker_service")


def install_runtime(address: str, port: int | None) -> Runtime:
    """Make the SDK log through Python and, with a port, serve metrics there. Call it before any connection.

    Raises UsageError for a port that cannot be had.
    """
    bind = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    buckets = {COST: _DOLLARS, WAITED: _SECONDS}
    try:
        runtime = Runtime(
            telemetry=TelemetryConfig(
                logging=LoggingConfig(
                    TelemetryFilter(core_level="WARN", other_level="ERROR"),
                    forwarding=LogForwardingConfig(logging.getLogger("temporalio.core")),
                ),
                metrics=None
                if port is None
                else PrometheusConfig(
                    bind,
                    counters_total_suffix=True,
                    unit_suffix=False,
                    durations_as_seconds=True,
                    histogram_bucket_overrides=buckets,
                ),
            )
        )
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"metrics cannot be served at {bind}: {(str(error).splitlines() or [''])[0]}") from error
    Runtime.set_default(runtime)
    return runtime


async def watch_pending(client: Client, runtime: Runtime) -> None:
    """Set the gauge of pending approvals in the namespace, by worker and model, again and again, for ever."""
    gauge = runtime.metric_meter.create_gauge(PENDING, "Approvals that wait for a person in this namespace")
    known: set[Asker] = set()
    while True:
        began, pause = time.monotonic(), POLL_SECONDS
        try:
            found = await count_pending(client)
        except RPCError as error:
            _log.warning("pending approvals are not counted: %s", error.message)
        except Exception:
            _log.exception("pending approvals are not counted")
        else:
            for asker in known | set(found):
                gauge.set(found[asker], {"worker": asker[0], "model": asker[1]})
            known |= set(found)
            pause = pause_after(time.monotonic() - began)
        await asyncio.sleep(pause)


def pause_after(took: float) -> float:
    """Return the seconds until the next count, after a count that took `took` seconds."""
    return min(max(POLL_SECONDS, _PAUSE_FACTOR * took), _LONGEST_POLL_SECONDS)


async def count_pending(client: Client) -> Counter[Asker]:
    """Count pending approvals by worker and model.

    Approvals that a run's memo has no room for, or hides, count for the run's first worker. Raises RPCError.
    """
    # Most services count nothing.
    from llm_do_temporal.client.views.server_list import asked_in_all, attribute_of, every_part, read_listing

    found: Counter[Asker] = Counter()
    async for info in (info async for part in every_part(client, _OPEN) for info in part.found):
        listed = await read_listing(info, client.data_converter)
        shown = listed.pending  # none where the memo is another workshop's
        found.update((worker_label(each.worker, generated=each.generated), each.model or UNKNOWN) for each in shown)
        further = asked_in_all(info, listed) - len(shown)
        if further > 0:
            found[attribute_of(info, WORKER_ATTRIBUTE) or UNKNOWN, UNKNOWN] += further
    return found
