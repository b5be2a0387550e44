"""A run read at once from its histories, to be written down: transcripts, tree, approvals and costs."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.cli.reports.show import record_json
from llm_do_temporal.cli.terminal.run_picture import dollars
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.invocations import origin_line
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.run_list import RunSummary
from llm_do_temporal.client.views.run_view import Node, RunView
from llm_do_temporal.client.views.transcripts import Entry, Transcriber

EXPORT_VERSION = 1


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
