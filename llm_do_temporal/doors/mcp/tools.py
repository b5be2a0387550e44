"""Tools that the door offers: one for each exported worker, and the plain ones for clients that know nothing else."""

from __future__ import annotations

import re
from typing import Any

import mcp_types as types

from llm_do_temporal.doors.values import MAX_KEY_CHARS, Worker

_RUN = {"type": "string", "description": "Id of the run."}
_KEY = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_KEY_CHARS,
    "description": "Any text of yours: the same key starts one run, however often it is sent.",
}
_FILES = {
    "type": "array",
    "description": "Files to attach.",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Name without folders."},
            "content": {"type": "string", "description": "Bytes in base64, without line breaks."},
        },
        "required": ["name", "content"],
        "additionalProperties": False,
    },
}
_PROMPT = {"type": "string", "description": "The task in words."}
_PREFIX = "worker_"
_DECISION = {"type": "string", "enum": ["approve", "reject", "modify"]}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


PLAIN = (
    types.Tool(
        name="start",
        description="Start a run of a worker, and return its id at once.",
        input_schema=_object(
            {
                "worker": {"type": "string"},
                "prompt": _PROMPT,
                "input": {"description": "Structured input of a worker that has a schema for it."},
                "attachments": _FILES,
                "key": _KEY,
            },
            "worker",
        ),
    ),
    types.Tool(
        name="wait",
        description="Wait up to 45 seconds until a run ends or asks people something. Call it again while it runs.",
        input_schema=_object({"run": _RUN, "seen": {"type": "array", "items": {"type": "string"}}}, "run"),
    ),
    types.Tool(
        name="questions",
        description="List what runs ask people: of one run, or of all that you may see.",
        input_schema=_object({"run": _RUN}),
    ),
    types.Tool(
        name="answer",
        description="Hand on the decision of a person about a question. Yours does not count, and is refused.",
        input_schema=_object(
            {
                "run": _RUN,
                "question": {"type": "string"},
                "digest": {"type": "string", "description": "Digest of the question that the person saw."},
                "decision": _DECISION,
                "note": {"type": "string", "description": "Reason of a rejection."},
                "args": {"type": "object", "description": "The arguments after a change."},
            },
            "run",
            "question",
            "digest",
            "decision",
        ),
    ),
    types.Tool(
        name="result",
        description="Return the state of a run, the names of its files, and its result once it has ended.",
        input_schema=_object({"run": _RUN}, "run"),
    ),
)
NAMES = frozenset(tool.name for tool in PLAIN)


def tool_of(worker: Worker) -> types.Tool:
    """Return the tool that runs the worker; one that is called like a plain tool has `worker_` before its name."""
    properties: dict[str, Any] = {"prompt": _PROMPT, "key": _KEY}
    if worker.input_schema is not None:
        properties["input"] = worker.input_schema
    if worker.takes_files:
        properties["attachments"] = _FILES
    required = ("prompt",) if worker.input_schema is None else ("input",)
    return types.Tool(
        name=tool_name(worker.name),
        description=worker.description or f"Runs the worker '{worker.name}'.",
        input_schema=_object(properties, *required),
    )


def tool_name(worker: str) -> str:
    """Return the name of a worker's tool, which is no other worker's: `start` is `worker_start`, and so on."""
    return f"{_PREFIX}{worker}" if _stem(worker) in NAMES else worker


def worker_name(tool: str) -> str:
    """Return the name of the worker that a tool runs."""
    return tool.removeprefix(_PREFIX) if _stem(tool) in NAMES else tool


def _stem(name: str) -> str:
    """Return the name without all prefixes."""
    return re.sub(f"^({_PREFIX})+", "", name)
