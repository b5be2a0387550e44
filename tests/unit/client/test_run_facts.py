"""Facts of a run's record: which items of a batch failed, and why, while it goes on and once it has ended."""

from __future__ import annotations

from llm_do_temporal.client.record.facts import RunFacts
from llm_do_temporal.messages.batches import BatchItem, ItemResult

ITEMS = (BatchItem(name="a.pdf"), BatchItem(name="b.pdf", unusable="the file 'b.pdf' is empty"))


def test_an_open_batch_names_the_items_that_cannot_be_done() -> None:
    assert RunFacts(items=ITEMS).failures == (("b.pdf", "the file 'b.pdf' is empty"),)


def test_a_batch_that_has_ended_names_all_that_failed_with_the_reason() -> None:
    outcomes = (
        ItemResult(name="a.pdf", status="failed", code="ModelFailed", message="no answer"),
        ItemResult(name="b.pdf", status="failed"),
        ItemResult(name="c.pdf", status="completed"),
    )
    assert RunFacts(items=ITEMS, outcomes=outcomes).failures == (("a.pdf", "no answer"), ("b.pdf", ""))


def test_a_run_without_a_batch_has_no_items_that_failed() -> None:
    assert RunFacts(prompt="x").failures == ()
