"""Batches: one run, and in it one invocation of the same worker for each item."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from llm_do_temporal.messages.base import ENTRY_PATH, Json, Message, Strict, is_empty, is_none
from llm_do_temporal.messages.budget import Spending, Usage
from llm_do_temporal.messages.json_values import read_json
from llm_do_temporal.policy.cuts import CutReason
from llm_do_temporal.policy.files.attachments import Attachment

DEFAULT_CONCURRENCY = 8
MAX_CONCURRENCY = 500
"""Temporal takes at most 2,000 open children of one workflow; a desk answers all of these."""


BOM = "\ufeff"
"""Mark that some programs write at the beginning of a file."""
_LINE_END = re.compile(r"\r\n|[\r\n]")
_ITEM = re.compile(r"main/item-(\d{1,9})(?:/|$)", re.ASCII)


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank, with their numbers, counted from 1, and without a mark at their beginnings.

    Only carriage returns and line feeds end a line: JSON may have every other separator within a text.
    """
    lines = ((number, line.lstrip(BOM)) for number, line in enumerate(_LINE_END.split(text), 1))
    return [(number, line) for number, line in lines if line.strip()]


def item_path(number: int) -> str:
    """Return the place in the run's tree of the item with this number, counted from 1."""
    return f"main/item-{number}"


def item_of(path: str) -> str:
    """Return the place of the item that an invocation works on, or that of the entry invocation where there is none."""
    return "/".join(path.split("/")[:2]) if path.startswith(item_path(0)[:-1]) else ENTRY_PATH


def item_number(path: str) -> int:
    """Return the number of the item that an invocation at this place works on; 0 where there is none."""
    found = _ITEM.match(path)
    return int(found[1]) if found else 0


class BatchItem(Strict):
    """Item for which the worker is run once."""

    name: str
    """Name for people: that of the file as it was given, or the number of a line."""
    prompt: str = ""
    """Told after the run's own prompt."""
    input: Json = None
    """Used instead of the run's input."""
    attachments: tuple[Attachment, ...] = ()
    """Besides those of the run."""
    unusable: str = Field(default="", exclude_if=is_empty)
    """Reason why its file cannot be attached: the item fails with it, and no worker is started. Empty for any other."""

    @classmethod
    def of_line(cls, name: str, line: str, *, as_json: bool) -> BatchItem:
        """Return the item of a line: its text, or its JSON value. Of JSON, text is a prompt and anything else an input.

        Raises ValueError for a line that is not JSON, or that gives nothing.
        """
        if not as_json:
            return cls(name=name, prompt=line.strip())
        try:
            value = read_json(line)
        except ValueError as error:
            raise ValueError(f"the line is not JSON: {error}") from error
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ValueError("the line gives nothing: write a prompt or an input, or leave the line out")
        return cls(name=name, prompt=value) if isinstance(value, str) else cls(name=name, input=value)


class ItemResult(Message):
    """Outcome of an item."""

    name: str
    status: Literal["completed", "failed"]
    code: str | None = None
    """Name of the error's class, for one that failed."""
    message: str | None = None
    """The beginning of the error."""
    truncated: CutReason | None = Field(default=None, exclude_if=is_none)
    """Reason why its answer was cut; None: it was not."""


class ItemCounts(Message):
    """Number of a batch's items, and of those with an outcome: what lists tell of them with no history read."""

    total: int
    completed: int | None = None
    """None while the run is open, when nobody counts for lists."""
    failed: int = 0

    @classmethod
    def of(cls, batch: Batch, done: Iterable[ItemResult]) -> ItemCounts:
        """Return the counts of a batch of which this is done."""
        statuses = [result.status for result in done]
        return cls(total=len(batch.items), completed=statuses.count("completed"), failed=statuses.count("failed"))

    def with_state(self, state: str) -> str:
        """Return the state of the run together with the counts, like `completed, 1 of 4 failed`."""
        if not self.total:
            return f"{state}, no items"
        if self.completed is None:
            return f"{state}, {self.total} {'item' if self.total == 1 else 'items'}"
        if state == "completed" and self.failed:
            return f"{state}, {self.failed} of {self.total} failed"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{state}, {self.completed} of {self.total} done{failed}"


class ContinuedBatch(Message):
    """Progress of a batch that its workflow takes along when it is continued as new."""

    done: dict[int, ItemResult]
    """Outcomes by the number of the item."""
    usage: Usage
    spending: Spending


class Batch(Strict):
    """The items of a run, and how many are worked on at once."""

    items: tuple[BatchItem, ...] = Field(min_length=1)
    concurrency: int = Field(default=DEFAULT_CONCURRENCY, ge=1, le=MAX_CONCURRENCY)


class InputFiles(Strict):
    """Files of the workshop that a run reads when it begins, named by their paths below the workshop."""

    attach: tuple[str, ...] = Field(default=(), max_length=1_000)
    """Files that the run is given."""
    each: tuple[str, ...] = Field(default=(), max_length=100)
    """Patterns; each file that matches one is an item of a batch."""
    each_line: str = Field(default="", exclude_if=is_empty)
    """File whose lines are items; empty: there is none."""
    concurrency: int = Field(default=DEFAULT_CONCURRENCY, ge=1, le=MAX_CONCURRENCY)

    @property
    def makes_items(self) -> bool:
        """Whether the run is a batch."""
        return bool(self.each or self.each_line)

    @property
    def words(self) -> str:
        """The files in words, like `inbox/notes.md, each of decks/*.pdf`."""
        lines = [f"each line of {self.each_line}"] if self.each_line else []
        return ", ".join([*self.attach, *(f"each of {one}" for one in self.each), *lines])

    @property
    def nothing(self) -> str:
        """The reason why there are no items, in words."""
        return f"'{self.each_line}' has no lines" if self.each_line else f"no file matches {' or '.join(self.each)}"
