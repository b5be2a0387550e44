"""View of a run, computed from the histories of its workflows and from nothing else.

A `Node` is one invocation. `Node.apply` takes one history event at a time, so the same code serves a live view, a view
after the fact, and totals; it needs no worker service. `event_json` is the shape of `-o jsonl`, and of every door that
passes events on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any, NamedTuple, cast

from pydantic import TypeAdapter, ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.events import (
    ENDS,
    as_object,
    ending,
    failed_activity,
    first_object,
    local_effect,
    read_message,
    read_start,
    reason_in,
    shortened,
    summary_of,
)
from llm_do_temporal.client.history.invocations import (
    Beginning,
    Beginnings,
    LackKind,
    Lacks,
    LookUps,
    RequestParts,
    ReusedStep,
    asked_calls,
    failed_calls,
    model_aliases,
    origin_of_turn,
    spent_by,
    warnings_of,
)
from llm_do_temporal.client.history.questions import DESK_ACTIVITIES, DeskNews, ignored_signal, news_at_invocation
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extension import commit_activities
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.definitions import CalledTemplate
from llm_do_temporal.messages.layers import CommittedChanges
from llm_do_temporal.messages.runs import BatchItem, ItemCounts, ItemResult, PendingApprovalMemo, item_of, item_path
from llm_do_temporal.policy.models import cut_reason, models_of, read_serving_id
from llm_do_temporal.redaction.configured_keys import without_keys
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE, is_kept_outside

_OPEN = "not done"
_RESULTS = TypeAdapter(tuple[ItemResult, ...])
MOST_ROWS = 30
"""Items that a summary lists; of more, those with no result."""


@dataclass
class Item:
    """Item of a batch, as far as the histories tell."""

    name: str
    path: str
    status: str = _OPEN
    """`completed`, `failed`, `cancelled`, or `not done`."""
    output: Any = None
    error: dict[str, Any] | None = None
    """`code`, `message` and `next`, like the error of a run."""
    truncated: str | None = None
    """Reason why its answer was cut; None: it was not."""
    usage: Usage = field(default_factory=Usage)

    @classmethod
    def of(cls, given: BatchItem, number: int) -> Item:
        """Return the item with this number, from 1, as it begins; one that cannot be used has failed."""
        item = cls(given.name, item_path(number))
        if given.unusable:
            item.fail(UsageError.__name__, given.unusable)
        return item

    @property
    def is_open(self) -> bool:
        """Whether the item has no outcome yet."""
        return self.status == _OPEN

    def take_end(self, event: HistoryEvent) -> bool:
        """Take in how the item's workflow ended, by its own last event or by that of the run; False for any other."""
        end = ending(event)
        if end is None:
            return False
        if end.status == "failed":
            code = end.failure.application_failure_info.type or "RunFailed"
            self.fail(code, end.failure.message, end.told.get("next_step"))
        elif end.status in ("completed", "cancelled"):
            self.status = end.status
        else:
            self.fail("RunFailed", "it was terminated")
        self.output, self.truncated = end.output, cut_reason(end.told.get("truncated"))
        self.usage = end.usage or Usage()
        return True

    def take_result(self, result: ItemResult) -> bool:
        """Take in the run's result for an item that never became a workflow; False where there is nothing new."""
        if not self.is_open or result.status != "failed":
            return False
        self.fail(result.code or "RunFailed", result.message or "")
        return True

    def as_json(self) -> dict[str, Any]:
        """Return the object that stands for the item in results."""
        counts = {"requests", "tool_calls", "input_tokens", "output_tokens"}
        guess = {"estimated_requests": self.usage.estimated} if self.usage.estimated else {}
        cost = None if self.usage.cost_usd is None else float(self.usage.cost_usd)
        return {
            "item": self.name,
            "path": self.path,
            "status": self.status,
            "output": self.output,
            **({} if self.truncated is None else {"truncated": self.truncated}),
            "error": self.error,
            "usage": self.usage.model_dump(include=counts) | guess,
            "cost_usd": cost,
            "unpriced_models": list(self.usage.unpriced),
        }

    def fail(self, code: str, message: str, next_step: Any = None) -> None:
        """Note that it failed."""
        self.status, self.error = "failed", {"code": code, "message": message, "next": next_step}


