"""Views of runs as doors show them: the tree with what it has spent, conversations, items of batches."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from llm_do_temporal.doors.values.base import ResponseValue
from llm_do_temporal.doors.values.runs import Failure
from llm_do_temporal.messages.base import Json
from llm_do_temporal.messages.batches import ItemCounts
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.policy.models import CutReason


class TreeNode(ResponseValue):
    """Invocation in the tree of a run."""

    path: str
    """Place in the tree, like `main/reader-1`."""
    worker: str
    model: str
    state: str
    error: str
    """Reason why it failed; empty: it did not."""
    started_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    turns: int
    reused_turns: int
    """Turns among them that were taken from another run."""
    usage: Usage
    """Amounts that it has spent itself, without what it delegated."""
    doing: tuple[str, ...]
    """Effects that are under way, in words."""
    waiting: tuple[str, ...]
    """Questions of its own that wait for people, in words."""
    item: str
    """Name of the item of a batch that it works on; empty: none."""


class RunTree(ResponseValue):
    """Run with all of its invocations, and what each has spent so far."""

    run: str
    state: str
    usage: Usage
    models: dict[str, Usage]
    """Usage by the model that answered."""
    items: ItemCounts | None
    """Counts of a batch; null for any other run."""
    invocations: tuple[TreeNode, ...]
    """Callers before the called."""


class TranscriptEntry(ResponseValue):
    """Message or happening in a conversation."""

    kind: str
    """`prompt`, `text`, `thinking`, `call`, `result`, `turn`, `question`, `decision`, `error`, `end`, `instructions` or
    `template`."""
    at: AwareDatetime
    turn: int
    """Turn of the model that it belongs to, from 1; 0: before the first."""
    text: str = ""
    name: str = ""
    """Tool, model, or whoever decided."""
    call: str = ""
    """Id that a call shares with its result, and a question with its decision."""
    value: Json = None
    failed: bool = False
    files: tuple[dict[str, Any], ...] = ()
    details: dict[str, Any] = Field(default_factory=dict)


class TranscriptPart(ResponseValue):
    """Part of the conversation of one invocation, in order; the newest part is the first to be read."""

    entries: tuple[TranscriptEntry, ...]
    before: str | None
    """`part` of the one before this; null: this is the beginning."""


class ItemOutcome(ResponseValue):
    """Item of a batch and its outcome."""

    item: str
    """Name of the item."""
    path: str
    """Place of its invocation in the tree of the run."""
    state: str
    """`completed`, `failed`, `cancelled` or `not done`."""
    output: Json
    truncated: CutReason | None = None
    """Reason why its answer was cut; null: it was not."""
    error: Failure | None
    usage: Usage


class BatchItems(ResponseValue):
    """Part of the items of a batch, in their order."""

    counts: ItemCounts
    items: tuple[ItemOutcome, ...]
    following: int | None
    """`after` of the next part; null: there is no more."""
