"""A batch: several items at a time and no more, as far as the limits go; an item that fails stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError, ChildWorkflowError, RetryState, TerminatedError

from llm_do_temporal.errors import BudgetExceeded
from llm_do_temporal.messages.approvals import RequestApprovalInput, WithdrawApprovalsInput
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
)
from llm_do_temporal.policy.budget import Account, Action, Amounts, Dimension, Limits, Report
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.workflows.run import batch as batch_module
from llm_do_temporal.workflows.run.batch import MAX_EVENTS, BatchWork
from tests.support.workflow.fake_workflow import FakeWorkflow, idle
from tests.support.workflow.invocations import invocation


@dataclass
class Children:
    """The child workflows of a run: each ends when the test says so."""

    started: list[InvokeWorkerInput] = field(default_factory=list[InvokeWorkerInput])
    ended: list[int] = field(default_factory=list[int])
    cancelled: list[int] = field(default_factory=list[int])
    outcomes: dict[int, asyncio.Future[InvocationResult]] = field(
        default_factory=dict[int, "asyncio.Future[InvocationResult]"]
    )

    async def run(self, started: InvokeWorkerInput) -> InvocationResult:
        """Stands in for `run_child`."""
        number = int(started.path.rpartition("-")[2])
        self.started.append(started)
        outcome = self.outcomes[number] = asyncio.Future()
        try:
            return await outcome
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.cancelled.append(number)
            raise

    @property
    def under_way(self) -> list[int]:
        """Numbers of the items that have begun and not ended."""
        return sorted(set(self.outcomes) - set(self.ended))

    async def end(self, *numbers: int, failure: Exception | None = None, **usage: Any) -> None:
        """End these children, in this order, and let the batch go on."""
        for number in numbers:
            if failure is None:
                self.outcomes[number].set_result(InvocationResult(output="", usage=Usage(**usage)))
            else:
                self.outcomes[number].set_exception(failure)
            self.ended.append(number)
        await idle()


@dataclass
class QuietDesk:
    """A desk that keeps what it is told, and answers nothing."""

    asking_paths: list[str] = field(default_factory=list[str])
    reports: list[Report] = field(default_factory=list[Report])
    withdrawn: list[WithdrawApprovalsInput] = field(default_factory=list[WithdrawApprovalsInput])

    async def ask(self, request: RequestApprovalInput) -> None:
        """See DeskLink. A batch as a whole has no question."""
        raise AssertionError(request)

    async def withdraw(self, withdrawal: WithdrawApprovalsInput) -> None:
        """See DeskLink."""
        self.withdrawn.append(withdrawal)

    async def report(self, report: Report) -> None:
        """See DeskLink."""
        self.reports.append(report)

    def show(self, details: str) -> None:
        """See DeskLink."""
        raise AssertionError(details)


@pytest.fixture
def children(fake_workflow: FakeWorkflow, monkeypatch: pytest.MonkeyPatch) -> Children:
    """The children of the run that the code under test is."""
    fake_workflow.info.workflow_id = "r"
    children = Children()
    monkeypatch.setattr(batch_module, "run_child", children.run)
    return children


def items(count: int) -> tuple[BatchItem, ...]:
    return tuple(BatchItem(name=f"line {number}") for number in range(1, count + 1))


def work_on(
    count: int,
    concurrency: int,
    desk: QuietDesk | None = None,
    *,
    continued: ContinuedBatch | None = None,
    **entry: Any,
) -> BatchWork:
    """The work on a batch of this many items; `entry` are fields of the entry worker's invocation."""
    return work_of(Batch(items=items(count), concurrency=concurrency), desk, continued, invocation(**entry))


def work_of(
    batch: Batch,
    desk: QuietDesk | None = None,
    continued: ContinuedBatch | None = None,
    entry: InvokeWorkerInput | None = None,
    **start: Any,
) -> BatchWork:
    """The work on a batch; `start` are fields of the run's start."""
    return BatchWork(StartRunInput(worker="w", **start), batch, continued, entry or invocation(), desk or QuietDesk())


def before(*done: int, **more: Any) -> ContinuedBatch:
    """The state of a batch that was continued as new after these items."""
    return ContinuedBatch(
        done={number: ItemResult(name=f"line {number}", status="completed") for number in done},
        usage=Usage(requests=7),
        spending=Spending(**more),
    )


async def test_no_more_items_are_under_way_than_the_batch_allows(children: Children) -> None:
    work = work_on(5, 2)
    running = asyncio.create_task(work.run())
    await idle()
    assert children.under_way == [1, 2]
    await children.end(2)
    assert children.under_way == [1, 3]
    await children.end(1, 3)
    assert children.under_way == [4, 5]
    await children.end(4, 5)
    assert await running
    assert [(started.path, started.item) for started in children.started] == [
        (f"main/item-{number}", f"line {number}") for number in range(1, 6)
    ]


