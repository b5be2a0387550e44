"""How a question to a person looks: who asks, the whole call, and what it would change.

Pure. Arguments are shown in full and indented, so that no text of a model's can pass for the prompt.
"""

from __future__ import annotations

import json
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from llm_do_temporal.cli.plain_text import visible_block, visible_line
from llm_do_temporal.client.runs import PendingApproval

_INDENT = 4
_SHORT_CHARS = 200
"""Longer values get lines of their own."""
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def render_question(pending: PendingApproval) -> RenderableType:
    """The whole question."""
    request = pending.request
    title = Text(f"{pending.id} · {visible_line(request.tool, 80)} · {visible_line(request.path, 80)}", style="bold")
    parts: list[RenderableType] = [Rule(title, align="left", style="yellow")]
    parts.append(Text(visible_line(request.summary), style="bold"))
    if request.reason:
        parts.append(Text(visible_line(request.reason), style="dim"))
    for name, value in request.args.items():
        parts.extend(_argument(name, value))
    shown = {json.dumps(value, sort_keys=True) for value in (request.args, *request.args.values(), request.diff)}
    for use in request.capabilities:
        extra = {name: value for name, value in use.payload.items() if json.dumps(value, sort_keys=True) not in shown}
        if extra:
            parts.extend(_argument(use.name, extra))
    if request.diff and not _only_adds(request.diff):
        parts.append(Text("changes:", style="bold"))
        parts.append(_indented(_diff(request.diff)))
    return Group(*parts)


def _argument(name: str, value: Any) -> list[RenderableType]:
    label = Text(f"{visible_line(name, 80)}: ", style="bold")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) and len(text) > _SHORT_CHARS:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    if "\n" not in text and len(text) <= _SHORT_CHARS:
        return [Padding(label + Text(visible_line(text)), (0, 0, 0, 2))]
    return [Padding(label, (0, 0, 0, 2)), _indented(Text(visible_block(text)))]


def _indented(text: Text) -> RenderableType:
    # Padding indents wrapped lines too.
    return Padding(text, (0, 0, 0, _INDENT))


def _diff(diff: str) -> Text:
    text = Text()
    for line in visible_block(diff).splitlines(keepends=True):
        text.append(line, style=_DIFF_STYLES.get(line[:1], ""))
    text.rstrip()
    return text


def _only_adds(diff: str) -> bool:
    """Whether the diff makes a new file, all of which stands in the arguments already."""
    return all(line.startswith(("+", "---", "@@", "\\")) for line in diff.splitlines())
