"""A run read at once from its histories and written down: as JSON, as Markdown, or as one page of HTML.

Words of models are text: fenced in Markdown, escaped in HTML, with hidden characters written out. The page has no
script and loads nothing, and its content security policy says so to the browser.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib.resources import files
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.cli.reports.show import cost_lines, price, record_json
from llm_do_temporal.cli.tables import clock
from llm_do_temporal.cli.terminal.run_picture import dollars, item_lines, totals_line
from llm_do_temporal.cli.text import visible_block, visible_line, visible_source
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.invocations import origin_line
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.run_list import RunSummary
from llm_do_temporal.client.views.run_view import Node, RunView, ViewEvent
from llm_do_temporal.client.views.transcripts import Entry, Transcriber
from llm_do_temporal.redaction.hidden_characters import shown_value
from llm_do_temporal.ui.content.renderer import pretty, visible
from llm_do_temporal.ui.content.renderer import visible_line as visible_words
from llm_do_temporal.ui.content.renderer import visible_source as visible_change

EXPORT_VERSION = 1
_TICKS = re.compile(r"`+")


@dataclass(frozen=True)
class Exported:
    """Run as it stood at `read_at`."""

    summary: RunSummary
    view: RunView
    questions: list[Question]
    transcripts: dict[str, list[Entry]]
    """Entries of each conversation, by the workflow id of its invocation."""
    read_at: datetime
    """Time of reading, in UTC without a zone."""

    def as_json(self) -> dict[str, Any]:
        """Return the object of `export --format json`: that of `show --json`, with whole approvals and transcripts."""
        record = record_json(self.summary, self.view, [])
        for invocation in record["invocations"]:
            invocation["transcript"] = [_plain(entry) for entry in self.transcripts.get(invocation["workflow"], [])]
        approvals = [question.as_json() for question in self.questions]
        return {"v": EXPORT_VERSION, "type": "run.export"} | record | {"approvals": approvals}


@dataclass(frozen=True)
class Block:
    """Entry of a transcript as it is shown: a heading, and a text that may be folded away."""

    kind: str
    heading: str
    text: str = ""

    @property
    def is_folded(self) -> bool:
        """Whether only the heading is shown at first: most readers want no more of it."""
        return self.kind in ("instructions", "thinking", "call", "result") and bool(self.text)


async def read_exported(client: LlmDoClient, run: str) -> Exported:
    """Read the whole run. Raises UsageError for a run that does not exist, ConnectionFailed."""
    transcribers: dict[str, Transcriber] = {}
    transcripts: dict[str, list[Entry]] = {}

    def transcribe(workflow_id: str, event: HistoryEvent) -> None:
        said = transcribers.setdefault(workflow_id, Transcriber()).apply(event)
        if said:  # a batch as a whole says nothing
            transcripts.setdefault(workflow_id, []).extend(said)

    summary = await client.status(run)
    view = await client.view(run, tap=transcribe)
    questions = await client.questions(run)
    return Exported(summary, view, questions, transcripts, datetime.now(UTC).replace(tzinfo=None))


def invocation_heading(node: Node) -> str:
    """Return path, worker, model, status and usage of an invocation, on one line."""
    reused = f", {node.reused_turns} of them reused" if node.reused_turns else ""
    spent = f"{node.turns} turns{reused}, {node.usage.tokens_line}"
    return f"{node.path}: {node.definition}, {node.model}, {node.status}, {spent}"


def block_of(entry: Entry) -> Block:
    """Return the block with which an entry is shown."""
    files = "".join(
        f"\n[{file.name}, {file.media_type}, {file.bytes} bytes, sha256 {file.sha256}]" for file in entry.files
    )
    text = f"{entry.text}{files}".strip("\n")
    if entry.kind == "call":
        return Block("call", f"calls {entry.name}", as_text(entry.value))
    if entry.kind == "result":
        failed = (" (failed)" if entry.failed else "") + _origin(entry)
        value = "" if entry.value is None else as_text(entry.value)
        return Block("result", f"result of {entry.name}{failed}", f"{value}\n{text}".strip("\n"))
    if entry.kind == "template":
        filled = as_text(entry.value) if entry.value else ""
        return Block("template", f"template {entry.text}, sha256 {entry.details.get('sha256')}", filled)
    if entry.kind == "turn":
        return Block("turn", _turn(entry))
    if entry.kind == "question":
        shown = entry.details.get("diff") or as_text(entry.value)
        return Block("question", f"asks a person: {entry.text}", str(shown))
    if entry.kind == "decision":
        details, changed = entry.details, entry.details.get("args")
        heading = f"{details.get('id')}: {entry.value} by {entry.name or 'somebody'}, by {details.get('door')}"
        heading += f" from {details['source']}" if details.get("source") else ""
        return Block("decision", heading, text if changed is None else f"{text}\n{as_text(changed)}".strip("\n"))
    if entry.kind == "end":
        return Block("end", entry.text, "" if entry.value is None else as_text(entry.value))
    if entry.kind == "prompt" and entry.value is not None:
        text = f"{text}\n{as_text(entry.value)}".strip("\n")
    return Block(entry.kind, "answer" if entry.kind == "text" else entry.kind, text)


def verdict_line(question: Question) -> str:
    """Return the decision of a question, or why there is none, on one line."""
    verdict = question.verdict
    if verdict is None:
        return "no longer needed" if question.withdrawn else "waits for a person"
    note = f": {verdict.note}" if verdict.note else ""
    source = f" from {verdict.granted_by}" if verdict.door == "script" and verdict.granted_by else ""
    via = f" via {verdict.via}" if verdict.via else ""
    when = f"{verdict.at:%Y-%m-%d %H:%M:%S} UTC"
    who = f"{verdict.decision} by {verdict.by or 'somebody'}{via}, {when}, by {verdict.door}{source}"
    undone = f"; {question.undone_words}" if question.again else ""
    return f"{who}{note}{undone}"


def _turn(entry: Entry) -> str:
    details = entry.details
    if origin_line(details):
        return f"turn {entry.turn}, {entry.name}{_origin(entry)}"
    cost = details.get("cost_usd")
    price = "unpriced" if cost is None else dollars(cost)
    tokens = f"{details.get('input_tokens', 0):,} tokens in, {details.get('output_tokens', 0):,} out"
    tokens += " (estimated)" if details.get("estimated") else ""
    return f"turn {entry.turn}, {entry.name}, {tokens}, {price}, {details.get('seconds', 0):.1f} s"


def _origin(entry: Entry) -> str:
    """Return where a turn or a result was taken from, or why it was not, after a comma; empty for others."""
    origin, anew = origin_line(entry.details), entry.details.get("anew")
    return f", from {origin}" if origin else f", carried out anew: {anew}" if anew else ""


def as_text(value: Any) -> str:
    """Return a text as it is, any other value as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    """Return a value in the types of JSON; empty fields of our own objects are left out."""
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        # A result may be 0 or false.
        return {
            name: _plain(one)
            for name, one in named.items()
            if (one is not None if name == "value" else one not in ("", None, (), {}, False))
        }
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast("list[Any]", value)]
    return value


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
    style = (files("llm_do_temporal.extensions.export") / "templates" / "export.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = Environment(
        loader=PackageLoader("llm_do_temporal.extensions.export"),
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


_PATH_CHARS = 28
_WORDS_CHARS = 600
_VALUE_CHARS = 120
_INDENT = "    | "


def log_lines(event: ViewEvent) -> list[str]:
    """Return the lines of one event."""
    when = f"{event.at.isoformat(sep=' ', timespec='milliseconds')}Z"
    place = visible_line(event.path or "run").ljust(_PATH_CHARS)
    answer = str(event.data.get("text") or "").strip()
    words = visible_line(_words(event), _WORDS_CHARS)
    return [f"{when}  {place}  {words}", *(f"{_INDENT}{line}" for line in visible_block(answer).splitlines())]


def concerns(event: ViewEvent, path: str | None) -> bool:
    """Whether the event belongs to the invocation at `path` or to one below it; every event does for None."""
    return path is None or is_within(event.path, path)


def is_within(place: str, path: str) -> bool:
    """Whether a place in the tree is `path` or below it."""
    return place == path or place.startswith(f"{path}/")


def _words(event: ViewEvent) -> str:
    kind, _, what = event.type.partition(".")
    data = event.data
    if event.type in _WORDS:
        return _WORDS[event.type](data)
    if kind == "approval":
        return _approval_words(what, data)
    if kind == "activity":
        more = data.get("error") or data.get("note")
        return f"{what}: {data.get('what')}" + (f": {more}" if more else "")
    why = data.get("error") or ""
    if kind == "item":
        why = f"{data.get('item')}" + (f": {why.get('message')}" if isinstance(why, dict) else "")
    return f"{kind} {what}" + (f": {why}" if why else "")


def _answered(data: dict[str, Any]) -> str:
    calls = ", ".join(map(_call, cast("list[dict[str, Any]]", data.get("calls") or [])))
    tokens = f"{data.get('input_tokens', 0):,} tokens in, {data.get('output_tokens', 0):,} out"
    tokens += " (estimated)" if data.get("estimated") else ""
    tokens = f"from {data['reused']}" if data.get("reused") else tokens
    return f"turn {data.get('turn')} answered: {tokens}" + (f"; calls {calls}" if calls else "")


def _failed(data: dict[str, Any]) -> str:
    reason = data.get("reason")
    said = reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False)
    return f"{data.get('tool')} refused or failed: {said}"


