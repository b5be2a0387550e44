"""The offline models of the package: `offline:echo`, `offline:greeter`, `offline:by-hand` and `offline:notes`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic_ai.messages import ModelResponsePart
from pydantic_ai.tools import ToolDefinition

from llm_do_temporal.offline.play import Call, PlaySteps, ask, perform
from llm_do_temporal.offline.script_model import SeenRequest, fields_of

NOT_A_MODEL = "This text comes from a script that ships with llm-do-temporal, not from a language model."
DEFAULT_FILE = "/notes.md"
LONGEST_READ = 200_000
_FILE = re.compile(r"(?<![\w.:/])/?[\w][\w./-]*\.(?:md|txt)\b")
_OTHER_FILE = re.compile(r"(?<![\w.:])/[\w./-]+\.\w+\b")


def echo(seen: SeenRequest) -> str:
    """Answer with the prompt, unchanged."""
    return seen.prompt or "(The prompt was empty.)"


def greet(seen: SeenRequest) -> str:
    """Answer with a friendly line that repeats the prompt and names the script as the speaker."""
    words = " ".join(seen.prompt.split())
    heard = f'You said: "{words}". ' if words else ""
    return f"Hello, and welcome! {heard}{NOT_A_MODEL} Choose a real one with --model provider:name."


def call_by_hand(seen: SeenRequest) -> PlaySteps:
    """Make the calls of the prompt, one after the other, and answer with their results.

    Each line that begins with the name of an offered tool is a call: `slugify {"text": "Hello World"}`, or
    `slugify Hello World` where the tool takes one text. Without such a line the answer has the names of the tools.
    """
    lines = [line.strip().partition(" ") for line in seen.prompt.splitlines()]
    calls = [Call(one, _arguments(rest.strip(), seen.tools[one])) for one, _, rest in lines if one in seen.tools]
    if not calls:
        names = ", ".join(seen.tools) or "none"
        return f'No line of the prompt begins with the name of a tool. Write: TOOL {{"argument": …}}. Tools: {names}.'
    results: list[str] = []
    for call in calls:
        result = yield from ask(call.tool, f"Calling {call.tool}.", **call.args)
        results.append(f"{call.tool}: {result.text}")
    return "\n".join(results)


def keep_notes(seen: SeenRequest) -> PlaySteps:
    """Read the first file that the instructions name, write it with the prompt as a new line, and count its lines."""
    note = " ".join(seen.prompt.split())
    if "write_file" not in seen.tools:
        return f'You said: "{note}". I keep notes, but this worker has no tool to write a file with.'
    if not note:
        return "There is nothing to note down."
    path = next(iter(_FILE.findall(seen.instructions)), DEFAULT_FILE)
    before = yield from ask("read_file", f"Reading {path}.", path=path, max_chars=LONGEST_READ)
    if fields_of(before.data).get("truncated"):
        return f"{path} is too long for me to add to; I would lose its end. Nothing was written."
    if not before.ok and "does not exist" not in before.text:
        return f"{path} could not be read, so nothing was written: {before.text}"
    text = str(fields_of(before.data).get("content", "")) if before.ok else ""
    content = f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}- {note}\n"
    saved = yield from ask("write_file", f"Adding the note to {path}.", path=path, content=content)
    elsewhere = next(iter(_OTHER_FILE.findall(saved.rejection or "")), path)
    if elsewhere != path:
        saved = yield from ask("write_file", f"Writing {elsewhere} instead.", path=elsewhere, content=content)
    if not saved.ok:
        return f"The note is not saved: {saved.rejection or saved.text}"
    if saved.note:
        return f"The note is saved, but not as I had it: {saved.note}"
    count = sum(bool(line.strip()) for line in str(saved.args["content"]).splitlines())
    path = fields_of(saved.data).get("path", saved.args["path"])
    return f"{count} {'note' if count == 1 else 'notes'} in {path}. The new one: {note}"


PLAIN: Mapping[str, Callable[[SeenRequest], list[ModelResponsePart]]] = {
    "by-hand": perform(call_by_hand, NOT_A_MODEL),
    "echo": perform(echo),
    "greeter": perform(greet),
    "notes": perform(keep_notes, NOT_A_MODEL),
}
"""Plays by their names, without `offline:`; `policy.models.known` lists the same names."""


def _arguments(text: str, tool: ToolDefinition) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if isinstance(given, dict):
        return cast("dict[str, Any]", given)
    schema = tool.parameters_json_schema
    required: list[str] = schema.get("required") or list(schema.get("properties", {}))[:1]
    return {required[0]: text} if required and text else {}
