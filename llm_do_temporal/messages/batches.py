"""Batches: one run, and in it one invocation of the same worker for each item."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from llm_do_temporal.messages.approvals import DeskState
from llm_do_temporal.messages.base import Json, Message, Strict
from llm_do_temporal.messages.budget import Spending, Usage
from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.notifications import NotifySettings

DEFAULT_CONCURRENCY = 8
MAX_CONCURRENCY = 500
"""Temporal takes at most 2,000 open children of one workflow; a desk answers all of these."""


def item_path(number: int) -> str:
    """Where the item with this number, counted from 1, stands in its run."""
    return f"main/item-{number}"


class BatchItem(Strict):
    """One thing to run the worker for."""

    name: str
    """What people call it: the file's name as it was given, or the number of a line."""
    prompt: str = ""
    """Told after the run's own prompt."""
    input: Json = None
    """Used instead of the run's input."""
    attachments: tuple[Attachment, ...] = ()
    """Besides those of the run."""


class ItemResult(Message):
    """What became of one item."""

    name: str
    status: Literal["completed", "failed"]
    code: str | None = None
    """Name of the error's class, for one that failed."""
    message: str | None = None
    """The beginning of the error."""


class ContinuedBatch(Message):
    """What the desk of a batch knows that goes on in a new run of its workflow."""

    done: dict[int, ItemResult]
    """By number of the item."""
    usage: Usage
    worker: PinnedWorker
    settings: RunSettings
    tree: Tree
    """The workshop's own tree."""
    notify: NotifySettings = NotifySettings()
    desk: DeskState
    spending: Spending
    started_at: datetime


class Batch(Strict):
    """The items of a run, and how many are worked on at once."""

    items: tuple[BatchItem, ...] = Field(min_length=1)
    concurrency: int = Field(default=DEFAULT_CONCURRENCY, ge=1, le=MAX_CONCURRENCY)
    continued: ContinuedBatch | None = None
    """Where the batch stands, when its workflow was continued as new."""
