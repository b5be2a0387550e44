"""A run written down for people: as Markdown, or as one page of HTML that needs nothing else.

Pure. Words of models are text: fenced in Markdown, escaped in HTML, with hidden characters written out. The page has
no script and loads nothing, and its content security policy says so to the browser.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from llm_do_temporal.cli.reports.costs import cost_lines, price
from llm_do_temporal.cli.reports.export import Exported, as_text, block_of, invocation_heading, verdict_line
from llm_do_temporal.cli.terminal.run_picture import item_lines, totals_line
from llm_do_temporal.cli.text import visible_block, visible_line, visible_source
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.redaction.hidden_characters import shown_value
from llm_do_temporal.ui.content.renderer import pretty, visible
from llm_do_temporal.ui.content.renderer import visible_line as visible_words
from llm_do_temporal.ui.content.renderer import visible_source as visible_change

_TICKS = re.compile(r"`+")


def render_markdown(exported: Exported) -> str:
    """Return the run as Markdown."""
    parts = [f"# Run {_code(exported.view.run)}", f"{_code(exported.summary.worker)}, {facts(exported)}"]
    if exported.view.error:
        parts.append(_fenced(visible_block(exported.view.error)))
    parts += ["## Tree", _fenced("\n".join(tree_lines(exported)))]
    parts += ["## Cost", _fenced("\n".join(cost_lines(exported.view)))]
    if exported.questions:
        parts.append("## Approvals")
        parts += [text for question in exported.questions for text in _approval(question)]
    for node in exported.view.ordered:
        parts.append(f"## {_code(invocation_heading(node))}")
        for entry in exported.transcripts.get(node.workflow_id, []):
            block = block_of(entry)
            parts.append(f"*{entry.at:%H:%M:%S}* {_code(block.heading)}")
            if block.text:
                parts.append(_fenced(visible_block(block.text)))
    return "\n\n".join(parts) + "\n"


def render_html(exported: Exported) -> str:
    """Return the run as one page of HTML."""
    style = (files("llm_do_temporal.cli") / "templates" / "export.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = Environment(
        loader=PackageLoader("llm_do_temporal.cli"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        pretty=pretty, visible=visible, visible_line=visible_words, visible_source=visible_change
    )
    return environment.get_template("export.html").render(
        exported=exported,
        view=exported.view,
        facts=facts(exported),
        tree="\n".join(tree_lines(exported)),
        costs="\n".join(cost_lines(exported.view)),
        block_of=block_of,
        heading=invocation_heading,
        verdict_line=verdict_line,
        style=Markup(style),  # noqa: S704 - a file of ours
        style_digest=digest,
    )


def facts(exported: Exported) -> str:
    """Return start, duration and usage of the run, on one line."""
    summary, view = exported.summary, exported.view
    return f"started {summary.started_at:%Y-%m-%d %H:%M:%S} UTC, {totals_line(view, exported.read_at)}"


def tree_lines(exported: Exported) -> list[str]:
    """Return a line for each invocation, callees indented below their caller, and for each item that has none."""
    view = exported.view
    lines: list[str] = []
    for node in view.ordered:
        why = f": {node.error}" if node.error else ""
        spent = f"{node.turns} turns, {price(node.usage)}, {price(view.total_of(node))} in total"
        lines.append(visible_line(f"{'  ' * node.depth}{node.path} ({node.definition}) {node.status}, {spent}{why}"))
    return [*lines, *item_lines(view)]


def _approval(question: Question) -> list[str]:
    request = question.request
    texts = [f"### {_code(f'{question.id} {request.tool}, {request.place}')}", _code(request.summary)]
    texts.append(_code(verdict_line(question)))
    for name, value in request.args.items():
        is_line = isinstance(value, str) and "\n" not in value
        texts += [_code(name), _fenced(shown_value(value) if is_line else visible_source(as_text(value)))]
    if request.diff:
        texts += ["Changes:", _fenced(visible_source(request.diff))]
    if question.verdict is not None and question.verdict.args != request.args:
        texts += ["Approved as:", _fenced(visible_source(as_text(question.verdict.args)))]
    return texts


def _code(text: str) -> str:
    """Return text as inline code, on one line, with more backticks around it than in it."""
    shown = visible_line(text)
    ticks = "`" * (_longest(shown) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def _fenced(text: str) -> str:
    """Return visible text as a code block whose fence is longer than any in it, so that the text cannot end it."""
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _longest(text: str) -> int:
    return max((len(found) for found in _TICKS.findall(text)), default=0)
