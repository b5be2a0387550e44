"""The official client at the MCP door, as agents of two protocol eras are, with and without tasks and forms."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import mcp_types as types
from mcp.client import Client, advertise

from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.extensions.mcp.server import TASKS, VIA, build_server
from llm_do_temporal.testing import scripted
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place

ERAS = ("legacy", "2026-07-28")
AGENT = Principal("agent", frozenset({TokenScope.START, TokenScope.READ}), is_person=False, via=VIA)
ADA = Principal("ada", frozenset(TokenScope), is_person=True, via=VIA)
PAGE = "http://127.0.0.1:8234"
DECK = {"name": "deck.txt", "content": base64.b64encode(b"seven slides").decode()}
Filled = Mapping[str, Any] | None
Fill = Callable[[types.ElicitRequestFormParams], Filled | Awaitable[Filled]]


def writer(place: Place, *turns: Any, **keys: Any) -> None:
    """Write an exported worker that asks before it writes."""
    keys = {"toolsets": {"filesystem": {}}, "export": True, "description": "Writes a file.", **keys}
    place.worker("writer", scripted(*(turns or (write_call("/a.txt"), "Done."))), **keys)


def client(
    place: Place, who: Principal = AGENT, *, era: str = ERAS[-1], fill: Fill | None = None, tasks: bool = False
) -> Client:
    """Return a client of an era; `fill` is its person, who fills in forms or puts them aside (None)."""

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        assert fill is not None, context
        content = fill(params)
        content = await content if isinstance(content, Awaitable) else content
        return (
            types.ElicitResult(action="decline")
            if content is None
            else types.ElicitResult(action="accept", content=dict(content))
        )

    return Client(
        build_server(DoorService(place.client, place.folder), lambda: who, page=PAGE),
        mode=era,
        elicitation_callback=None if fill is None else elicit,
        extensions=[advertise(TASKS)] if tasks else None,
    )


def told(result: types.CallToolResult) -> dict[str, Any]:
    """What a tool said, as JSON."""
    assert isinstance(result.structured_content, dict)
    return cast("dict[str, Any]", result.structured_content)
