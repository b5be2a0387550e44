"""The scripted model of the shipped job: an orchestrator lists decks, has each one evaluated and saves the results.

It keeps no state: everything is read from the request, so a retried or resumed conversation goes on where it was.
Which part it plays it sees from the tools offered: `final_result` makes it the evaluator, `list_files` the
orchestrator.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

from tests.support.providers.answers import Answer, Call, Script, Text, ToolCalls, tool_call

Json = dict[str, Any]

EVALUATOR = "pitch_evaluator"
DIMENSIONS = ("team", "market", "product", "traction")
VERDICTS = ("go", "watch", "pass")
PDF_PREFIX = "data:application/pdf;base64,"


@dataclass(frozen=True)
class Outcome:
    """A finished tool call of the conversation."""

    name: str
    args: Json
    content: str


def pitch_decks(pipeline: str = "/pipeline", evaluations: str = "/evaluations") -> Script:
    """Play both workers of the pitch-deck job on the given folders of the sandbox."""

    def script(request: Json, _number: int) -> Answer:
        tools: dict[str, Json] = {
            tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in request.get("tools", [])
        }
        if "final_result" in tools:
            return ToolCalls((Call("final_result", evaluate(request, tools["final_result"])),))
        if "list_files" in tools:
            return _orchestrate(tools, _outcomes(request), PurePosixPath(pipeline), PurePosixPath(evaluations))
        return Text("This script plays the pitch-deck workers, and these tools belong to neither.")

    return script


def evaluate(request: Json, schema: Json) -> Json:
    """Judge the deck in the request. The summary names the sha256 of the bytes that arrived, the verdict follows it."""
    decks = [hashlib.sha256(data).digest() for data in received_pdfs(request)]
    if not decks:
        summary, luck = "No PDF arrived with this request.", 1
    else:
        summary, luck = f"Read {len(decks)} PDF: " + ", ".join(f"sha256 {deck.hex()}" for deck in decks), decks[0][0]
    answer = {
        "summary": summary,
        "scores": [
            {"dimension": name, "score": 2 + (luck + i) % 3, "evidence": f"What the deck says about {name}."}
            for i, name in enumerate(_dimensions(schema))
        ],
        "verdict": VERDICTS[luck % len(VERDICTS)],
        "red_flags": ["The forecast has no source."],
    }
    return {name: value for name, value in answer.items() if name in schema.get("properties", answer)}


def _dimensions(schema: Any) -> Sequence[str]:
    """The dimensions the schema lists, wherever it does; the default ones where it lists none."""
    if isinstance(schema, dict):
        node = cast("Json", schema)
        listed = cast("list[str]", node.get("dimension", {}).get("enum", []))
        found = [listed, *(_dimensions(value) for value in node.values())]
        return next((names for names in found if names and names is not DIMENSIONS), DIMENSIONS)
    return DIMENSIONS


def received_pdfs(request: Json) -> list[bytes]:
    """The PDF parts of the user messages of a request, decoded."""
    return [
        base64.b64decode(part["file"]["file_data"].removeprefix(PDF_PREFIX), validate=True)
        for message in request["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "file" and part["file"].get("file_data", "").startswith(PDF_PREFIX)
    ]


def _orchestrate(
    tools: dict[str, Json], outcomes: list[Outcome], pipeline: PurePosixPath, evaluations: PurePosixPath
) -> Answer:
    listed = [outcome for outcome in outcomes if outcome.name == "list_files"]
    if not listed:
        return tool_call("list_files", path=str(pipeline), pattern="*.pdf")
    decks = _listed_decks(listed[-1].content, pipeline)
    if not decks:
        return Text(f"There is no deck in {pipeline}.")
    evaluated = {deck: outcome for outcome in outcomes for deck in _attached_decks(outcome)}
    if missing := [deck for deck in decks if deck not in evaluated]:
        return ToolCalls(tuple(_evaluation_call(deck, tools) for deck in missing))
    saved = [outcome for outcome in outcomes if outcome.name == "write_file"]
    answers = {deck: evaluated[deck].content for deck in decks if _is_evaluation(evaluated[deck].content)}
    if "write_file" in tools and answers and not saved:
        return ToolCalls(tuple(_write_call(deck, answers[deck], evaluations) for deck in answers))
    return Text(_summarize(decks, answers, saved))


def _evaluation_call(deck: str, tools: dict[str, Json]) -> Call:
    task = f"Evaluate the pitch deck {PurePosixPath(deck).name}."
    if EVALUATOR not in tools:
        return Call("worker_call", {"worker_name": EVALUATOR, "input_data": task, "attachments": [deck]})
    fields: Json = tools[EVALUATOR].get("properties", {})
    required = [name for name in tools[EVALUATOR].get("required", []) if fields[name].get("type") == "string"]
    return Call(EVALUATOR, dict.fromkeys(required or ["input"], task) | {"attachments": [deck]})


def _write_call(deck: str, evaluation: str, evaluations: PurePosixPath) -> Call:
    content = f"# {PurePosixPath(deck).stem}\n\n```json\n{evaluation}\n```\n"
    return Call("write_file", {"path": str(evaluations / f"{PurePosixPath(deck).stem}.md"), "content": content})


def _summarize(decks: list[str], answers: dict[str, str], saved: list[Outcome]) -> str:
    lines = [f"Evaluated {len(answers)} of {len(decks)} decks, {len(saved)} files written or refused."]
    for deck in decks:
        verdict = json.loads(answers[deck])["verdict"] if deck in answers else "not evaluated"
        lines.append(f"- {PurePosixPath(deck).name}: {verdict}")
    return "\n".join(lines)


def _outcomes(request: Json) -> list[Outcome]:
    calls: dict[str, Json] = {}
    outcomes: list[Outcome] = []
    for message in request["messages"]:
        made: list[Json] = message.get("tool_calls") or []
        calls |= {call["id"]: call["function"] for call in made}
        if message["role"] == "tool":
            call = calls[message["tool_call_id"]]
            outcomes.append(Outcome(call["name"], json.loads(call["arguments"]), _text_of(message["content"])))
    return outcomes


def _text_of(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _attached_decks(outcome: Outcome) -> list[str]:
    attachments: list[str] = outcome.args.get("attachments") or []
    return attachments if outcome.name in {EVALUATOR, "worker_call"} else []


def _listed_decks(listing: str, pipeline: PurePosixPath) -> list[str]:
    try:
        names = list(_strings(json.loads(listing)))
    except ValueError:
        names = re.findall(r"[^\s'\",]+\.pdf", listing)
    return sorted({str(pipeline / name) for name in names if name.endswith(".pdf")})


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in cast("Json", value).values() if isinstance(value, dict) else cast("list[Any]", value):
            yield from _strings(item)


def _is_evaluation(content: str) -> bool:
    try:
        return "verdict" in json.loads(content)
    except (ValueError, TypeError):
        return False
