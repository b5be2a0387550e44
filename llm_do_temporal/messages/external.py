"""Toolsets that come from elsewhere, as they are pinned, the activities that list and call their tools, and the calls
of workers that the Python of a tool makes."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from llm_do_temporal.messages.base import Json, Message, is_empty, is_false
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.sizes import MAX_CALL_FOR_TOOL_BYTES
from llm_do_temporal.policy.external import ToolPolicy

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


class McpServer(Message):
    """Access to an MCP server: a program to start, or an address. Secrets are names of variables."""

    command: tuple[str, ...] | None = None
    url: str | None = None
    env: tuple[str, ...] = ()
    headers_env: dict[str, str] = Field(default_factory=dict)


class ExternalToolset(Message):
    """A toolset of a worker that is a class of a Python package, or an MCP server."""

    name: str
    """Name of the toolset in the worker's file; `mcp.NAME` for a server."""
    reference: str | None = None
    """Class path; None for a server."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Arguments that the class is constructed with."""
    server: McpServer | None = None
    required: bool = Field(default=False, exclude_if=is_false)
    """Whether the invocation fails where it cannot be used."""
    prefix: str | None = None
    policy: ToolPolicy = ToolPolicy()
    tools: dict[str, ToolPolicy] = Field(default_factory=dict)


class ListExternalToolsInput(Message):
    """Input of `list_external_tools`."""

    toolsets: tuple[ExternalToolset, ...]
    model: str
    caller: ToolCaller
    """Invocation that they work for."""


class ExternalTool(Message):
    """A tool as its toolset describes it."""

    name: str
    """Name of the tool in its toolset, without prefix."""
    description: str = ""
    parameters: dict[str, Any]
    """JSON Schema of its arguments."""
    asks: bool = False
    """Whether the toolset itself wants it approved."""


class ExternalTools(Message):
    """The tools of one toolset."""

    toolset: str
    tools: tuple[ExternalTool, ...] = ()
    judges_calls: bool = False
    """Whether the toolset says for each call what capabilities it uses."""
    warnings: tuple[str, ...] = ()
    unusable: bool = Field(default=False, exclude_if=is_false)
    """Whether the toolset as a whole could not be used."""


class ExternalToolListing(Message):
    """Result of `list_external_tools`, in the order asked. A toolset that could not be used has no tools."""

    toolsets: tuple[ExternalTools, ...] = ()
    read_key: str = Field(default="", exclude_if=is_empty)
    """Key of what was read, by which it is found again; see `policy.content_keys`. Empty: it has none."""


class CallExternalToolInput(Message):
    """Input of `call_external_tool` and of `external_capabilities`."""

    toolset: ExternalToolset
    tool: str
    """Name of the tool in its toolset."""
    args: dict[str, Any]
    model: str
    caller: ToolCaller
    """Invocation that it works for."""
    limit_seconds: float | None = None
    """Seconds that the call may take, waiting for workers not counted; None for as long as the activity."""
    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the call that it belongs to; see `policy.content_keys`. Empty: it has none."""


class ExternalResult(Message):
    """Result of `call_external_tool`."""

    value: Json = None


class ExternalCapabilities(Message):
    """Result of `external_capabilities`."""

    capabilities: tuple[str, ...]
