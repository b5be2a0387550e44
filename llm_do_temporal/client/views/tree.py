"""The tree of a run's invocations, read so that a large one opens quickly.

The invocations and their states are one listing of the server. The usage of an invocation is in the last run of its
workflow, and that of its callees in the events with which they ended; so only the histories of invocations that are
looked at are read, and of ended invocations no more than the last event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHistoryEventFilterType
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing
from llm_do_temporal.client.history.events import as_object, callee_of, ending, first_object, put_back, read_events
from llm_do_temporal.client.history.invocations import Beginnings, told_in
from llm_do_temporal.client.views.run_view import Node, template_of
from llm_do_temporal.client.views.server_list import every_part
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.messages.budget import Usage, Waits
from llm_do_temporal.messages.runs import workflow_id_of

AT_ONCE = 16
MOST_KEPT = 20_000
"""Invocations that have ended and are remembered; those read first leave first."""
MOST_BELOW = 200
"""Invocations under way below one whose histories are read to know what it has spent so far."""
_STATES: Mapping[int, str] = {
    WorkflowExecutionStatus.RUNNING: "running",
    WorkflowExecutionStatus.CONTINUED_AS_NEW: "running",
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed out",
}


@dataclass
class Branch:
    """An invocation and those below it, as the server lists them."""

    workflow_id: str
    run_id: str
    path: str
    """Position in the tree; empty for a run as a whole, of which nothing is known about those below."""
    worker: str
    """Name of the worker; of a template, the path."""
    model: str
    status: str
    """running, completed, failed, cancelled, terminated or timed out."""
    started_at: datetime
    ended_at: datetime | None
    children: list[Branch] = field(default_factory=list["Branch"])
    item: str = ""
    """Name of the batch's item that it works on; empty in any other run."""

    @property
    def is_open(self) -> bool:
        """Whether it is under way."""
        return self.status == "running"

    @property
    def size(self) -> int:
        """Number of invocations: this one and all below it."""
        return 1 + sum(child.size for child in self.children)


@dataclass
class Spent:
    """Facts about an invocation beyond the listing."""

    own: Usage | None = None
    """Usage of the invocation itself; None where only the total is known."""
    total: Usage = field(default_factory=Usage)
    """Usage of the invocation and all below it, so far."""
    doing: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    """Questions that wait for a person, one line each."""
    error: str = ""
    waited: Waits | None = None
    """Time that questions of an ended run waited; None where its end does not tell."""
    children: dict[str, Usage] = field(default_factory=dict[str, Usage])
    """Usage of callees, as far as the history that was read tells: workflow id -> usage."""


async def list_tree(client: Client, run: str) -> list[Branch]:
    """Return the roots of a run's tree: one, or one for each item of a batch. Raises RPCError."""
    found: dict[str, Branch] = {}
    query = f"WorkflowId = '{quoted(run)}' OR WorkflowId STARTS_WITH '{quoted(run)}/'"
    async for info in (info async for part in every_part(client, query) for info in part.found):
        await put_back(info.memo, client.data_converter)
        branch = _branch(info)
        known = found.get(branch.workflow_id)
        if branch.workflow_id == run and not told_in(info.memo):
            continue  # a batch has no entry invocation, and a run that was refused never had one
        # A workflow that was continued as new is listed once for each of its runs.
        began = branch.started_at if known is None else min(branch.started_at, known.started_at)
        if known is None or known.started_at < branch.started_at:
            found[branch.workflow_id] = branch
        found[branch.workflow_id].started_at = began
    roots: list[Branch] = []
    for branch in sorted(found.values(), key=lambda one: _order(one.path)):
        above = branch.path.rpartition("/")[0]
        parent = found.get(workflow_id_of(run, above)) if above else None
        (roots if parent is None else parent.children).append(branch)
    return roots