def counts_of(items: Collection[Item], status: str) -> ItemCounts | None:
    """Return the counts of a batch's items; None without any, as in any other run.

    Once the run itself has completed, as its `status` says, whatever has no result counts as failed.
    """
    if not items:
        return None
    statuses = [item.status for item in items]
    completed, failed = statuses.count("completed"), statuses.count("failed")
    if status == "completed":
        failed = len(statuses) - completed
    return ItemCounts(total=len(statuses), completed=completed, failed=failed)


def with_counts(status: str, counts: ItemCounts | None) -> str:
    """Return the status of a run; of a batch with its counts, like `completed, 1 of 4 failed`."""
    return status if counts is None else counts.with_state(status)


def failed_items(items: Iterable[Item]) -> list[str]:
    """Return the names of a completed batch's items that have no result, in their order."""
    return [item.name for item in items if item.status != "completed"]


def items_of(run: str, started: HistoryEvent) -> dict[str, Item]:
    """The items of a run by the ids of their workflows; none for a run without a batch."""
    batch = read_start(started.workflow_execution_started_event_attributes.input.payloads).batch
    given = () if batch is None else batch.items
    return {f"{run}/{item_path(number)}": Item.of(one, number) for number, one in enumerate(given, 1)}


def results_of(completed: HistoryEvent) -> tuple[ItemResult, ...]:
    """Return the outcomes of the items in the result of a completed run; none where they cannot be read."""
    end = ending(completed)
    try:
        return () if end is None else _RESULTS.validate_python(end.told.get("items") or ())
    except ValidationError:
        return ()


@dataclass(frozen=True)
class BatchProgress:
    """Progress of a batch at one moment."""

    counts: ItemCounts
    ended: int
    elapsed: timedelta
    """Time from the start of the run to its end, or to now."""
    cost_usd: Decimal | None
    is_open: bool
    waiting: int

    @property
    def per_minute(self) -> float | None:
        """Items that ended in a minute, on average over the run; None before the first has."""
        seconds = self.elapsed.total_seconds()
        return self.ended * 60 / seconds if self.ended and seconds > 0 else None

    @property
    def left(self) -> timedelta | None:
        """Time that the other items take at this rate; None where no rate is known, or the run has ended."""
        if self.per_minute is None or not self.is_open:
            return None
        return timedelta(minutes=(self.counts.total - self.ended) / self.per_minute)

    @property
    def line(self) -> str:
        """The progress in words, on one line."""
        parts = [f"{self.ended}/{self.counts.total} items"]
        if self.counts.failed:
            parts.append(f"{self.counts.failed} failed")
        if self.waiting:
            parts.append(f"{self.waiting} waiting for a person")
        if self.per_minute is not None:
            parts.append(f"{self.per_minute:.1f} a minute")
        if self.left is not None:
            parts.append(f"about {_rough(self.left)} left")
        if self.cost_usd is not None:
            parts.append(_money(self.cost_usd))
        return " · ".join(parts)


COLUMNS = ("ITEM", "STATE", "TIME", "TURNS", "TOKENS", "COST", "ERROR")
"""Titles of the cells of a summary's rows."""


def progress_of(view: RunView, now: datetime) -> BatchProgress | None:
    """Return the progress of a batch; None for any other run. `now` is UTC without a zone, as in histories."""
    if view.counts is None:
        return None
    ended = sum(not item.is_open for item in view.items.values())
    elapsed = timedelta() if view.started_at is None else (view.ended_at or now) - view.started_at
    waiting = len({item_of(question.path) for question in view.pending})
    return BatchProgress(view.counts, ended, elapsed, view.usage.cost_usd, view.status == "running", waiting)


def item_rows(view: RunView) -> tuple[list[tuple[str, ...]], int]:
    """Return the rows of a summary, and how many items are in none: of more than MOST_ROWS, those that completed."""
    everything = list(view.items.items())
    wanted = [(workflow_id, item) for workflow_id, item in everything if item.status != "completed"]
    shown = everything if len(everything) <= MOST_ROWS else wanted[:MOST_ROWS]
    rows: list[tuple[str, ...]] = []
    for workflow_id, item in shown:
        node = view.nodes.get(workflow_id)
        begun, ended = (None, None) if node is None else (node.started_at, node.ended_at)
        usage = item.usage if node is None else view.total_of(node)
        tokens = usage.input_tokens + usage.output_tokens
        took = "" if begun is None or ended is None else _rough(ended - begun)
        turns, spent = str(usage.requests or ""), f"{tokens:,}" if tokens else ""
        cost = "" if usage.cost_usd is None else _money(usage.cost_usd)
        error = "" if item.error is None else str(item.error["message"])
        rows.append((item.name, item.status, took, turns, spent, cost, error))
    return rows, len(everything) - len(shown)


