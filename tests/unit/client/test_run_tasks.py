"""Words that people call a run by, or an item of a batch."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.client.start_options import start_options
from llm_do_temporal.messages.batches import Batch, BatchItem
from llm_do_temporal.messages.runs import RunMemo, StartRunInput

ITEMS = Batch(
    items=(
        BatchItem(name="rows.jsonl:1", prompt="Reply to Bob\nsoon"),
        BatchItem(name="rows.jsonl:2", input={"n": 2}),
        BatchItem(name="c.pdf"),
    )
)


@pytest.mark.parametrize(
    ("start", "path", "task"),
    [
        ({"prompt": "\n Tidy up \nnow", "input": {"n": 1}}, "main", "Tidy up"),
        ({"input": {"to": "Zoë", "n": 1}}, "main", '{"to": "Zoë", "n": 1}'),
        ({"input": False}, "main/helper", "false"),
        ({"params": {"tone": "dry"}}, "main", '{"tone": "dry"}'),
        ({}, "main", ""),
        ({"input": "x" * 1_000}, "main", '"' + "x" * 199),
        ({"batch": ITEMS}, "main", ""),
        ({"batch": ITEMS}, "main/item-1", "Reply to Bob"),
        ({"batch": ITEMS}, "main/item-2/judge", '{"n": 2}'),
        ({"batch": ITEMS}, "main/item-3", "c.pdf"),
        ({"batch": ITEMS, "prompt": "Be brief."}, "main/item-3", "c.pdf: Be brief."),
        ({"batch": ITEMS, "input": {"n": 1}}, "main/item-1", 'Reply to Bob: {"n": 1}'),
        ({"batch": ITEMS, "input": {"n": 1}}, "main/item-2", '{"n": 2}'),  # the item's own is used instead
        ({"batch": ITEMS, "prompt": "Go"}, "main/item-4", "Go"),
        ({"batch": ITEMS, "prompt": "Go"}, "main/item-0", "Go"),
        ({"batch": ITEMS, "prompt": "Go"}, "main/item-10", "Go"),
        ({"batch": ITEMS, "prompt": "Go"}, "main/item-1x", "Go"),
        ({"prompt": "Go"}, "main/item-1", "Go"),  # a worker that is called item
    ],
)
def test_a_task_is_the_prompt_or_the_input_and_of_an_item_its_own(start: dict[str, Any], path: str, task: str) -> None:
    assert StartRunInput(worker="main", **start).task(path) == task


def test_lists_and_the_server_are_told_the_task() -> None:
    start = StartRunInput(worker="main", input={"n": 1})
    assert RunMemo.of(start).task == '{"n": 1}'
    assert start_options(start, "run")["static_summary"] == 'main: {"n": 1}'
