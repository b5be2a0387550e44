"""Choice of the offered tool that delegates to a deck evaluator, and its arguments. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai.tools import ToolDefinition

_EVALUATES = ("evaluat", "pitch", "deck", "score")
_ONE_OF = re.compile(r"\bone of:?\s+([^.]+)", re.IGNORECASE)
_NAME = re.compile(r"\b[a-z][a-z0-9_-]*\b")


@dataclass(frozen=True)
class Delegate:
    """Tool that takes a deck as an attachment, and the worker to name; None if the tool asks for no name."""

    tool: ToolDefinition
    worker: str | None

    def arguments(self, deck: str, task: str) -> dict[str, Any]:
        """Return the arguments of the call for a deck; `task` is the text for the worker."""
        properties = _properties(self.tool)
        given = {"worker_name": self.worker, "attachments": [deck]}
        texts = {name: task for name in ("input", "input_data") if name in properties}
        return {**_other_texts(self.tool, task), **texts, **{key: value for key, value in given.items() if value}}


def find_delegate(tools: Mapping[str, ToolDefinition], instructions: str) -> Delegate | None:
    """Return the tool to evaluate decks with: a tool of an evaluator first, else a generic one; None without either."""
    taking = [tool for tool in tools.values() if "attachments" in _properties(tool)]
    named = [tool for tool in taking if "worker_name" not in _properties(tool)]
    if named:
        return Delegate(
            tool=max(named, key=lambda tool: _fitness(f"{tool.name} {tool.description or ''}")), worker=None
        )
    generic = next((tool for tool in taking if "worker_name" in _properties(tool)), None)
    return None if generic is None else Delegate(tool=generic, worker=_worker(generic, instructions))


def _worker(tool: ToolDefinition, instructions: str) -> str:
    allowed = _properties(tool)["worker_name"]
    names: list[str] = [*allowed.get("enum", ()), *([allowed["const"]] if "const" in allowed else [])]
    listed = _ONE_OF.search(str(allowed.get("description", "")))
    if not names and listed:
        names = _NAME.findall(listed[1])
    if not names:
        texts = f"{instructions}\n{tool.description or ''}"
        named = _NAME.findall(texts)
        names = [name for name in named if name.endswith("evaluator")]
        names = names or [name for name in named if _fitness(name) and ("_" in name or "-" in name)]
    return max(names, key=_fitness, default="pitch_evaluator")


def _fitness(text: str) -> int:
    return sum(word in text.lower() for word in _EVALUATES)


def _properties(tool: ToolDefinition) -> Mapping[str, Mapping[str, Any]]:
    return cast("Mapping[str, Mapping[str, Any]]", tool.parameters_json_schema.get("properties", {}))


def _other_texts(tool: ToolDefinition, task: str) -> dict[str, Any]:
    """Return the task as the value of every further text that a typed input requires."""
    required: list[str] = tool.parameters_json_schema.get("required", [])
    properties = _properties(tool)
    known = ("worker_name", "attachments", "input", "input_data")
    return {name: task for name in required if name not in known and properties.get(name, {}).get("type") == "string"}