def _warning(data: dict[str, Any]) -> str:
    return f"warning: {data.get('reason')}"


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "invocation.started": lambda data: f"started: {data.get('worker')}, {data.get('model')}",
    "turn.started": lambda data: f"turn {data.get('turn')} begins",
    "turn.completed": _answered,
    "call.reused": lambda data: f"{data.get('tool')} not carried out: its result is from {data.get('reused')}",
    "call.anew": lambda data: f"a call of the other run is carried out anew: {data.get('reason')}",
    "call.failed": _failed,
    "tools.missing": _warning,
    "files.missing": _warning,
    "signal.ignored": lambda data: f"a signal was ignored: {data.get('reason')}",
    "desk.changed": lambda data: f"waits for a person: {', '.join(data.get('pending') or []) or 'nothing'}",
}
"""Words for an event, by its type, out of its data."""


def _approval_words(what: str, data: dict[str, Any]) -> str:
    if what == "requested":
        why = f", since {data['reason']}" if data.get("reason") else ""
        return f"asks: {data.get('summary')}{why}" + (f": {_arguments(data['args'])}" if data.get("args") else "")
    if what == "voted":
        votes: list[str] = data.get("votes") or []
        names = ", ".join(name or "somebody" for name in votes)
        return f"{data.get('id')} agreed to so far by {names}: {data.get('summary')}"
    who = data.get("by") or ("a timer" if data.get("door") == "timer" else "somebody")
    who += f" via {data['via']}" if data.get("via") else ""
    who += f" (from {data['source']})" if data.get("source") else ""
    note = f" ({data['note']})" if data.get("note") else ""
    waited = data.get("waited_seconds")
    after = "" if waited is None else f" after {clock(waited)}"
    return f"{data.get('id')} {data.get('decision')} by {who}{after}: {data.get('summary')}{note}"


def _call(call: dict[str, Any]) -> str:
    return f"{call.get('tool')}({_arguments(call.get('args'))})"


def _arguments(args: Any) -> str:
    """Return the arguments of a call on one line, each text with the beginning that a line has room for."""
    if not isinstance(args, dict):
        return _brief(args)
    given = cast("dict[str, Any]", args)
    return ", ".join(f"{name}={_brief(value)}" for name, value in given.items())


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_CHARS else f"{text[: _VALUE_CHARS - 1]}…"