async def test_results_are_in_the_order_of_the_items_whichever_ends_first(children: Children) -> None:
    work = work_on(3, 3)
    running = asyncio.create_task(work.run())
    await idle()
    await children.end(3, requests=1)
    await children.end(1, requests=2)
    assert [result.name for result in work.results] == ["line 1", "line 3"]
    await children.end(2, requests=4)
    assert await running
    assert [result.name for result in work.results] == ["line 1", "line 2", "line 3"]
    assert {result.status for result in work.results} == {"completed"}
    assert work.usage.requests == 7


def failed(cause: Exception) -> ChildWorkflowError:
    """The error of a child workflow that ended with this cause."""
    error = ChildWorkflowError(
        "Child Workflow execution failed",
        namespace="default",
        workflow_id="r/main/item-1",
        run_id="1",
        workflow_type="LlmDoWorker",
        initiated_event_id=1,
        started_event_id=2,
        retry_state=RetryState.NON_RETRYABLE_FAILURE,
    )
    error.__cause__ = cause
    return error


async def test_an_item_that_fails_is_counted_and_stops_no_other(children: Children) -> None:
    details = {"usage": Usage(requests=3).model_dump(mode="json")}
    desk = QuietDesk()
    work = work_on(2, 1, desk)
    running = asyncio.create_task(work.run())
    await idle()
    await children.end(1, failure=failed(ApplicationError("it is down", details, type="ModelFailed")))
    assert children.under_way == [2]
    await children.end(2, requests=1)
    assert await running
    first, second = work.results
    assert first == ItemResult(name="line 1", status="failed", code="ModelFailed", message="it is down")
    assert second.status == "completed"
    assert work.usage.requests == 4
    assert work.counts == ItemCounts(total=2, completed=1, failed=1)
    assert (desk.reports, desk.withdrawn) == ([], [])  # the child said so itself


@pytest.mark.parametrize(("limited", "reports"), [((Dimension.TURNS,), ["lost"]), ((), [])])
async def test_the_batch_speaks_for_an_item_that_was_terminated(
    children: Children, limited: tuple[Dimension, ...], reports: list[str]
) -> None:
    desk = QuietDesk()
    work = work_on(1, 1, desk, limited=limited)
    running = asyncio.create_task(work.run())
    await idle()
    await children.end(1, failure=failed(TerminatedError("enough")))
    assert await running
    assert [report.ended for report in desk.reports] == reports
    assert [withdrawn.invocation for withdrawn in desk.withdrawn] == ["r/main/item-1"]
    assert [result.code for result in work.results] == ["RunFailed"]


async def test_an_item_with_too_large_an_attachment_does_not_begin(children: Children) -> None:
    huge = Attachment(path="a.pdf", sha256="0" * 64, bytes=10**12, media_type="application/pdf")
    batch = Batch(items=(BatchItem(name="huge", attachments=(huge,)), *items(1)))
    work = work_of(batch)
    running = asyncio.create_task(work.run())
    await idle()
    await children.end(2)
    assert await running
    assert [(result.name, result.code) for result in work.results] == [("huge", "AttachmentRefusal"), ("line 1", None)]
    assert [started.path for started in children.started] == ["main/item-2"]


async def test_an_item_whose_file_could_not_be_used_fails_and_nothing_is_started_for_it(children: Children) -> None:
    batch = Batch(items=(BatchItem(name="empty", unusable="it is empty"), *items(1)))
    work = work_of(batch, entry=invocation(limited=(Dimension.INVOCATIONS,)))
    running = asyncio.create_task(work.run())
    await idle()
    await children.end(2)
    assert await running
    assert work.results[0] == ItemResult(name="empty", status="failed", code="UsageError", message="it is empty")
    assert [started.path for started in children.started] == ["main/item-2"]  # which the run's limit has counted
    assert work.counts == ItemCounts(total=2, completed=1, failed=1)


async def test_an_item_adds_to_the_prompt_of_the_run_and_replaces_its_input(children: Children) -> None:
    batch = Batch(items=(BatchItem(name="own", prompt="this", input={"n": 1}), BatchItem(name="none")))
    running = asyncio.create_task(work_of(batch, prompt="all", input={"n": 0}).run())
    await idle()
    own, none = children.started
    assert (own.prompt, own.input) == ("all\n\nthis", {"n": 1})
    assert (none.prompt, none.input) == ("all", {"n": 0})
    await children.end(1, 2)
    assert await running


