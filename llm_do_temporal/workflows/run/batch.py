"""A batch: an invocation for each item, several at a time. An item that fails stops no other.

Owns the order of the items, their results, and the lease of the run as a whole. Used by `LlmDoRun`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from temporalio import workflow
from temporalio.exceptions import ChildWorkflowError, FailureError

from llm_do_temporal.desk.entry import prompt_and_input
from llm_do_temporal.errors import LlmDoError, UsageError
from llm_do_temporal.messages.budget import Spending, Usage
from llm_do_temporal.messages.runs import (
    Batch,
    BatchItem,
    ContinuedBatch,
    InvocationResult,
    InvokeWorkerInput,
    ItemCounts,
    ItemResult,
    StartRunInput,
    item_of,
    item_path,
)
from llm_do_temporal.messages.sizes import ITEM_ERROR_CHARS
from llm_do_temporal.policy.budget import Action, Limits
from llm_do_temporal.policy.files.attachments import check_attachments
from llm_do_temporal.policy.identity import delegation_key
from llm_do_temporal.workflows.invocation.budget import BudgetGuard, BudgetLease, within
from llm_do_temporal.workflows.runtime.children import DeskLink, run_child, tell_for_lost
from llm_do_temporal.workflows.runtime.failures import explain, spent_before
from llm_do_temporal.workflows.tools.delegate import build_input, digest_of_worker, with_built_attachments
from llm_do_temporal.workflows.tools.parts import PartHost, parts_of

MAX_EVENTS = 20_000
"""Events up to which a batch goes on in the same history while people are asked: Temporal ends it at 51,200."""
MOST_WAITING = 100
"""Items that wait for a person while others begin in their places; further items that wait keep their places."""

_Running = dict[str, asyncio.Task[None]]
"""Items that are under way, by their places in the run's tree."""


class BatchDesk(DeskLink, Protocol):
    """Desk of a run with a batch."""

    @property
    def asking_paths(self) -> list[str]:
        """Places in the run's tree of the invocations whose questions wait for a person."""
        ...