class Accounts:
    """Usage of a run's invocations; that of those which have ended is remembered."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ended: dict[str, Spent] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def read(self, branches: Iterable[Branch], parent: Spent | None = None) -> dict[str, Spent]:
        """Return each branch's facts by workflow id; branches that `parent` tells of are not read. Raises RPCError."""
        wanted = list(branches)
        told = parent.children if parent is not None else {}
        known: dict[str, Spent] = {}
        for one in wanted:
            if one.status == "completed" and (usage := told.get(one.workflow_id)) is not None:
                known[one.workflow_id] = Spent(total=usage, own=None if one.children else usage)
        missing = [one for one in wanted if one.workflow_id not in known]
        read = await asyncio.gather(*(self.read_one(one) for one in missing))
        return known | {one.workflow_id: spent for one, spent in zip(missing, read, strict=True)}

    async def read_one(self, branch: Branch, *, whole: bool = False) -> Spent:
        """Return the facts of one invocation; `whole`: with its own usage and that of its callees. Raises RPCError."""
        kept = self._ended.get(branch.run_id)
        if kept is not None and (kept.own is not None or not whole):
            return kept
        spent = None
        if branch.status in ("completed", "failed") and not (whole and branch.children):
            spent = await self._from_end(branch)
        if spent is None:
            spent = await self._from_history(branch)
        if not branch.is_open:
            while len(self._ended) >= MOST_KEPT:
                self._ended.pop(next(iter(self._ended)))
            self._ended[branch.run_id] = spent
        return spent

    async def _from_end(self, branch: Branch) -> Spent | None:
        """Return the facts in the last event of an invocation; None where that does not tell."""
        handle = self._client.get_workflow_handle(branch.workflow_id, run_id=branch.run_id or None)
        async with self._turn:
            events = handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
            event = await anext(events, None)
        if event is not None:
            await put_back(event, self._client.data_converter)
        end = None if event is None else ending(event)
        if end is None or end.usage is None:
            return None
        waits = end.told.get("waited")
        own = None if branch.children or not branch.path else end.usage
        waited = Waits.model_validate(waits) if isinstance(waits, dict) else None
        return Spent(own=own, total=end.usage, error=end.failure.message, waited=waited)

    async def _from_history(self, branch: Branch) -> Spent:
        """Return the facts in the last history of an invocation, and those of the invocations that it waits for."""
        node, before, below = Node(branch.workflow_id), Usage(), Usage()
        spent, end = Spent(), None
        beginnings = Beginnings()
        handle = self._client.get_workflow_handle(branch.workflow_id, run_id=branch.run_id or None)
        async with self._turn:
            async for event in read_events(handle, wait=False, converter=self._client.data_converter):
                begun = beginnings.take(event)
                if begun is not None:
                    before, below = _carried(begun.continued)
                elif event.HasField("workflow_execution_started_event_attributes"):
                    given = first_object(event.workflow_execution_started_event_attributes.input.payloads)
                    batch = as_object(as_object(given.get("continued")).get("batch"))
                    before = below = Usage.model_validate(as_object(batch.get("usage")))
                node.apply(event)
                callee, told = callee_of(event), ending(event)
                if callee and told is not None and told.usage is not None:
                    spent.children[callee] = told.usage
                end = None if callee else told
        spent.own = _minus(before, below).plus(node.usage)
        spent.total = before.plus(node.usage)
        for usage in spent.children.values():
            spent.total = spent.total.plus(usage)
        if end is not None and end.usage is not None:
            spent.total = end.usage
        elif branch.is_open:
            under_way = [one for one in branch.children if one.is_open and one.workflow_id not in spent.children]
            for one in await asyncio.gather(*map(self._or_nothing, under_way[:MOST_BELOW])):
                spent.total = spent.total.plus(one.total)
        spent.doing, spent.waiting = tuple(node.doing.values()), tuple(node.waiting.values())
        spent.error = node.error
        return spent

    async def _or_nothing(self, branch: Branch) -> Spent:
        try:
            return await self.read_one(branch)
        except RPCError as error:
            # It has not begun yet, or never will.
            if not is_missing(error):
                raise
            return Spent()


def state_of(info: WorkflowExecutionInfo) -> str:
    """Return the name of a workflow's state."""
    return _STATES.get(info.status, "unknown")


def _branch(info: WorkflowExecutionInfo) -> Branch:
    told = told_in(info.memo)
    workflow_id, began = info.execution.workflow_id, info.start_time.ToDatetime(UTC)
    path = workflow_id.partition("/")[2] or ENTRY_PATH
    status = state_of(info)
    ended = None if status == "running" else info.close_time.ToDatetime(UTC)
    template = template_of(told)
    worker = str(told.get("worker") or path) if template is None else str(template["name"])
    model, item = (str(told.get(name) or "") for name in ("model", "item"))
    return Branch(workflow_id, info.execution.run_id, path, worker, model, status, began, ended, item=item)


def _order(path: str) -> list[tuple[str, int]]:
    """Callees in the order of their numbers: `reader-2` before `reader-10`."""
    found: list[tuple[str, int]] = []
    for part in path.split("/"):
        name, _, number = part.rpartition("-")
        found.append((name, int(number)) if number.isdecimal() and name else (part, 0))
    return found


def _carried(continued: dict[str, Any]) -> tuple[Usage, Usage]:
    """Return the usage of an invocation before this run of its workflow: in all, and by callees."""
    spending, usage = as_object(continued.get("spending")), as_object(continued.get("usage"))
    before = Usage(
        requests=int(usage.get("requests") or 0),
        tool_calls=int(continued.get("tool_calls") or 0),
        input_tokens=int(usage.get("input_tokens") or 0),
        output_tokens=int(usage.get("output_tokens") or 0),
        cost_usd=spending.get("tree_cost"),
        unpriced=tuple(spending.get("tree_unpriced") or ()),
        costs=spending.get("tree_costs") or {},
        estimated=int(usage.get("unmeasured_requests") or 0),
    )
    return before, Usage.model_validate(continued.get("below") or {})


def _minus(total: Usage, below: Usage) -> Usage:
    cost = None if total.cost_usd is None else total.cost_usd - (below.cost_usd or 0)
    costs = {model: left for model, spent in total.costs.items() if (left := spent - below.costs.get(model, 0))}
    counts = ("requests", "tool_calls", "input_tokens", "output_tokens", "estimated")
    left = {name: getattr(total, name) - getattr(below, name) for name in counts}
    return total.model_copy(update=left | {"cost_usd": cost, "costs": costs})


def quoted(text: str) -> str:
    """Return the text as it stands inside a string of a visibility query. A NUL, which would end it, is in nothing."""
    return text.replace("\0", "\ufffd").replace("\\", "\\\\").replace("'", "''")
