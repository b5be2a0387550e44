"""Picture of a question to a person: the asking worker, the whole call, and the change it would make.

Pure. Arguments are shown in full and indented, so that no text of a model can pass for the prompt.
"""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from llm_do_temporal.cli.text import visible_block, visible_line
from llm_do_temporal.client.client import Question
from llm_do_temporal.ui.content.call_parts import only_adds

_INDENT = 4
_SHORT_CHARS = 200
"""Longer values get lines of their own."""
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def render_question(pending: Question) -> RenderableType:
    """Return the whole question as a renderable."""
    request = pending.request
    where = (pending.id, request.tool, request.place, f"run {pending.run}")
    title = Text(" · ".join(visible_line(word, 80) for word in where), style="bold")
    parts: list[RenderableType] = [Rule(title, align="left", style="yellow")]
    parts.append(Text(visible_line(request.summary), style="bold"))
    if request.reason:
        parts.append(Text(visible_line(request.reason), style="dim"))
    parts.extend(Text(line, style="yellow") for line in _circumstances(pending))
    for name, value in pending.args.items():
        parts.extend(_argument(name, value))
    for file in request.attachments:
        facts = {"bytes": file.bytes, "media_type": file.media_type, "sha256": file.sha256}
        parts.extend(_argument(f"file {file.path}", facts))
    shown = {json.dumps(value, sort_keys=True) for value in (request.args, *request.args.values(), request.diff)}
    for use in request.capabilities:
        extra = {name: value for name, value in use.payload.items() if json.dumps(value, sort_keys=True) not in shown}
        if extra:
            parts.extend(_argument(use.name, extra))
    if request.diff and pending.args == request.args and not only_adds(request.diff):
        parts.append(Text("changes:", style="bold"))
        parts.append(_indented(_diff(request.diff)))
    return Group(*parts)


def question_text(pending: Question, width: int) -> str:
    """Return the whole question as plain text, with lines no longer than `width`."""
    console = Console(width=width, color_system=None, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(render_question(pending))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _circumstances(pending: Question) -> list[str]:
    """Return the lines about approvers, votes and deadline."""
    request, lines = pending.request, list[str]()
    if request.approvers:
        lines.append(f"may be decided by {visible_line(', '.join(request.approvers), 200)}")
    if request.quorum > 1:
        names = ", ".join(vote.by or "somebody" for vote in pending.votes)
        agreed = f": {visible_line(names, 200)}" if names else ""
        lines.append(f"{len(pending.votes)} of {request.quorum} people have agreed{agreed}")
    if pending.votes and pending.args != request.args:
        lines.append("the arguments are those that they have changed it to, not what the model asked for")
    if request.deadline is not None:
        lines.append(f"without an answer until {request.deadline:%Y-%m-%d %H:%M:%S} UTC: {request.on_timeout}")
    return lines


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