class BatchWork:
    """The work on the items of one run's batch."""

    def __init__(
        self,
        start: StartRunInput,
        batch: Batch,
        before: ContinuedBatch | None,
        entry: InvokeWorkerInput,
        desk: BatchDesk,
    ) -> None:
        """`entry` is the invocation that items are made from; `before` the progress until now, None for none."""
        self._start = start
        self._batch = batch
        self._entry = entry
        self._desk = desk
        self.done: dict[int, ItemResult] = dict(before.done) if before else _unusable(batch)
        self.usage = before.usage if before else Usage()
        self._left = [number for number in range(1, len(batch.items) + 1) if number not in self.done]
        self._counts_first = before is None
        """Whether the next item is the invocation that the run's limit has counted already, as in every run."""
        own = entry.model_copy(update={"worker": entry.worker.model_copy(update={"limits": Limits()})})
        self.lease = BudgetLease(own, before.spending if before else Spending(), desk.report)
        # A question of the run's own would stand in no history where it is looked for. The run stops at its limits,
        # and a run for the items that are left may be given others.
        self._guard = BudgetGuard(own, self.lease, None)

    @property
    def counts(self) -> ItemCounts:
        """Number of the items, and of those with an outcome so far."""
        return ItemCounts.of(self._batch, self.done.values())

    @property
    def results(self) -> tuple[ItemResult, ...]:
        """Results of the items, in their order."""
        return tuple(result for _, result in sorted(self.done.items()))

    async def run(self) -> bool:
        """Work off items, and return whether all are done; if not, none is under way and the workflow must be continued
        as new.

        Raises BudgetExceeded where the run's limits stop it.
        """
        work = self._run_items()
        return await (within(work, self._guard) if self._guard.is_needed else work)

    async def take(self, action: Action) -> None:
        """Take an action of the desk about limits."""
        await self._guard.apply(action)

    async def _run_items(self) -> bool:
        running: _Running = {}
        try:
            while self._left or running:
                while self._may_begin(running):
                    await self._begin()
                    number = self._left.pop(0)
                    running[item_path(number)] = asyncio.create_task(self._run_item(number))
                if not running:
                    return False
                await workflow.wait_condition(_news(running, self._may_begin))
                for path, task in [(path, task) for path, task in running.items() if task.done()]:
                    del running[path]
                    task.result()
        except asyncio.CancelledError:
            for task in running.values():
                task.cancel()
            if running:
                await workflow.wait(list(running.values()))
            raise
        return True

    def _may_begin(self, running: _Running) -> bool:
        if not self._left or self._is_full():
            return False
        return len(running) < self._batch.concurrency + self._waiting(running)

    def _waiting(self, running: _Running) -> int:
        """Return the number of items that wait for a person and have given up their places."""
        return min(len({item_of(path) for path in self._desk.asking_paths} & running.keys()), MOST_WAITING)

    def _is_full(self) -> bool:
        """Whether no further item may begin, because the workflow is to be continued as new.

        That waits while people are asked, up to MAX_EVENTS.
        """
        info = workflow.info()
        if not info.is_continue_as_new_suggested():
            return False
        return not self._desk.asking_paths or info.get_current_history_length() > MAX_EVENTS

    async def _begin(self) -> None:
        """Wait until the limits allow one more invocation, and reserve it."""
        if self._counts_first:
            self._counts_first = False
            return
        await self.lease.begin_invocation()

    async def _run_item(self, number: int) -> None:
        item = self._batch.items[number - 1]
        try:
            result = await self._run_child(await self._invocation(number, item))
        except LlmDoError as error:
            self.usage = self.usage.plus(spent_before(error))
            message = str(error)[:ITEM_ERROR_CHARS]
            self.done[number] = ItemResult(name=item.name, status="failed", code=error.code, message=message)
        else:
            self.usage = self.usage.plus(result.usage)
            self.done[number] = ItemResult(name=item.name, status="completed", truncated=result.truncated)

    async def _invocation(self, number: int, item: BatchItem) -> InvokeWorkerInput:
        start, worker = self._start, self._entry.worker
        given = start.input if item.input is None else item.input
        invocation = self._entry.model_copy(
            update={
                "path": item_path(number),
                "item": item.name,
                "prompt": "\n\n".join(text for text in (start.prompt, item.prompt) if text.strip()),
                "input": given,
                "attachments": (*start.attachments, *item.attachments),
                "started_at": workflow.now() if self._entry.limited else None,
            }
        )
        check_attachments(worker.attachment_policy, invocation.attachments, whose=f"worker '{worker.name}'")
        if worker.input_ref is None:
            return invocation
        try:
            built = await build_input(worker, worker.input_ref, {} if given is None else given)
        except FailureError as failure:
            raise explain(failure) from failure
        prompt, values = prompt_and_input(built)
        prompt = "\n\n".join(text for text in (invocation.prompt, prompt) if text.strip())
        return await with_built_attachments(invocation.model_copy(update={"prompt": prompt, "input": values}), built)

    async def _run_child(self, invocation: InvokeWorkerInput) -> InvocationResult:
        worker, given = invocation.worker, invocation.input
        digest = digest_of_worker(worker)
        key = delegation_key(worker.name, digest, invocation.model, invocation.prompt, given, invocation.attachments)
        known = (await parts_of(invocation, lambda _name: PartHost()).advice(key)).known
        if known is not None and known.result is not None:
            return known.result.model_copy(update={"usage": known.usage})
        invocation = invocation.model_copy(update={"content_key": key})
        try:
            return await run_child(invocation)
        except ChildWorkflowError as error:
            await tell_for_lost(invocation, error, self._desk)
            raise explain(error) from error


def _unusable(batch: Batch) -> dict[int, ItemResult]:
    """Return the outcomes of the items that cannot begin, by their numbers."""
    return {
        number: ItemResult(
            name=item.name,
            status="failed",
            code=UsageError.__name__,
            message=item.unusable[:ITEM_ERROR_CHARS],
        )
        for number, item in enumerate(batch.items, 1)
        if item.unusable
    }


def _news(running: _Running, may_begin: Callable[[_Running], bool]) -> Callable[[], bool]:
    return lambda: any(task.done() for task in running.values()) or may_begin(running)
