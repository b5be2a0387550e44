"""The record of a run that `show` prints: tree, totals and decisions; read from histories alone."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from llm_do_temporal.cli.output import (
    cost_json,
    counts_json,
    dump_json,
    duration_ms,
    part_json,
    truncated_json,
    usage_json,
)
from llm_do_temporal.cli.tables import clock, format_table
from llm_do_temporal.cli.terminal.question import joined, marked
from llm_do_temporal.cli.terminal.run_picture import activity_of, dollars, item_lines, render_run, state_of
from llm_do_temporal.cli.text import visible_block, visible_line
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.record.facts import RunFacts, Story, TakenBack
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.pending_work import note_troubles
from llm_do_temporal.client.views.run_list import RunSummary
from llm_do_temporal.client.views.run_view import Node, RunView, ViewEvent, with_counts
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.runs import PendingApprovalMemo
from llm_do_temporal.redaction.configured_keys import remove_keys

_PIPE_WIDTH = 200
_REASON_CHARS = 400
"""Characters of what a run does without, and why."""
_BLOCK_LINES = 40
"""Lines of a prompt or a result that are shown."""
_MOST_REUSED = 60
"""Lines of what was taken from another run that are shown."""


async def read_record(
    client: LlmDoClient, run: str, *, served_since: datetime | None = None
) -> tuple[RunView, list[ViewEvent], Story]:
    """Return the view of the run as its histories have it now, its decisions in the order of their times, its story.

    `served_since` is that of `note_troubles`."""
    story = Story(run)
    follower = Follower(client.temporal, run, wait=False, tap=story.take)
    events, undone = list[ViewEvent](), set[str]()
    async for event in follower.events():
        if event.type == "approval.decided":
            events.append(event)
        elif event.type == "approval.requested" and event.data.get("again"):
            undone.add(event.data["again"])
    for event in events:
        if event.data.get("id") in undone:
            event.data["carried_out"] = False
    await note_troubles(client.temporal, follower.view, served_since=served_since)
    return follower.view, sorted(events, key=lambda event: event.at), story


def print_record(summary: RunSummary, view: RunView, decided: list[ViewEvent], story: Story) -> None:
    """Print the record on stdout, for a person."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(render_record(summary, view, decided, datetime.now(UTC).replace(tzinfo=None), story))


def render_record(
    summary: RunSummary, view: RunView, decided: list[ViewEvent], now: datetime, story: Story | None = None
) -> RenderableType:
    """Return the record as a renderable; `now` is UTC without a zone. Without a story, the run is named by its id."""
    state = with_counts(summary.status, view.counts)
    fork = f" · fork of {summary.fork_of}" if summary.fork_of else ""
    fork += f" · of schedule {summary.schedule}" if summary.schedule else ""
    part = f" · {summary.part.words} of {summary.part.whole}" if summary.part else ""
    head = f"{view.run}{fork}{part} · {summary.worker} · {state} · started {summary.started_at:%Y-%m-%d %H:%M:%S} UTC"
    task = "" if story is None else story.facts.task
    parts: list[RenderableType] = [Text(visible_line(task), style="bold")] if task else []
    parts.append(Text(visible_line(head), style="" if task else "bold"))
    if story is not None and not story.facts.is_told_by_task:
        parts += _block("prompt", story.facts.prompt)
    parts.append(render_run(view, now))
    parts += [Text(line, style="red") for line in item_lines(view)]
    if story is not None:
        parts += [*_result(story.facts), *_files(story)]
    lacks = [f"  {node.path}  {one}" for node in view.ordered for one in node.without]
    if lacks:
        parts.append(Text("without", style="bold"))
        parts.extend(Text(visible_line(line, _REASON_CHARS)) for line in lacks)
    ignored = [one for node in view.ordered for one in node.ignored]
    if ignored:
        parts.append(Text("ignored signals", style="bold"))
        parts.extend(Text(visible_line(f"  {one}", _REASON_CHARS)) for one in ignored)
    parts += _reused(view)
    if len(view.by_model) > 1:
        parts.append(Text("models", style="bold"))
        parts.extend(Text(_model_line(model, usage)) for model, usage in view.by_model.items())
    templates = [_template_line(node) for node in view.ordered if node.template is not None]
    if templates:
        parts.append(Text("templates", style="bold"))
        parts.extend(Text(visible_line(line, _PIPE_WIDTH)) for line in templates)
    lines = [_decision_line(event) for event in decided]
    lines += [_taken_back_line(one) for one in ([] if story is None else story.taken_back)]
    lines += [f"  {one.id}  {_waiting(one)}  {one.path}: {visible_line(one.summary, 200)}" for one in view.pending]
    if lines:
        parts.append(Text("approvals", style="bold"))
        parts.extend(Text(visible_line(line)) for line in lines)
    return Group(*parts)


