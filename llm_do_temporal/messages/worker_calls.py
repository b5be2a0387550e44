"""Calls of workers that Python makes while it runs in an activity, as they are asked for and answered."""

from __future__ import annotations

from pydantic import model_validator

from llm_do_temporal.messages.base import Json, Message
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.sizes import MAX_CALL_FOR_TOOL_BYTES

CALL_FOR_TOOL_UPDATE = "call_for_tool"
"""Update from an activity that carries out a tool to the invocation that it works for; carries a CallForToolInput."""


class ToolCaller(Message):
    """The invocation that a tool works for, as the tool is told of it."""

    call: str = ""
    """Names the call of the tool to its invocation; empty where no tool is called, only listed or judged."""
    run: str
    path: str
    worker: str
    depth: int
    max_depth: int


class CallForToolInput(Message):
    """Asks an invocation to call a worker for one of its tools."""

    call: str
    """Name of the tool's call, as `ToolCaller.call` has it."""
    worker: str
    input_data: Json
    attachments: tuple[str, ...] | None = None
    """Paths in the invocation's files."""

    @model_validator(mode="after")
    def _fits(self) -> CallForToolInput:
        size = len(self.model_dump_json())
        if size > MAX_CALL_FOR_TOOL_BYTES:
            raise ValueError(
                f"its input has {size} bytes; at most {MAX_CALL_FOR_TOOL_BYTES} fit, so hand over files as attachments"
            )
        return self


class CalledForTool(Message):
    """Result of a call that an invocation made for its tool."""

    output: Json = None
    """The worker's text, or its structured value."""
    usage: Usage = Usage()
    failure: str | None = None
    """Why there is no output, as a model would be told."""
