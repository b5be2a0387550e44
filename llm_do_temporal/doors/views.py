"""Views of runs for doors: the tree with what it has spent, conversations, the items of a batch."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.connections import is_missing, translated
from llm_do_temporal.client.views.items import Item
from llm_do_temporal.client.views.run_view import Node
from llm_do_temporal.client.views.transcripts import Entry, read_newest, read_page
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values.runs import Failure
from llm_do_temporal.doors.values.views import (
    BatchItems,
    ItemOutcome,
    RunTree,
    TranscriptEntry,
    TranscriptPart,
    TreeNode,
)
from llm_do_temporal.errors import UnknownHere, UsageError
from llm_do_temporal.messages.runs import workflow_id_of
from llm_do_temporal.policy.models import cut_reason
from llm_do_temporal.redaction.configured_keys import without_keys

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
    error = item.error
    failure = None if error is None else Failure(**without_keys(_renamed(error)))
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
