"""A batch says how many of its items have failed, wherever its state is shown."""

from __future__ import annotations

import pytest

from llm_do_temporal.cli.output import counts_json
from llm_do_temporal.cli.terminal.run_picture import totals_line
from llm_do_temporal.client.views.items import Item, counts_of, with_counts
from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.messages.batches import Batch, BatchItem, ItemCounts, ItemResult
from llm_do_temporal.messages.runs import RunMemo, StartRunInput
from tests.support.workflow.moments import START


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
