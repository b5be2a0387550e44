"""Messages of MCP servers, before the protocol's library reads them.

Owns that one tool that cannot be read takes no other tool away, and that one half character takes no message away.
Called for each connection; imported only where a server is used, since the library is optional.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

from fastmcp.client.transports.base import TransportOptions, VersionAwareClientSession
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from llm_do_temporal.activities.external_schemas import LEFT_OUT

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def read_leniently(transport: Any) -> None:
    """Let each session of the transport read messages that can be repaired."""
    connect = transport.connect_session

    def connect_session(*, transport_options: TransportOptions | None = None, **session: Any) -> Any:
        options = replace(transport_options or TransportOptions(), session_class=_Session)
        return connect(transport_options=options, **session)

    transport.connect_session = connect_session


class _Session(VersionAwareClientSession):
    def __init__(self, read_stream: Any, write_stream: Any, **options: Any) -> None:
        super().__init__(_Messages(read_stream), write_stream, **options)


class _Messages:
    """Stream of messages from a server, each repaired."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _Messages:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._stream.__aexit__(*error)

    async def receive(self) -> SessionMessage | Exception:
        return _repaired(await self._stream.receive())

    def __aiter__(self) -> AsyncIterator[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return _repaired(await self._stream.__anext__())


def _repaired(item: SessionMessage | Exception) -> SessionMessage | Exception:
    if isinstance(item, ValidationError):
        item = _reread(item)
    if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
        result = item.message.result
        tools = result.get("tools")
        if isinstance(tools, list) and "content" not in result:
            listed = [readable_tool(tool, place) for place, tool in enumerate(cast("list[Any]", tools), 1)]
            item.message.result = {**result, "tools": listed}
    return item


def _reread(error: ValidationError) -> SessionMessage | Exception:
    """Return the message in a line that the library cannot read for its half characters; else the error itself."""
    line: Any = error.errors()[0].get("input")
    try:
        plain = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", errors="replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(plain, by_name=False))
    except (TypeError, ValueError, RecursionError):
        return error


def readable_tool(tool: Any, place: int) -> dict[str, Any]:
    """Return a tool of a listing as the library reads it; with `LEFT_OUT` in its schema where it cannot be offered.

    `place` counts the tools from 1. The schema of results is left out: a result that does not fit it is a result.
    """
    if not isinstance(tool, dict) or not isinstance(cast("dict[str, Any]", tool).get("name"), str):
        return {"name": f"number {place}", "inputSchema": {"type": "object", LEFT_OUT: "it has no name"}}
    given = cast("dict[str, Any]", tool)
    found: dict[str, Any] = {"name": given["name"], "inputSchema": _arguments(given.get("inputSchema"))}
    if isinstance(given.get("description"), str):
        found["description"] = given["description"]
    if isinstance(given.get("_meta"), dict):
        found["_meta"] = given["_meta"]
    hints = given.get("annotations")
    if isinstance(hints, dict):
        known = cast("dict[str, Any]", hints)
        found["annotations"] = {name: known[name] for name in _HINTS if isinstance(known.get(name), bool)}
    return found


def _arguments(schema: Any) -> dict[str, Any]:
    """Return the schema of a tool's arguments, which are an object whatever it leaves open."""
    if schema is None or schema is True:
        return {"type": "object"}
    if not isinstance(schema, dict):
        return {"type": "object", LEFT_OUT: "its schema is not an object"}
    given = cast("dict[str, Any]", schema)
    kind: Any = given.get("type", "object")
    if kind == "object" or kind is None or (isinstance(kind, list) and "object" in kind):
        return {**given, "type": "object"}
    return {"type": "object", LEFT_OUT: "its arguments are not an object"}
