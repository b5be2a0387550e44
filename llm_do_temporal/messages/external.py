"""Toolsets that come from elsewhere, as they are pinned, and the activities that list and call their tools."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from llm_do_temporal.messages.base import Json, Message
from llm_do_temporal.messages.worker_calls import ToolCaller
from llm_do_temporal.policy.external import ToolPolicy


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
    prefix: str | None = None
    policy: ToolPolicy = ToolPolicy()
    tools: dict[str, ToolPolicy] = Field(default_factory=dict)


class ListExternalToolsInput(Message):
    """Input of `list_external_tools`."""

    toolsets: tuple[ExternalToolset, ...]
    model: str
    caller: ToolCaller | None = None
    """Invocation that they work for; None if an earlier version scheduled it."""


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


class ExternalToolListing(Message):
    """Result of `list_external_tools`, in the order asked. A toolset that could not be used has no tools."""

    toolsets: tuple[ExternalTools, ...] = ()


class CallExternalToolInput(Message):
    """Input of `call_external_tool` and of `external_capabilities`."""

    toolset: ExternalToolset
    tool: str
    """Name of the tool in its toolset."""
    args: dict[str, Any]
    model: str
    caller: ToolCaller | None = None
    """Invocation that it works for; None if an earlier version scheduled it."""
    limit_seconds: float | None = None
    """Seconds that the call may take, waiting for workers not counted; None for as long as the activity."""


class ExternalResult(Message):
    """Result of `call_external_tool`."""

    value: Json = None


class ExternalCapabilities(Message):
    """Result of `external_capabilities`."""

    capabilities: tuple[str, ...]