def record_json(
    summary: RunSummary, view: RunView, decided: list[ViewEvent], story: Story | None = None
) -> dict[str, Any]:
    """Return the object of `show --json`; without a story, that of an export, whose transcripts tell it."""
    return {
        "run": view.run,
        **({} if story is None else _story_json(story)),
        **({"fork_of": summary.fork_of} if summary.fork_of else {}),
        **({"schedule": summary.schedule} if summary.schedule else {}),
        **part_json(summary.part),
        "worker": summary.worker,
        "status": summary.status,
        **counts_json(view.counts),
        "error": view.error or None,
        "trouble": view.trouble or None,
        "started_at": summary.started_at.isoformat(),
        "ended_at": summary.ended_at.isoformat() if summary.ended_at else None,
        "duration_ms": duration_ms(view),
        "usage": usage_json(view.usage),
        **cost_json(view.usage),
        "models": _models_json(view.by_model),
        "invocations": [_node_json(view, node) for node in view.ordered],
        **({"items": [item.as_json() for item in view.items.values()]} if view.items else {}),
        "approvals": [_decided_json(event) for event in decided] + [_pending_json(one) for one in view.pending],
    }


def _block(title: str, text: str) -> list[RenderableType]:
    """Return a text below its title, as far as a person wants to read it here."""
    lines = visible_block(remove_keys(text.strip("\n"))).splitlines()
    parts: list[RenderableType] = [Text(title, style="bold"), _Marked("\n".join(lines[:_BLOCK_LINES]))]
    if len(lines) > _BLOCK_LINES:
        parts.append(Text(f"  … {len(lines) - _BLOCK_LINES} more lines; --json has all of it"))
    return parts


