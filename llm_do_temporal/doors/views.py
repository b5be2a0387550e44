"""Views of runs for doors: the tree with what it has spent, conversations, the items of a batch."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pydantic import AwareDatetime, Field
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.connections import is_missing, translated
from llm_do_temporal.client.views.run_view import Item, Node
from llm_do_temporal.client.views.transcripts import Entry, read_newest, read_page
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import Failure, ResponseValue
from llm_do_temporal.errors import UnknownHere, UsageError
from llm_do_temporal.messages.base import Json
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.runs import ItemCounts, workflow_id_of
from llm_do_temporal.policy.models import CutReason, cut_reason
from llm_do_temporal.redaction.configured_keys import without_keys


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


MOST_ITEMS = 500
"""Most items in one part."""


async def tree_of_run(service: DoorService, who: Principal, run: str) -> RunTree:
    """Return all invocations of a run, and what each has spent so far."""
    await service.readable(who, run)
    view = await service.client.view(run)
    return RunTree(
        run=run,
        state=view.status,
        usage=view.usage,
        models=view.by_model,
        items=view.counts,
        invocations=tuple(map(_node, view.ordered)),
    )


async def transcript(
    service: DoorService, who: Principal, run: str, path: str, *, part: str | None = None
) -> TranscriptPart:
    """Return a part of the conversation of the invocation at this path; None: the newest. Raises UnknownHere."""
    await service.readable(who, run)
    unknown = UnknownHere(f"run '{run}' has no invocation '{path[:200]}', or no such part of it")
    if path.startswith("/") or "//" in path:
        raise unknown
    client, workflow = service.client.temporal, workflow_id_of(run, path)
    async with translated(run):
        try:
            page = await (read_newest(client, workflow) if part is None else read_page(client, workflow, part))
        except RPCError as error:
            if not is_missing(error) and error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            raise unknown from None
    return TranscriptPart(entries=tuple(map(_entry, page.entries)), before=page.before)


async def items(
    service: DoorService, who: Principal, run: str, *, after: int = 0, limit: int = MOST_ITEMS
) -> BatchItems:
    """Return the items of a batch behind the first `after` of them. Raises UsageError for a run without any."""
    await service.readable(who, run)
    view = await service.client.view(run)
    if view.counts is None:
        raise UsageError(f"run '{run}' is no batch", next_step="Only what was started with `items` has items.")
    found = list(view.items.values())
    return BatchItems(
        counts=view.counts,
        items=tuple(map(_item, found[after : after + limit])),
        following=after + limit if len(found) > after + limit else None,
    )


def _node(node: Node) -> TreeNode:
    return TreeNode(
        path=node.path,
        worker=node.definition,
        model=node.model,
        state=node.status,
        error=without_keys(node.error),
        started_at=_in_utc(node.started_at),
        ended_at=_in_utc(node.ended_at),
        turns=node.turns,
        reused_turns=node.reused_turns,
        usage=node.usage,
        doing=without_keys(tuple(node.doing.values())),
        waiting=without_keys(tuple(node.waiting.values())),
        item=node.item,
    )


def _entry(entry: Entry) -> TranscriptEntry:
    told: dict[str, Any] = asdict(entry)
    del told["event"]
    return TranscriptEntry.model_validate(without_keys(told))


def _item(item: Item) -> ItemOutcome:
    failure = None if item.error is None else Failure.model_validate(without_keys(_renamed(item.error)))
    return ItemOutcome(
        item=item.name,
        path=item.path,
        state=item.status,
        output=without_keys(item.output),
        truncated=cut_reason(item.truncated),
        error=failure,
        usage=item.usage,
    )


def _renamed(error: dict[str, Any]) -> dict[str, Any]:
    return {"code": str(error["code"]), "message": str(error["message"]), "next_step": error.get("next")}


def _in_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)
