"""Batches: their progress, their counts, and the ends of their items."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from llm_do_temporal.cli.output import counts_json
from llm_do_temporal.cli.terminal.attend import EVERY_SECONDS, ProgressLines, WorkLines, summary_lines
from llm_do_temporal.cli.terminal.run_picture import totals_line
from llm_do_temporal.client.views.run_view import MOST_ROWS, Item, Node, RunView, counts_of, progress_of, with_counts
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.runs import (
    Batch,
    BatchItem,
    ItemCounts,
    ItemResult,
    PendingApprovalMemo,
    RunMemo,
    StartRunInput,
)
from tests.support.workflow.moments import START, after


def batch(*statuses: str, status: str = "running", ended_after: float | None = None) -> RunView:
    """The view of a batch with items of these statuses, each of which cost a cent and took five seconds."""
    view = RunView("r", status=status, started_at=START, ended_at=None if ended_after is None else after(ended_after))
    for number, state in enumerate(statuses, 1):
        item = Item(f"{number}.pdf", f"main/item-{number}", state)
        view.items[f"r/{item.path}"] = item
        if state == "not done":
            continue
        if state == "failed":
            item.fail("ModelFailed", "no\x1b[1m answer")
        usage = Usage(requests=1, input_tokens=1_000, output_tokens=200, cost_usd=Decimal("0.01"))
        view.nodes[f"r/{item.path}"] = Node(
            f"r/{item.path}", path=item.path, started_at=START, ended_at=after(5), usage=usage, item=item.name
        )
    return view


def question(path: str) -> PendingApprovalMemo:
    return PendingApprovalMemo(
        id="a1", invocation="r", key="k", worker="w", path=path, tool="t", summary="do it", asked_at=START
    )


@pytest.mark.parametrize(
    ("view", "seconds", "line"),
    [
        (batch("not done", "not done"), 20, "0/2 items"),
        (
            batch("completed", "failed", "completed", "not done"),
            90,
            "3/4 items · 1 failed · 2.0 a minute · about 30 s left · $0.0300",
        ),
        (batch("completed", *["not done"] * 59), 60, "1/60 items · 1.0 a minute · about 59 min left · $0.0100"),
        (batch("completed", *["not done"] * 150), 60, "1/151 items · 1.0 a minute · about 2 h 30 min left · $0.0100"),
        # the rate of a run that has ended is that until its end
        (
            batch("completed", "failed", status="completed", ended_after=60),
            9_999,
            "2/2 items · 1 failed · 2.0 a minute · $0.0200",
        ),
    ],
)
def test_progress_has_the_rate_the_rest_and_the_cost(view: RunView, seconds: float, line: str) -> None:
    progress = progress_of(view, after(seconds))
    assert progress is not None
    assert progress.line == line


def test_progress_counts_the_items_that_wait_for_a_person() -> None:
    view = batch("completed", *["not done"] * 3)
    view.pending = [question("main/item-2"), question("main/item-3/callee"), question("main/item-3")]
    progress = progress_of(view, after(60))
    assert progress is not None
    assert progress.line.startswith("1/4 items · 2 waiting for a person · 1.0 a minute")


def test_other_runs_have_no_progress_and_no_summary() -> None:
    assert progress_of(RunView("r"), START) is None
    assert summary_lines(RunView("r"), None) == []


def test_the_summary_has_a_row_for_each_item_with_what_it_took() -> None:
    header, first, second, third = summary_lines(batch("completed", "failed", "not done"), None)
    assert header.split() == ["ITEM", "STATE", "TIME", "TURNS", "TOKENS", "COST", "ERROR"]
    assert first.split() == ["1.pdf", "completed", "5", "s", "1", "1,200", "$0.0100"]
    assert second.endswith("no\\x1b[1m answer")
    assert third.split() == ["3.pdf", "not", "done"]


def test_of_many_items_the_summary_has_those_without_a_result() -> None:
    _, failed, more = summary_lines(batch("failed", *["completed"] * MOST_ROWS), 40)
    assert failed.startswith("1.pdf  failed")
    assert len(failed) == 40
    assert more == f"and {MOST_ROWS} more items: `show` has them all"


def test_progress_is_not_told_more_often_than_people_read(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    lines, view = ProgressLines(enabled=True, clock=lambda: now[0]), batch("completed", "not done")
    told: list[int] = []
    for moment in (1, EVERY_SECONDS, EVERY_SECONDS + 1, 2 * EVERY_SECONDS):
        now[0] = moment
        lines.tell(view)
        told.append(len(capsys.readouterr().err.splitlines()))
    assert told == [0, 1, 0, 1]


def test_a_line_about_the_work_comes_when_it_has_changed_and_not_more_often_than_people_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]
    lines, view = WorkLines(enabled=True, clock=lambda: now[0]), RunView("r", status="running")
    node = view.nodes["r"] = Node("r", path="main", doing={5: "shell\x1b[1m ls"})
    told: list[str] = []
    for moment, doing in ((1, "ls"), (60, "ls"), (61, "make\x1b[1m"), (62, "rm"), (72, "rm"), (90, "")):
        now[0], node.doing = moment, {5: doing} if doing else {}
        lines.tell(view)
        told.append(capsys.readouterr().err)
    assert told == ["main: turn 0, ls\n", "", "main: turn 0, make\\x1b[1m\n", "", "main: turn 0, rm\n", ""]


def test_a_line_about_the_work_names_three_invocations_and_counts_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = RunView("r", status="running")
    for number in range(1, 6):
        view.nodes[f"r/{number}"] = Node(f"r/{number}", path=f"main-{number}", doing={1: "ls"}, started_at=START)
    WorkLines(enabled=True).tell(view)
    assert capsys.readouterr().err.count("turn 0, ls") == 3
    for silent in (batch("not done"), RunView("r", status="completed", nodes=view.nodes)):
        WorkLines(enabled=True).tell(silent)
    WorkLines(enabled=False).tell(view)
    assert capsys.readouterr().err == ""


def test_the_clock_of_a_batch_that_never_began_stands() -> None:
    view = batch("not done")
    view.started_at = None
    progress = progress_of(view, START + timedelta(days=1))
    assert progress is not None
    assert progress.elapsed == timedelta()


def test_what_costs_nothing_is_free() -> None:
    view = batch("completed", status="completed", ended_after=10)
    node = view.nodes["r/main/item-1"]
    node.usage = Usage(requests=1, input_tokens=1_000, output_tokens=200, cost_usd=Decimal())
    assert " free" in "\n".join(summary_lines(view, None))
    progress = progress_of(view, after(10))
    assert progress is not None
    assert progress.line.endswith(" · free")


@pytest.mark.parametrize(
    ("state", "counts", "shown"),
    [
        ("completed", ItemCounts(total=4, completed=3, failed=1), "completed, 1 of 4 failed"),
        ("completed", ItemCounts(total=4, completed=0, failed=4), "completed, 4 of 4 failed"),
        ("completed", ItemCounts(total=4, completed=4), "completed, 4 of 4 done"),
        ("running", ItemCounts(total=4), "running, 4 items"),
        ("running", ItemCounts(total=1), "running, 1 item"),
        ("running", ItemCounts(total=4, completed=2), "running, 2 of 4 done"),
        ("cancelled", ItemCounts(total=4, completed=2, failed=1), "cancelled, 2 of 4 done, 1 failed"),
        ("failed", ItemCounts(total=4, completed=0), "failed, 0 of 4 done"),  # at a limit of the run
        ("completed", None, "completed"),  # no batch
    ],
)
def test_a_state_is_told_with_its_counts(state: str, counts: ItemCounts | None, shown: str) -> None:
    assert with_counts(state, counts) == shown


def test_counts_of_a_workflow_are_those_of_its_results() -> None:
    batch = Batch(items=tuple(BatchItem(name=name) for name in "abc"))
    done = [ItemResult(name="a", status="completed"), ItemResult(name="b", status="failed")]
    assert ItemCounts.of(batch, done) == ItemCounts(total=3, completed=1, failed=1)


def test_the_memo_of_a_batch_has_the_number_of_its_items_from_the_start() -> None:
    batch = Batch(items=tuple(BatchItem(name=name) for name in "abc"))
    assert RunMemo.of(StartRunInput(worker="w", batch=batch)).items == ItemCounts(total=3)
    assert "items" not in RunMemo.of(StartRunInput(worker="w")).model_dump(mode="json")


def items(*statuses: str) -> list[Item]:
    return [Item(f"{number}.pdf", f"main/item-{number}", status) for number, status in enumerate(statuses, 1)]


@pytest.mark.parametrize(
    ("status", "failed"),
    [
        ("completed", 2),  # somebody has cancelled one item by itself
        ("cancelled", 1),
    ],
)
def test_what_has_no_result_has_failed_once_the_run_has_completed(status: str, failed: int) -> None:
    found = counts_of(items("completed", "failed", "cancelled"), status)
    assert found == ItemCounts(total=3, completed=1, failed=failed)


def test_a_run_without_items_has_no_counts() -> None:
    assert counts_of([], "completed") is None
    assert counts_json(None) == {}


def test_counts_as_json_say_how_many_were_not_done() -> None:
    shown = {"total": 4, "completed": 2, "failed": 1, "not_done": 1}
    assert counts_json(ItemCounts(total=4, completed=2, failed=1)) == {"item_counts": shown}
    assert counts_json(ItemCounts(total=4)) == {"item_counts": {"total": 4}}


def test_the_picture_of_a_batch_tells_the_counts() -> None:
    view = RunView("r", status="completed", started_at=START, ended_at=START)
    view.items = {item.path: item for item in items("completed", "failed")}
    assert totals_line(view, START).startswith("completed, 1 of 2 failed · ")
