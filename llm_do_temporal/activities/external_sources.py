"""Builds toolsets from elsewhere: classes of Python packages, and clients of MCP servers.

Secrets are read here, from the variables that a worker's file names, and go to the server alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO, cast

from pydantic_ai.toolsets import AbstractToolset

from llm_do_temporal.definitions.tools.external import MCP_STEP, has_mcp, load_toolset_class
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.messages.external import ExternalToolset, McpServer
from llm_do_temporal.redaction.configured_keys import know_variable

CONNECT_SECONDS = 45
"""A server that is a program has to be loaded first, perhaps on a busy machine."""
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""What a program needs to run at all; everything else a server gets by name."""


def construct(toolset: ExternalToolset, workshop: Path, stderr: TextIO) -> AbstractToolset[object]:
    """The toolset, not yet entered. Raises DefinitionError where it cannot be built.

    `stderr` is the standard error of a server that is a program.
    """
    if toolset.server is not None:
        return _mcp_client(toolset.name, toolset.server, workshop, stderr)
    assert toolset.reference is not None
    kind = load_toolset_class(toolset.reference, root=workshop)
    try:
        built: object = kind(**toolset.options)
    except TypeError as error:
        options = ", ".join(f"'{name}'" for name in toolset.options) or "none"
        raise DefinitionError(f"'{toolset.reference}' does not take these options: {options}") from error
    if not isinstance(built, AbstractToolset):
        raise DefinitionError(f"'{toolset.reference}' is not a toolset of Pydantic AI")
    return cast("AbstractToolset[object]", built)


def _mcp_client(name: str, server: McpServer, workshop: Path, stderr: TextIO) -> AbstractToolset[object]:
    if not has_mcp():
        raise DefinitionError("MCP support is not installed", next_step=MCP_STEP)
    # Imported here: optional, and slow to load for those who have no server.
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    if server.command is None:
        headers = {header: _variable(variable) for header, variable in server.headers_env.items()}
        return MCPToolset(server.url or "", id=name, headers=headers or None, init_timeout=CONNECT_SECONDS)
    program, *arguments = server.command
    environment = {known: os.environ[known] for known in _PASSED_ON if known in os.environ}
    environment |= {variable: _variable(variable) for variable in server.env}
    transport = StdioTransport(
        program, arguments, env=environment, cwd=str(workshop), keep_alive=False, log_file=stderr
    )
    return MCPToolset(transport, id=name, init_timeout=CONNECT_SECONDS)


def _variable(name: str) -> str:
    know_variable(name)
    value = os.environ.get(name)
    if not value:
        raise DefinitionError(f"the variable '{name}' is not set", next_step="Set it where the worker service runs.")
    return value
