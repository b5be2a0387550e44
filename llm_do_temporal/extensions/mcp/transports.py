"""Ways to reach the MCP server: the pipes of the process that started it, or HTTP with a token."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from starlette.applications import Starlette

from llm_do_temporal.doors.message_lines import TOO_LONG, BoundedLines
from llm_do_temporal.doors.principal import LOCAL_AGENT, Principal, TokenFile, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.errors import AccessRefused, UsageError
from llm_do_temporal.extensions.mcp.server import VIA, build_server

PATH = "/mcp"


def local_principal(tokens: TokenFile | None, token: str) -> Principal:
    """Return who speaks through the pipes: the owner of the token, without one a program of this machine.

    Raises UsageError for a token that is not known.
    """
    if not token:
        return Principal.program(LOCAL_AGENT, (TokenScope.START, TokenScope.READ), VIA)
    record = None if tokens is None else tokens.find(token)
    if record is None:
        raise UsageError(
            "LLM_DO_TOKEN holds no token that is known here",
            next_step="Make one: `llm-do-temporal token create NAME`, with --person for a person's client.",
        )
    return record.principal(VIA)


async def serve_pipes(service: DoorService, tokens: TokenFile | None, token: str, *, page: str | None) -> None:
    """Serve one client until it closes its end. Raises UsageError for a token that is not known.

    A token that is revoked meanwhile opens nothing any more.
    """
    local_principal(tokens, token)
    server = build_server(service, lambda: local_principal(tokens, token), page=page)

    async def refuse() -> None:
        error = types.ErrorData(code=types.INVALID_REQUEST, message=TOO_LONG)
        await writing.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=error)))

    lines = BoundedLines(anyio.wrap_file(sys.stdin.buffer).read1, refuse)
    async with stdio_server(cast("Any", lines)) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


@asynccontextmanager
async def http_app(
    service: DoorService, tokens: TokenFile, *, address: str, hosts: Collection[str], page: str | None
) -> AsyncGenerator[Starlette]:
    """Yield the application for HTTP at this address, which answers under the names `hosts` those who have a token."""
    server: Server[Any] = build_server(service, lambda: _caller(tokens), page=page)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=list(hosts),
            allowed_origins=[f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")],
        ),
        auth=AuthSettings(issuer_url=address, resource_server_url=None),  # pyright: ignore[reportArgumentType]
        token_verifier=_Verifier(tokens),
    )
    async with server.session_manager.run():
        yield app


class _Verifier:
    """Knows tokens by their digests."""

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the facts of a token; None for one that is not known."""
        record = self._tokens.find(token)
        return None if record is None else AccessToken(token=token, client_id=record.name, scopes=list(record.scopes))


def _caller(tokens: TokenFile) -> Principal:
    """Return the owner of the token of the request under way. Raises AccessRefused."""
    access = get_access_token()
    record = None if access is None else tokens.find(access.token)
    if record is None:
        raise AccessRefused("no token, or none that is known here")
    return record.principal(VIA)
