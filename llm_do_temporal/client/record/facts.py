"""Facts about a run that stand in the first and the last event of its history: what it was given, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistoryEventFilterType

from llm_do_temporal.client.history.events import put_back, read_first
from llm_do_temporal.client.history.payloads import first_object, read_start
from llm_do_temporal.client.views.run_list import ListedRun
from llm_do_temporal.messages.batches import BatchItem, ItemResult
from llm_do_temporal.messages.runs import first_line, task_words
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.models import cut_reason, cut_words
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE, is_kept_outside


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run, as its history tells them."""

    prompt: str = ""
    input: Any = None
    """The typed input; None without one."""
    attachments: tuple[Attachment, ...] = ()
    items: tuple[BatchItem, ...] = ()
    """Items of a batch; empty for other runs."""
    has_result: bool = False
    """Whether it has ended with a result."""
    output: Any = None
    outcomes: tuple[ItemResult, ...] = ()
    """Outcomes of a batch's items, once it has ended."""
    error: str = ""
    next_step: str = ""
    """Advice that came with the error."""
    truncated: str | None = None
    """Reason why the answer that is the output was cut; None: it was not."""

    @property
    def task(self) -> str:
        """The first line of the prompt, whole, or else the beginning of the input; empty where there is neither."""
        return task_words(self.prompt, self.input)

    @property
    def is_told_by_task(self) -> bool:
        """Whether the task is all that the prompt says."""
        return self.prompt.strip() == first_line(self.prompt)

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """Items of a batch that failed, as name and reason; of an open one those whose file cannot be used."""
        if self.outcomes:
            return tuple((one.name, one.message or "") for one in self.outcomes if one.status == "failed")
        return tuple((item.name, item.unusable) for item in self.items if item.unusable)

    @property
    def cuts(self) -> tuple[tuple[str, str], ...]:
        """Items of a batch whose answers were cut, as name and reason."""
        return tuple((one.name, cut_words(one.truncated)) for one in self.outcomes if one.truncated)

    @property
    def cut_words(self) -> str:
        """Clause that says that the result is not whole, and why; empty: it is."""
        return "" if self.truncated is None else cut_words(self.truncated)

    @property
    def all_attachments(self) -> tuple[Attachment, ...]:
        """Files given to the run, and those of its items."""
        return (*self.attachments, *(file for item in self.items for file in item.attachments))


async def read_facts(client: Client, run: ListedRun) -> RunFacts:
    """Return the facts of a run. Raises RPCError and KeyMismatch."""
    facts = facts_at_start(await read_first(client, run.run, run.run_id))
    if run.ended_at is None:
        return facts
    handle = client.get_workflow_handle(run.run, run_id=run.run_id)
    events = handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
    last = await anext(events, None)
    if last is None:
        return facts
    await put_back(last, client.data_converter)
    return facts_at_end(facts, last)


def facts_at_start(started: HistoryEvent) -> RunFacts:
    """Return the facts in the event with which a run, or its newest part, began."""
    payloads = started.workflow_execution_started_event_attributes.input.payloads
    if any(map(is_kept_outside, payloads)):
        return RunFacts(prompt=KEPT_OUTSIDE)
    start = read_start(payloads)
    items = () if start.batch is None else start.batch.items
    return RunFacts(start.prompt, start.input, start.attachments, items)


def facts_at_end(facts: RunFacts, last: HistoryEvent) -> RunFacts:
    """Return the facts with those of the last event."""
    failure = last.workflow_execution_failed_event_attributes.failure
    told = first_object(failure.application_failure_info.details.payloads)
    completed = last.workflow_execution_completed_event_attributes.result.payloads
    result = first_object(completed)
    output = KEPT_OUTSIDE if any(map(is_kept_outside, completed)) else result.get("output")
    return RunFacts(
        facts.prompt,
        facts.input,
        facts.attachments,
        facts.items,
        has_result=last.HasField("workflow_execution_completed_event_attributes"),
        output=output,
        outcomes=tuple(_outcomes(result.get("items"))),
        error=failure.message,
        next_step=str(told.get("next_step") or ""),
        truncated=cut_reason(result.get("truncated")),
    )


def _outcomes(items: Any) -> list[ItemResult]:
    try:
        return [ItemResult.model_validate(one) for one in items or ()]
    except (ValidationError, TypeError):
        return []