def _money(amount: Decimal) -> str:
    """Return an amount of US dollars; `free` for nothing."""
    return f"${amount:,.4f}" if amount else "free"


def _rough(time: timedelta) -> str:
    """Return a length of time as people say it, like `45 s`, `4 min` or `2 h 10 min`."""
    seconds = max(0, round(time.total_seconds()))
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


_MOST_CONFLICTS = 5
EVENT_VERSION = 1
RUN_ENDS = frozenset(f"run.{status.replace(' ', '_')}" for status in ENDS.values())
"""Types of events that end a run. They have no number: who reads events gets the result instead."""


class EventOrder(NamedTuple):
    """Place of an event among all events of a run; the same for every reader of the histories, at any time.

    Within a history it keeps the order of the history: an event that was held back while a task was under way has an
    earlier time of its own than those that were written before it.
    """

    at: datetime
    """The latest time in the event's history up to it, UTC without a zone."""
    workflow_id: str = ""
    run: int = 0
    """Counts the runs of a workflow that was continued as new."""
    event_id: int = 0
    part: int = 0
    """Counts the view events of one history event."""


@dataclass(frozen=True)
class ViewEvent:
    """Event of the run for people, made from one history event."""

    type: str
    at: datetime
    path: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    order: EventOrder = field(default=EventOrder(datetime.min), compare=False)


