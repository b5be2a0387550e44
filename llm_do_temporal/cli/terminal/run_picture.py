"""Picture of a run on a terminal: the tree of its invocations, progress and totals, as rich renderables.

Pure: takes a view and the time. Words of models become text, never markup, with control characters
made visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from llm_do_temporal.cli.tables import clock
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.client.views.run_view import Node, RunView, progress_of, with_counts
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.conversation import LiveText

_SYMBOLS = {
    "running": ("●", "cyan"),
    "waiting": ("⏸", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("✗", "magenta"),
    "terminated": ("✗", "magenta"),
    "timed out": ("✗", "red"),
}
_BAR_WIDTH = 24
_FRAME_LINES = 4
"""Lines around the tree: the count of hidden rows, the bar, the totals, and the cursor's own."""
_MOST_TAILS = 4
"""Number of answers that are shown while they are written."""
_MOST_LACKS = 10
"""Number of missing tools that are shown below the last picture of a run."""


def render_run(
    view: RunView,
    now: datetime,
    *,
    height: int | None = None,
    tails: Mapping[str, LiveText] | None = None,
    with_lacks: bool = False,
) -> RenderableType:
    """Return the whole picture, at most `height` lines high; `now` is UTC without a zone, as histories have it.

    `with_lacks` adds the tools that the run does without. `tails` are the ends of the answers that are being written,
    by the workflow ids of their invocations.
    """
    known = tails or {}
    writing = [(node, known[node.workflow_id]) for node in view.ordered if node.workflow_id in known][:_MOST_TAILS]
    trouble = visible_line(view.trouble, 300) if view.status == "running" else ""
    room = None if height is None else height - len(writing) - bool(trouble)
    parts: list[RenderableType] = [_tree(view, now, room)]
    parts += [TailLine(node.path, tail) for node, tail in writing]
    items, (ended, total) = progress_of(view, now), view.delegations
    if items is not None:
        parts.append(_bar(items.ended, items.counts.total, items.line))
    if total:
        parts.append(_bar(ended, total, f"{ended}/{total} delegations"))
    lacks = [one for node in view.ordered for one in node.without] if height is None and with_lacks else []
    parts += [Text(visible_line(f"warning: {one}", 400), style="yellow") for one in lacks[:_MOST_LACKS]]
    if trouble:
        parts.append(Text(trouble, style="red", no_wrap=True, overflow="ellipsis"))
    parts.append(Text(totals_line(view, now), style="bold yellow" if view.pending else "dim"))
    return Group(*parts)


def render_end(view: RunView, now: datetime) -> RenderableType:
    """Return the last picture of a run; without the tree for a batch that has ended, whose items are listed below."""
    if view.items and view.status != "running":
        return Text(totals_line(view, now), style="dim")
    return render_run(view, now, with_lacks=True)


def item_lines(view: RunView) -> list[str]:
    """Return a line for each item of a batch that has no invocation and gets none: its place, name, state and error."""
    found = [
        (item, "" if item.error is None else f": {item.error['message']}") for item in view.items_without_invocation
    ]
    return [visible_line(f"{item.path} ({item.name}) {item.status}, no invocation{why}") for item, why in found]


def _bar(ended: int, total: int, words: str) -> RenderableType:
    row = Table.grid(padding=(0, 1))
    row.add_row(ProgressBar(total=total, completed=ended, width=_BAR_WIDTH), Text(words))
    return row