async def test_every_item_but_the_first_waits_until_the_limits_allow_an_invocation(children: Children) -> None:
    desk = QuietDesk()
    work = work_on(3, 3, desk, limited=(Dimension.INVOCATIONS,))
    running = asyncio.create_task(work.run())
    await idle()
    assert children.under_way == [1]  # the run's limit has counted one invocation from the start
    assert [report.wants.invocations for report in desk.reports] == [1]
    await work.take(granted(1))
    await idle()
    assert children.under_way == [1, 2]
    await work.take(granted(2))
    await idle()
    assert children.under_way == [1, 2, 3]
    await children.end(1, 2, 3)
    assert await running


async def test_a_continued_batch_has_spent_its_first_invocation_before(children: Children) -> None:
    work = work_on(2, 2, continued=before(1), limited=(Dimension.INVOCATIONS,))
    running = asyncio.create_task(work.run())
    await idle()
    assert children.under_way == []
    await work.take(granted(1))
    await idle()
    assert children.under_way == [2]
    await children.end(2, requests=1)
    assert await running
    assert [result.name for result in work.results] == ["line 1", "line 2"]
    assert work.usage.requests == 8


async def test_at_a_limit_of_the_run_nothing_more_begins_and_all_under_way_is_cancelled(children: Children) -> None:
    limits = Limits(turns=4)
    plain = invocation()
    entry = plain.model_copy(update={"settings": plain.settings.model_copy(update={"limits": limits})})
    work = work_of(Batch(items=items(4), concurrency=2), entry=entry)
    running = asyncio.create_task(work.run())
    await idle()
    await children.end(1)
    account = Account(path="", owner="r", limits=limits, steps=limits, spent=Amounts(turns=4), reached=Dimension.TURNS)
    await work.take(Action(kind="reached", invocation="r", account=account))
    with pytest.raises(BudgetExceeded, match="the run has spent 4 turns"):  # asked of no person
        await running
    assert sorted(children.cancelled) == [2, 3]
    assert [started.path for started in children.started][-1] == "main/item-3"
    assert [result.name for result in work.results] == ["line 1"]


async def test_a_cancelled_batch_waits_for_its_items(children: Children) -> None:
    running = asyncio.create_task(work_on(3, 2).run())
    await idle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(children.cancelled) == [1, 2]


async def test_a_long_history_lets_items_end_and_none_begin(children: Children, fake_workflow: FakeWorkflow) -> None:
    work = work_on(4, 2)
    running = asyncio.create_task(work.run())
    await idle()
    fake_workflow.info.suggested = True
    await children.end(1)
    assert children.under_way == [2]
    await children.end(2)
    assert not await running
    assert [result.name for result in work.results] == ["line 1", "line 2"]


async def test_an_item_that_waits_for_a_person_lets_another_begin(children: Children) -> None:
    desk = QuietDesk()
    running = asyncio.create_task(work_on(5, 2, desk).run())
    await idle()
    assert children.under_way == [1, 2]
    # The second question is of a worker that the item has called, and the third is the same item's again.
    desk.asking_paths = ["main/item-1", "main/item-2/callee", "main/item-2"]
    await idle()
    assert children.under_way == [1, 2, 3, 4]
    desk.asking_paths = []  # all go on at once, and nothing new begins
    await children.end(3, 4)
    assert children.under_way == [1, 2]
    await children.end(1)
    assert children.under_way == [2, 5]
    await children.end(2, 5)
    assert await running


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_no_more_than_so_many_waiting_items_let_others_begin(
    children: Children, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(batch_module, "MOST_WAITING", most)
    desk = QuietDesk(asking_paths=[f"main/item-{number}" for number in range(1, 7)])
    running = asyncio.create_task(work_on(9, 2, desk).run())
    await idle()
    assert children.under_way == list(range(1, 3 + most))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def closes_question(desk: QuietDesk, _workflow: FakeWorkflow) -> None:
    desk.asking_paths = []


def fills_history(_desk: QuietDesk, workflow: FakeWorkflow) -> None:
    workflow.info.history_length = MAX_EVENTS + 1


@pytest.mark.parametrize("change", [closes_question, fills_history])
async def test_items_begin_in_a_long_history_while_a_person_is_asked_up_to_a_length(
    children: Children, fake_workflow: FakeWorkflow, change: Callable[[QuietDesk, FakeWorkflow], None]
) -> None:
    desk = QuietDesk(asking_paths=["main/item-9"])
    fake_workflow.info.suggested, fake_workflow.info.history_length = True, MAX_EVENTS
    running = asyncio.create_task(work_on(3, 1, desk).run())
    await idle()
    await children.end(1)
    assert children.under_way == [2]
    change(desk, fake_workflow)
    await children.end(2)
    assert not await running
    assert len(children.started) == 2


def granted(number: int) -> Action:
    """The grant of one invocation to the run."""
    return Action(kind="grant", invocation="r", number=number, amounts=Amounts(invocations=1))