@dataclass
class Node:
    """Invocation, as far as its history has been read."""

    workflow_id: str
    path: str = ""
    worker: str = ""
    model: str = ""
    depth: int = 0
    status: str = "running"
    error: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    usage: Usage = field(default_factory=Usage)
    """Usage of this invocation alone."""
    by_model: dict[str, Usage] = field(default_factory=dict[str, Usage])
    doing: dict[int, str] = field(default_factory=dict[int, str])
    """Effects under way now: scheduled event id -> one line."""
    trouble: str = ""
    """Reason why an effect is tried again, where the server was asked: see `client.views.pending_work`."""
    waiting: dict[str, str] = field(default_factory=dict[str, str])
    """Questions that wait for a person: key -> one line."""
    asked_at: dict[str, datetime] = field(default_factory=dict[str, datetime])
    """Times at which questions that wait were asked, by their keys; UTC without a zone."""
    children: list[str] = field(default_factory=list[str])
    """Workflow ids of delegations, in order of their start."""
    item: str = ""
    reused: list[ReusedStep] = field(default_factory=list["ReusedStep"])
    """Turns and calls that were taken from another run, in their order."""
    reused_turns: int = 0
    """Number of the turns among them; no model was asked for these."""
    without: list[str] = field(default_factory=list[str])
    """Toolsets, tools and files that it does without, each with the reason."""
    ignored: list[str] = field(default_factory=list[str])
    """Reasons why signals to its run were ignored; empty for all but the entry invocation."""
    template: dict[str, Any] | None = None
    """Facts of a template: `name`, `sha256`, `params` and `input`, of which the last two may be None (CalledTemplate);
    None for a worker."""
    _models: dict[int, str] = field(default_factory=dict[int, str])
    _commits: set[int] = field(default_factory=set[int])
    """Commits of reviews, by the ids of the events that began them."""
    _missing: Lacks = field(default_factory=Lacks, repr=False)
    _beginnings: Beginnings = field(default_factory=Beginnings, repr=False)
    _requests: RequestParts = field(default_factory=RequestParts, repr=False)
    _look_ups: LookUps = field(default_factory=LookUps, repr=False)

    @property
    def turns(self) -> int:
        """Number of its turns that were answered, reused ones among them."""
        return self.usage.requests + self.reused_turns

    @property
    def is_root(self) -> bool:
        """Whether the run itself started it."""
        return "/" not in self.path or bool(self.item)

    @property
    def definition(self) -> str:
        """Name of the file that the invocation was made from: its template, or its worker."""
        return self.worker if self.template is None else str(self.template["name"])

    @property
    def is_thinking(self) -> bool:
        """Whether a model turn is under way."""
        return any(scheduled in self._models for scheduled in self.doing)

    def apply(self, event: HistoryEvent) -> list[ViewEvent]:
        """Take in the next event of this invocation's history; return the view events that it makes.

        The entry invocation's is the history of the run, of which what belongs to the run alone makes none here.
        """
        at = event.event_time.ToDatetime()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            self._requests = RequestParts()
        begun = self._beginnings.take(event)
        if begun is not None:
            self._look_ups.begun(begun.given)
            return self._begin(begun, at)
        if event.event_type in ENDS:
            return self._ended(event, at)
        if self.started_at is None:
            return []
        found = self._look_ups.take(event)
        if found is None:
            return self._moved(event, at)
        told, self.usage = [] if found.is_local else self._moved(event, at), self.usage.plus(Usage(saved=found.saved))
        if found.place:
            self.reused.append(ReusedStep(found.tool, found.place))
            return [*told, self._say("call.reused", at, tool=found.tool, reused=found.place)]
        return [*told, self._say("call.anew", at, reason=found.note)] if found.note else told

    def _moved(self, event: HistoryEvent, at: datetime) -> list[ViewEvent]:
        kind, lacks = event.event_type, self._missing.take(event)
        if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            return self._scheduled(event, at)
        if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            return [*self._activity_completed(event, at), *self._lacks(lacks, at)]
        if kind == EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
            child = event.start_child_workflow_execution_initiated_event_attributes.workflow_id
            if child not in self.children:
                self.children.append(child)
            return []
        failed = failed_activity(event)
        if failed is not None:
            number, failure = failed
            if number not in self.doing:
                return []
            return [self._say("activity.failed", at, what=self._done(number), error=reason_in(failure))]
        ignored = ignored_signal(event)
        if ignored is not None:
            self.ignored.append(ignored)
            return [self._say("signal.ignored", at, reason=ignored)]
        news = news_at_invocation(event, is_entry=self._beginnings.is_entry)
        return self._local(event, at) if news is None else self._told(news, at)

    def _local(self, event: HistoryEvent, at: datetime) -> list[ViewEvent]:
        local = local_effect(event)
        if local is None or local.activity in DESK_ACTIVITIES:
            return []
        begun = self._say("activity.started", at, activity=local.activity, what=local.summary)
        if local.failure is None:
            return [begun, self._say("activity.completed", at, what=local.summary)]
        return [begun, self._say("activity.failed", at, what=local.summary, error=reason_in(local.failure))]

    def _say(self, type_: str, at: datetime, **data: Any) -> ViewEvent:
        return ViewEvent(type=type_, at=at, path=self.path, data=data)

    def _begin(self, begun: Beginning, at: datetime) -> list[ViewEvent]:
        if self.started_at is not None:
            return []  # continued as new
        given = begun.given
        self.started_at = at
        self.path = str(given.get("path", ""))
        worker = given.get("worker")
        self.worker = str(as_object(worker).get("name", "") if isinstance(worker, dict) else worker or "")
        aliases = model_aliases(given)
        models = models_of(str(given.get("model", "")))
        self.model = ", ".join(f"{model} ({aliases[model]})" if model in aliases else model for model in models)
        self.depth = int(given.get("depth") or 0)
        self.template = template_of(given)
        begins = self._say("invocation.started", at, worker=self.worker, model=self.model, depth=self.depth)
        return [begins, *self._lacks([("tools", one) for one in warnings_of(worker)], at)]

    def _lacks(self, missing: list[tuple[LackKind, str]], at: datetime) -> list[ViewEvent]:
        self.without += [reason for _, reason in missing]
        return [self._say(f"{kind}.missing", at, reason=reason) for kind, reason in missing]

    def _scheduled(self, event: HistoryEvent, at: datetime) -> list[ViewEvent]:
        attributes = event.activity_task_scheduled_event_attributes
        name = attributes.activity_type.name
        if name in DESK_ACTIVITIES:
            return []
        summary = summary_of(event) or name
        self.doing[event.event_id] = summary
        told = [self._say("call.failed", at, **failed) for failed in failed_calls(self._requests.take(event))]
        if name in commit_activities():
            self._commits.add(event.event_id)
        if name == REQUEST_MODEL.name:
            self._models[event.event_id] = self._asked_model(event)
            return [*told, self._say("turn.started", at, turn=self.turns + 1)]
        return [*told, self._say("activity.started", at, activity=name, what=summary)]

    def _activity_completed(self, event: HistoryEvent, at: datetime) -> list[ViewEvent]:
        attributes = event.activity_task_completed_event_attributes
        if attributes.scheduled_event_id not in self.doing:
            return []
        label = self._done(attributes.scheduled_event_id)
        model = self._models.get(attributes.scheduled_event_id)
        if model is None:
            note = _commit_note(attributes.result.payloads) if attributes.scheduled_event_id in self._commits else ""
            return [self._say("activity.completed", at, what=label, **({"note": note} if note else {}))]
        response = first_object(attributes.result.payloads)
        parts = cast("list[dict[str, Any]]", response.get("parts") or [])
        asked = asked_calls(parts)
        calls = [str(one["tool"]) for one in asked]
        text = "".join(str(part.get("content") or "") for part in parts if part.get("part_kind") == "text")
        if any(map(is_kept_outside, attributes.result.payloads)):
            text = KEPT_OUTSIDE
        spent, origin = spent_by(response, model, calls), origin_of_turn(response)
        self.usage = self.usage.plus(spent)
        if origin is None:
            self.by_model[model] = self.by_model.get(model, Usage()).plus(spent)
        else:
            self.reused.append(ReusedStep(f"turn {self.turns + 1}", origin.place))
            self.reused_turns += 1
        told: dict[str, Any] = {"turn": self.turns, "model": model, "text": text, "tools": calls, "calls": asked}
        told |= {"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
        if spent.estimated:
            told["estimated"] = True
        if origin is not None:
            told["reused"] = origin.place
        return [self._say("turn.completed", at, **told)]

    def _asked_model(self, event: HistoryEvent) -> str:
        """The model that a request of an invocation with several goes to."""
        if "," not in self.model:
            return self.model
        request = first_object(event.activity_task_scheduled_event_attributes.input.payloads)
        try:
            return read_serving_id(str(request.get("model_id") or self.model))[0]
        except (ValueError, KeyError):
            return self.model

    def _done(self, scheduled: int) -> str:
        self.trouble = ""
        return self.doing.pop(scheduled, "")

    def _told(self, news: DeskNews, at: datetime) -> list[ViewEvent]:
        message = news.message
        if news.kind == "asked":
            return self._asked(message, at)
        key = str(message.get("key", ""))
        if news.kind == "voted":
            names = [vote.get("by") for vote in cast("list[dict[str, Any]]", message.get("votes") or [])]
            summary = self.waiting.get(key, "")
            return [self._say("approval.voted", at, id=message.get("id"), summary=summary, votes=names)]
        if news.kind == "withdrawn":
            return []
        summary = self.waiting.pop(key, "")
        verdict = as_object(message.get("verdict"))
        shown = {name: verdict.get(name) for name in ("decision", "by", "note", "door")}
        if verdict.get("door") == "script" and verdict.get("granted_by"):
            shown["source"] = verdict["granted_by"]
        if verdict.get("via"):
            shown["via"] = verdict["via"]
        asked_at = self.asked_at.pop(key, None)
        shown["waited_seconds"] = None if asked_at is None else (at - asked_at).total_seconds()
        return [self._say("approval.decided", at, id=message.get("id"), summary=summary, **shown)]

    def _asked(self, request: dict[str, Any], at: datetime) -> list[ViewEvent]:
        key, summary = str(request.get("key", "")), str(request.get("summary", ""))
        self.waiting[key], self.asked_at[key] = summary, at
        asked = read_message(RequestApprovalInput, request)
        digest = None if asked is None else asked.digest or None
        shown = {"digest": digest, "reason": request.get("reason"), "args": shortened(request.get("args"))}
        if request.get("again"):
            shown["again"] = str(request["again"])
        return [self._say("approval.requested", at, tool=request.get("tool"), summary=summary, **shown)]

    def _ended(self, event: HistoryEvent, at: datetime) -> list[ViewEvent]:
        self.status = ENDS[event.event_type]
        self.ended_at = at
        self.doing.clear()
        self.waiting.clear()
        self.asked_at.clear()
        self.trouble = ""
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            self.error = event.workflow_execution_failed_event_attributes.failure.message
        if self.started_at is None:
            return []
        return [self._say(f"invocation.{self.status.replace(' ', '_')}", at, error=self.error or None)]


@dataclass
class RunView:
    """A run: its invocations by workflow id, in the order in which they were found."""

    run: str
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    status: str = "running"
    error: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    pending: list[PendingApprovalMemo] = field(default_factory=list[PendingApprovalMemo])
    """Questions that wait for a person; empty once the run has ended."""
    items: dict[str, Item] = field(default_factory=dict[str, Item])
    """Items of a batch, by the ids of their workflows, in their order."""
    trouble: str = ""
    """Reason why no worker service goes on with the run, where the server was asked: see `views.pending_work`."""

    @property
    def counts(self) -> ItemCounts | None:
        """Counts of a batch so far; None for any other run."""
        return counts_of(self.items.values(), self.status)

    @property
    def usage(self) -> Usage:
        """Usage of the whole tree so far."""
        return reduce(Usage.plus, (node.usage for node in self.nodes.values()), Usage())

    @property
    def by_model(self) -> dict[str, Usage]:
        """Usage by the model that answered."""
        total: dict[str, Usage] = {}
        for node in self.nodes.values():
            for model, usage in node.by_model.items():
                total[model] = total.get(model, Usage()).plus(usage)
        return total

    def total_of(self, node: Node) -> Usage:
        """Return the usage of this invocation and everything below it."""
        below = (self.total_of(self.nodes[child]) for child in node.children if child in self.nodes)
        return reduce(Usage.plus, below, node.usage)

    @property
    def ordered(self) -> list[Node]:
        """The invocations, parents before their children."""
        known = [node for node in self.nodes.values() if node.path]
        roots = [node for node in known if node.is_root]
        place = {workflow_id: number for number, workflow_id in enumerate(self.items)}
        roots.sort(key=lambda node: place.get(node.workflow_id, 0))
        found: list[Node] = []
        while roots:
            node = roots.pop(0)
            found.append(node)
            children = [self.nodes[child] for child in node.children if child in self.nodes]
            roots = [child for child in children if child.path] + roots
        return found

    @property
    def items_without_invocation(self) -> list[Item]:
        """Items of a batch that `ordered` lacks and that nothing begins any more, like those of unusable files."""
        known = {node.workflow_id for node in self.nodes.values() if node.path}
        is_over = self.status != "running"
        return [one for name, one in self.items.items() if name not in known and (is_over or not one.is_open)]

    @property
    def delegations(self) -> tuple[int, int]:
        """Delegations that have ended, and all that were started."""
        below = [node for node in self.nodes.values() if not node.is_root]
        return sum(node.status != "running" for node in below), len(below)


def item_event(item: Item, at: datetime) -> ViewEvent:
    """Return the event for the end of a batch's item."""
    return ViewEvent(f"item.{item.status}", at, item.path, item.as_json())


def template_of(invocation: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the template that an invocation's input, or its memo, names; None where it was made from a worker."""
    called = read_message(CalledTemplate, invocation.get("template"))
    return None if called is None else called.model_dump()


def _commit_note(result: Sequence[Payload]) -> str:
    """Return what a commit has not made, or the git commit that it has; empty where it has made all of its changes."""
    made = read_message(CommittedChanges, first_object(result))
    if made is None or not (made.conflicts or made.commit):
        return ""
    conflicts = "; ".join(made.conflicts[:_MOST_CONFLICTS])
    if not made.committed:
        return f"nothing was made, for others have changed files meanwhile: {conflicts}"
    return f"not made: {conflicts}" if conflicts else f"commit {made.commit[:12]}"


def event_time(at: datetime) -> str:
    """Return a time in UTC as events have it, like `2026-11-01T08:30:00.125Z`."""
    return f"{at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def event_json(event: ViewEvent, seq: int) -> dict[str, Any]:
    """Return the event as JSON, with its number among the events of its run, the first of which is 1."""
    fixed = {"ts": event_time(event.at), "type": event.type, "path": event.path}
    shown = {"v": EVENT_VERSION, "seq": seq} | fixed
    return shown | {name: without_keys(value) for name, value in event.data.items() if name not in shown}
