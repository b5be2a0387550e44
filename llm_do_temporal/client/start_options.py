"""Options with which every door starts the workflow of a run: what lists show of it, and its turn among others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypedDict

from temporalio import activity
from temporalio.common import (
    Priority,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)

from llm_do_temporal.messages.base import (
    PENDING_ATTRIBUTE,
    RUN_MEMO,
    STATE_ATTRIBUTE,
    TASK_TIMEOUT,
    WORKER_ATTRIBUTE,
)
from llm_do_temporal.messages.runs import RunMemo, StartRunInput, listed_worker
from llm_do_temporal.messages.sizes import SUMMARY_CHARS
from llm_do_temporal.policy.queues import BATCH_PRIORITY, fairness_key

_STATE = SearchAttributeKey.for_keyword(STATE_ATTRIBUTE)
_PENDING = SearchAttributeKey.for_int(PENDING_ATTRIBUTE)
_WORKER = SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)


class StartOptions(TypedDict):
    """Arguments of Temporal's `start_workflow`, but for the workflow, its input, its id and its task queue."""

    task_timeout: timedelta
    memo: dict[str, Any]
    search_attributes: TypedSearchAttributes | None
    static_summary: str
    priority: Priority
    id_reuse_policy: WorkflowIDReusePolicy
    id_conflict_policy: WorkflowIDConflictPolicy


def start_options(request: StartRunInput, run: str, *, sets_attributes: bool = True, digest: str = "") -> StartOptions:
    """Return the options of a run with this id; `sets_attributes`: the namespace knows our search attributes.

    `digest` is that of the request of a door, which the run keeps.
    """
    return {
        "task_timeout": TASK_TIMEOUT,
        "memo": {RUN_MEMO: RunMemo.of(request, request=digest)},
        "search_attributes": _attributes(request) if sets_attributes else None,
        "static_summary": f"{request.worker}: {request.task()}"[:SUMMARY_CHARS],
        "priority": _priority(request, run),
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
        "id_conflict_policy": WorkflowIDConflictPolicy.FAIL,
    }


def _priority(request: StartRunInput, run: str) -> Priority:
    """Runs take turns where work waits, and single questions come before batches. A tool's runs share its run's."""
    inherited = activity.info().priority if activity.in_activity() else Priority()
    return Priority(
        priority_key=inherited.priority_key or (None if request.batch is None else BATCH_PRIORITY),
        fairness_key=inherited.fairness_key or fairness_key(run),
        fairness_weight=inherited.fairness_weight,
    )


def _attributes(request: StartRunInput) -> TypedSearchAttributes:
    """Return the search attributes of a run that begins; its workflow changes those that turn out otherwise."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(_STATE, "running"),
            SearchAttributePair(_PENDING, 0),
            SearchAttributePair(_WORKER, listed_worker(request.worker)),
        ]
    )
