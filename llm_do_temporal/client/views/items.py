"""Items of a batch and their outcomes, as the histories of its run tell them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.payloads import first_object
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.batches import ItemCounts, ItemResult, item_path
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.policy.models import cut_reason
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE, is_kept_outside

_OPEN = "not done"
_CANCELLED = (
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED,
)
_TERMINATED = (
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT,
)


@dataclass
class Item:
    """Item of a batch, as far as the histories tell."""

    name: str
    path: str
    status: str = _OPEN
    """`completed`, `failed`, `cancelled`, or `not done`."""
    output: Any = None
    error: dict[str, Any] | None = None
    """`code`, `message` and `next`, like the error of a run."""
    truncated: str | None = None
    """Reason why its answer was cut; None: it was not."""
    usage: Usage = field(default_factory=Usage)
    """Usage of the item's worker and everything below it."""

    @property
    def is_open(self) -> bool:
        """Whether the item has no outcome yet."""
        return self.status == _OPEN

    def take_end(self, event: HistoryEvent) -> bool:
        """Take in how the item's workflow ended, by its own last event or by that of the run; False for any other."""
        kind = event.event_type
        if kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
            self._complete(event.workflow_execution_completed_event_attributes.result.payloads)
        elif kind == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
            self._complete(event.child_workflow_execution_completed_event_attributes.result.payloads)
        elif kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            self._take_failure(event.workflow_execution_failed_event_attributes.failure)
        elif kind == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED:
            self._take_failure(event.child_workflow_execution_failed_event_attributes.failure.cause)
        elif kind in _CANCELLED:
            self.status = "cancelled"
        elif kind in _TERMINATED:
            self.fail("RunFailed", "it was terminated")
        else:
            return False
        return True

    def _complete(self, payloads: Sequence[Payload]) -> None:
        result = first_object(payloads)
        is_here = not any(map(is_kept_outside, payloads))
        self.output = result.get("output") if is_here else KEPT_OUTSIDE
        self.status, self.usage = "completed", _usage(result.get("usage"))
        self.truncated = cut_reason(result.get("truncated"))

    def _take_failure(self, failure: Failure) -> None:
        told = first_object(failure.application_failure_info.details.payloads)
        code = failure.application_failure_info.type or "RunFailed"
        self.fail(code, failure.message, told.get("next_step"))
        self.usage = _usage(told.get("usage"))

    def take_result(self, result: ItemResult) -> bool:
        """Take in the run's result for an item that never became a workflow; False where there is nothing new."""
        if not self.is_open or result.status != "failed":
            return False
        self.fail(result.code or "RunFailed", result.message or "")
        return True

    def as_json(self) -> dict[str, Any]:
        """Return the object that stands for the item in results."""
        counts = {"requests", "tool_calls", "input_tokens", "output_tokens"}
        guess = {"estimated_requests": self.usage.estimated} if self.usage.estimated else {}
        cost = None if self.usage.cost_usd is None else float(self.usage.cost_usd)
        return {
            "item": self.name,
            "path": self.path,
            "status": self.status,
            "output": self.output,
            **({} if self.truncated is None else {"truncated": self.truncated}),
            "error": self.error,
            "usage": self.usage.model_dump(include=counts) | guess,
            "cost_usd": cost,
            "unpriced_models": list(self.usage.unpriced),
        }

    def fail(self, code: str, message: str, next_step: Any = None) -> None:
        """Note that it failed."""
        self.status, self.error = "failed", {"code": code, "message": message, "next": next_step}


def counts_of(items: Collection[Item], status: str) -> ItemCounts | None:
    """Return the counts of a batch's items; None without any, as in any other run.

    Once the run itself has completed, as its `status` says, whatever has no result counts as failed.
    """
    if not items:
        return None
    statuses = [item.status for item in items]
    completed, failed = statuses.count("completed"), statuses.count("failed")
    if status == "completed":
        failed = len(statuses) - completed
    return ItemCounts(total=len(statuses), completed=completed, failed=failed)


def with_counts(status: str, counts: ItemCounts | None) -> str:
    """Return the status of a run; of a batch with its counts, like `completed, 1 of 4 failed`."""
    return status if counts is None else counts.with_state(status)


def failed_items(items: Iterable[Item]) -> list[str]:
    """Return the names of a completed batch's items that have no result, in their order."""
    return [item.name for item in items if item.status != "completed"]


def items_of(run: str, started: HistoryEvent) -> dict[str, Item]:
    """The items of a run by the ids of their workflows; none for a run without a batch."""
    given = first_object(started.workflow_execution_started_event_attributes.input.payloads)
    batch = cast("dict[str, Any]", given.get("batch") or {})
    items = cast("list[dict[str, Any]]", batch.get("items") or [])
    paths = [item_path(number) for number in range(1, len(items) + 1)]
    return {f"{run}/{path}": _item(path, item) for path, item in zip(paths, items, strict=True)}


def _item(path: str, given: dict[str, Any]) -> Item:
    item, unusable = Item(str(given.get("name")), path), given.get("unusable")
    if unusable:
        item.fail(UsageError.__name__, str(unusable))
    return item


def results_of(completed: HistoryEvent) -> list[ItemResult]:
    """Return the outcomes of the items in the result of a completed run."""
    result = first_object(completed.workflow_execution_completed_event_attributes.result.payloads)
    return [ItemResult.model_validate(one) for one in cast("list[Any]", result.get("items") or [])]


def _usage(value: Any) -> Usage:
    return Usage.model_validate(value or {})
