"""`offline:by-hand`: the prompt says which tools to call, so that any worker can be tried with no model at all.

Each line that begins with the name of an offered tool is a call, made when the line before has its result:
`slugify {"text": "Hello World"}`, or `slugify Hello World` where the tool takes one text. The answer has the
results. Without such a line it has the names of the tools.
"""

from __future__ import annotations

import json
from typing import Any, cast

from pydantic_ai.tools import ToolDefinition

from llm_do_temporal.offline.model.play import PlayCall, PlaySteps, ask
from llm_do_temporal.offline.model.seen import SeenRequest


def call_by_hand(seen: SeenRequest) -> PlaySteps:
    """Make the calls of the prompt, one after the other, and answer with their results."""
    calls = [call for line in seen.prompt.splitlines() if (call := _call(line, seen.tools)) is not None]
    if not calls:
        names = ", ".join(seen.tools) or "none"
        return f'No line of the prompt begins with the name of a tool. Write: TOOL {{"argument": …}}. Tools: {names}.'
    lines: list[str] = []
    for call in calls:
        result = yield from ask(call.tool, f"Calling {call.tool}.", **call.args)
        lines.append(f"{call.tool}: {result.text}")
    return "\n".join(lines)


def _call(line: str, tools: dict[str, ToolDefinition]) -> PlayCall | None:
    name, _, rest = line.strip().partition(" ")
    return PlayCall(name, _arguments(rest.strip(), tools[name])) if name in tools else None


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
