"""Limits that a call hands on to the invocation it starts."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.budget.limits import Dimension, Limits


def limited_by(limits: Limits, above: tuple[Dimension, ...] = ()) -> tuple[Dimension, ...]:
    """The dimensions that are limited for an invocation with these limits below others."""
    return tuple(dict.fromkeys((*above, *limits.set_ones)))


def limits_for(caller: InvokeWorkerInput, worker: PinnedWorker) -> dict[str, Any]:
    """What the invocation of a callee is told of limits."""
    limited = limited_by(worker.limits, caller.limited)
    return {"limited": limited, "started_at": workflow.now()} if limited else {}