class TailLine:
    """Line with the end of the answer that a model is writing."""

    def __init__(self, path: str, tail: LiveText) -> None:
        words = {"thinking": "thinks", "tool-call": "calls"}.get(tail.part, "writes")
        self._label = f"{visible_line(path, 40)} {words} ({tail.chars:,}): "
        self._text = visible_line(" ".join(tail.text.split()), len(tail.text) + 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(0, options.max_width - cell_len(self._label))
        end = self._text[max(0, len(self._text) - room) :]
        while cell_len(end) > room:
            end = end[1:]
        yield Text(self._label + end, style="italic dim", no_wrap=True, overflow="ellipsis")


def totals_line(view: RunView, now: datetime) -> str:
    """Return status, usage and duration of the whole run, on one line."""
    usage = view.usage
    turns = f"{usage.requests} turn" if usage.requests == 1 else f"{usage.requests} turns"
    tokens = usage.tokens_line
    status = with_counts("waiting for approval" if view.pending else view.status, view.counts)
    spent = f"{tokens}{_cost(usage)}{saved_words(usage)}"
    return f"{status} · {turns} · {spent} · {_elapsed(view.started_at, view.ended_at, now)}"


def _cost(usage: Usage) -> str:
    """Return cost and models without a known price, after a separator; empty if there is neither."""
    parts = [] if usage.cost_usd is None else [dollars(usage.cost_usd)]
    if usage.unpriced:
        parts.append(f"unpriced: {visible_line(', '.join(usage.unpriced), 100)}")
    return f" · {' + '.join(parts)}" if parts else ""


def saved_words(usage: Usage) -> str:
    """Return what a fork has reused instead of spending it, after a separator; empty where there is nothing."""
    saved = usage.saved
    if saved is None or not saved.requests:
        return ""
    worth = f" of {dollars(saved.cost_usd)}" if saved.cost_usd else ""
    return f" · reused {saved.requests} {'turn' if saved.requests == 1 else 'turns'}{worth}"


def dollars(cost: Decimal) -> str:
    """Return an amount in US dollars, to the hundredth of a cent; `free` for nothing."""
    return f"${cost:,.4f}" if cost else "free"


def state_of(node: Node) -> str:
    """Return the node's status, or `waiting` while a person is asked."""
    return "waiting" if node.status == "running" and node.waiting else node.status


def activity_of(node: Node) -> str:
    """Return the present activity of an invocation, or its error, on one line."""
    if node.error:
        return visible_line(node.error, 300)
    if node.waiting:
        more = f" (+{len(node.waiting) - 1})" if len(node.waiting) > 1 else ""
        return f"approval: {visible_line(next(iter(node.waiting.values())), 200)}{more}"
    doing = list(node.doing.values())
    more = f" (+{len(doing) - 1})" if len(doing) > 1 else ""
    trouble = f", {visible_line(node.trouble, 300)}" if node.trouble else ""
    return f"{visible_line(doing[0], 200)}{more}{trouble}" if doing else ""


def _tree(view: RunView, now: datetime, height: int | None) -> RenderableType:
    nodes = view.ordered
    shown = nodes if height is None else _most_telling(nodes, max(1, height - _FRAME_LINES))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, overflow="ellipsis", min_width=16)
    # Only this column may shrink; its text is cut, not wrapped.
    table.add_column()
    for _ in range(4):
        table.add_column(no_wrap=True, justify="right")
    for node in shown:
        table.add_row(*_row(node, now))
    if len(shown) == len(nodes):
        return table
    return Group(table, Text(f"… {len(nodes) - len(shown)} more", style="dim"))


def _row(node: Node, now: datetime) -> tuple[Text, ...]:
    symbol, style = _SYMBOLS.get(state_of(node), ("?", "red"))
    name = node.path.rpartition("/")[2]
    label = Text("  " * node.depth)
    label.append(f"{symbol} ", style=style)
    label.append(visible_line(name))
    if node.item or node.template or not name.startswith(node.worker):
        label.append(f" {visible_line(node.item or node.definition)}", style="dim")
    tokens = node.usage.input_tokens + node.usage.output_tokens
    return (
        label,
        Text(_activity(node, now), style=_activity_style(node), no_wrap=True, overflow="ellipsis"),
        Text(f"turn {node.turns}" + (f", {node.reused_turns} reused" if node.reused_turns else "")),
        Text(f"{tokens:,} tok"),
        Text("" if node.usage.cost_usd is None else dollars(node.usage.cost_usd)),
        Text(_elapsed(node.started_at, node.ended_at, now)),
    )


def _activity(node: Node, now: datetime) -> str:
    """Return the present activity, and before it how long a person has been waited for."""
    said = activity_of(node)
    if state_of(node) != "waiting" or not node.asked_at:
        return said
    return f"waits {clock((now - min(node.asked_at.values())).total_seconds())} for {said}"


def _activity_style(node: Node) -> str:
    return "red" if node.error else "bold yellow" if state_of(node) == "waiting" else "dim"


def _most_telling(nodes: list[Node], limit: int) -> list[Node]:
    """Return at most `limit` invocations in their order: waiting ones before running ones before the newest others."""
    if len(nodes) <= limit:
        return nodes
    rank = {"waiting": 0, "running": 1}
    newest_first = sorted(range(len(nodes)), key=lambda i: (rank.get(state_of(nodes[i]), 2), -i))
    return [nodes[i] for i in sorted(newest_first[:limit])]


def _elapsed(start: datetime | None, end: datetime | None, now: datetime) -> str:
    return clock(0 if start is None else ((end or now) - start).total_seconds())