@dataclass(frozen=True)
class _Marked:
    """Visible text of somebody else, each of its lines marked, also those that a narrow terminal makes."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield joined(marked(Text(self.text), options.max_width, 2))


def _result(facts: RunFacts) -> list[RenderableType]:
    if not facts.has_result or facts.output is None:
        return []
    title = f"result, not whole: {facts.cut_words}" if facts.truncated else "result"
    return _block(title, facts.output if isinstance(facts.output, str) else dump_json(facts.output, pretty=True))


def _files(story: Story) -> list[RenderableType]:
    lines = [f"given    {one.path}  {one.bytes:,} bytes" for one in story.facts.all_attachments]
    lines += [
        f"{'made   ' if one.created else 'changed'}  {one.place.path}  {one.bytes:,} bytes, by {one.by}"
        for one in story.files
    ]
    if story.more_files:
        lines.append(f"… {story.more_files:,} more, made by reviews: `review` has them all")
    if not lines:
        return []
    return [Text("files", style="bold"), *(Text(f"  {visible_line(line, _PIPE_WIDTH)}") for line in lines)]


def _reused(view: RunView) -> list[RenderableType]:
    """Return what was taken from another run, and from where; steps that follow each other there share a line."""
    lines: list[str] = []
    for node in view.ordered:
        for origin, steps in groupby(node.reused, key=lambda step: step.origin):
            lines.append(f"  {node.path}  {', '.join(step.what for step in steps)}  from {origin}")
    if len(lines) > _MOST_REUSED:
        lines = [*lines[:_MOST_REUSED], f"  … {len(lines) - _MOST_REUSED} more; --json has all of it"]
    return [Text("reused", style="bold"), *(Text(visible_line(line, _PIPE_WIDTH)) for line in lines)] if lines else []


def _story_json(story: Story) -> dict[str, Any]:
    facts = story.facts
    given = [one.model_dump(mode="json") for one in facts.all_attachments]
    written = [
        {"path": one.place.path, "bytes": one.bytes, "by": one.by, "created": one.created, "at": one.at.isoformat()}
        for one in story.files
    ]
    return {
        "task": facts.task,
        "prompt": facts.prompt,
        "input": facts.input,
        "output": facts.output,
        **truncated_json(facts.truncated),
        "files": {"given": given, "written": written},
        "taken_back": [
            {"id": one.id, "decision": one.decision, "by": one.by, "at": one.at.isoformat()} for one in story.taken_back
        ],
    }


def _model_line(model: str, usage: Usage) -> str:
    cost = "unpriced" if usage.cost_usd is None else dollars(usage.cost_usd)
    return f"  {visible_line(model)}  turns {usage.requests}  {usage.tokens_line}  {cost}"


def _template_line(node: Node) -> str:
    template = node.template or {}
    filled: dict[str, str] = template["params"] or {}
    params = "".join(f"  {name}={value}" for name, value in filled.items())
    return f"  {node.path}  {template['name']}  sha256 {template['sha256'][:16]}{params}"


def _models_json(by_model: dict[str, Usage]) -> dict[str, Any]:
    return {model: {"usage": usage_json(usage), **cost_json(usage)} for model, usage in by_model.items()}


def _decision_line(event: ViewEvent) -> str:
    data = event.data
    who = data.get("by") or "somebody"
    who += f" via {data['via']}" if data.get("via") else ""
    note = f" ({data['note']})" if data.get("note") else ""
    note += "; not carried out, asked again" if data.get("carried_out") is False else ""
    when = f"{event.at:%Y-%m-%d %H:%M:%S} UTC"
    waited = data.get("waited_seconds")
    source = f" from {data['source']}" if data.get("source") else ""
    door = f"by {data.get('door')}{source}" + ("" if waited is None else f", after {clock(waited)}")
    return (
        f"  {data.get('id')}  {data.get('decision')}  {who}, {when}, {door}  {event.path}: {data.get('summary')}{note}"
    )


def _taken_back_line(one: TakenBack) -> str:
    return f"  {one.id}  {one.decision} of {one.by or 'somebody'}, taken back {one.at:%Y-%m-%d %H:%M:%S} UTC"


def _waiting(one: PendingApprovalMemo) -> str:
    votes = f", {one.votes} of {one.quorum} have agreed" if one.quorum > 1 else ""
    until = f", until {one.deadline:%Y-%m-%d %H:%M:%S} UTC" if one.deadline else ""
    return f"pending{votes}{until}"


def _pending_json(one: PendingApprovalMemo) -> dict[str, Any]:
    fields = one.model_dump(mode="json", include={"id", "path", "tool", "summary", "deadline", "votes", "quorum"})
    return fields | {"decision": None}


def _decided_json(event: ViewEvent) -> dict[str, Any]:
    names = ("id", "summary", "decision", "by", "note", "door", "waited_seconds")
    source = {name: event.data[name] for name in ("source", "via") if event.data.get(name)}
    source |= {"carried_out": False} if event.data.get("carried_out") is False else {}
    return {"path": event.path, "at": _iso(event.at)} | {name: event.data.get(name) for name in names} | source


def _node_json(view: RunView, node: Node) -> dict[str, Any]:
    total = view.total_of(node)
    return {
        "path": node.path,
        **({"item": node.item} if node.item else {}),
        "worker": node.worker,
        "template": node.template,
        "model": node.model,
        "depth": node.depth,
        "status": state_of(node),
        "doing": activity_of(node) if node.status == "running" else "",
        "error": node.error or None,
        "turns": node.turns,
        **({"without": node.without} if node.without else {}),
        **({"ignored": node.ignored} if node.ignored else {}),
        **({"reused": [asdict(step) for step in node.reused]} if node.reused else {}),
        "usage": usage_json(node.usage),
        **cost_json(node.usage),
        "models": _models_json(node.by_model),
        "total": {"usage": usage_json(total), **cost_json(total)},
        "started_at": _iso(node.started_at),
        "ended_at": _iso(node.ended_at),
        "workflow": node.workflow_id,
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.replace(tzinfo=UTC).isoformat()


_INVOCATIONS = ("INVOCATION", "MODEL", "TURNS", "TOKENS IN", "TOKENS OUT", "OWN", "TOTAL")
_MODELS = ("MODEL", "TURNS", "TOKENS IN", "TOKENS OUT", "COST")


def cost_lines(view: RunView) -> list[str]:
    """Return two tables, of invocations and of models, and the total. A total is own cost and that of all below."""
    lines = format_table(_INVOCATIONS, _invocations(view), None)
    lines += [
        "",
        *format_table(_MODELS, [(model, *_spent(usage), price(usage)) for model, usage in _models(view)], None),
    ]
    lines += ["", f"total {price(view.usage)}"]
    saved = view.usage.saved
    if saved is not None:
        worth = "" if saved.cost_usd is None else f", {dollars(saved.cost_usd)}"
        tokens = f"{saved.input_tokens:,} tokens in, {saved.output_tokens:,} out"
        lines.append(f"saved by reusing {saved.requests} turns of another run: {tokens}{worth}")
    if view.usage.estimated:
        lines.append(f"the tokens of {view.usage.estimated} turns are estimated: the provider did not say them")
    if view.usage.unpriced:
        lines.append(f"without a known price, and not in any sum: {visible_line(', '.join(view.usage.unpriced))}")
    return lines


def price(usage: Usage) -> str:
    """Return the cost in US dollars; `unpriced` if no price is known, with `+ unpriced` if only some are."""
    if usage.cost_usd is None:
        return "unpriced" if usage.unpriced else "-"
    return dollars(usage.cost_usd) + (" + unpriced" if usage.unpriced else "")


def _invocations(view: RunView) -> list[tuple[str, ...]]:
    """Return a row for each model of each invocation; the first row of an invocation has its total."""
    rows: list[tuple[str, ...]] = []
    for node in view.ordered:
        total = price(view.total_of(node))
        for model, usage in node.by_model.items() or [(node.model, Usage())]:
            rows.append((node.path, model, *_spent(usage), price(usage), total))
            total = ""
    return rows


def _models(view: RunView) -> list[tuple[str, Usage]]:
    return sorted(view.by_model.items(), key=lambda priced: -(priced[1].cost_usd or 0))


def _spent(usage: Usage) -> tuple[str, str, str]:
    return str(usage.requests), f"{usage.input_tokens:,}", f"{usage.output_tokens:,}"
