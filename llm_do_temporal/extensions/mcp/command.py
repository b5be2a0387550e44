"""`mcp`: exported workers as tools of agents, over pipes or HTTP."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import begin_pipes, check_packages, say
from llm_do_temporal.environment import TOKEN_VARIABLE
from llm_do_temporal.errors import UsageError
from llm_do_temporal.signals import leave_when_told, stop_when_told

if TYPE_CHECKING:
    from llm_do_temporal.cli.session import Session
    from llm_do_temporal.doors.service import DoorService


async def mcp(
    *,
    http: Annotated[bool, Parameter(negative="")] = False,
    host: str = "127.0.0.1",
    port: int = 8236,
    allowed_host: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Offer exported workers to an agent by the Model Context Protocol, over stdin and stdout unless told otherwise.

    Parameters
    ----------
    http
        Serve by streamable HTTP at /mcp until Ctrl-C instead; every request needs a token.
    host
        Address to listen at with --http; 127.0.0.1 by default.
    port
        Port to listen at with --http; 8236 by default.
    allowed_host
        Name by which clients call the server, where it is not the address listened at. May be given several times.
    """
    leave_when_told()
    check_packages("the Model Context Protocol", "mcp", "mcp")
    from llm_do_temporal.cli.session import opened

    async with opened(location) as session:
        if http:
            return await _serve_http(session, host, port, allowed_host)
        from llm_do_temporal.doors.principal import TokenFile
        from llm_do_temporal.extensions.mcp.server import serve_pipes

        tokens = None if session.workshop is None else TokenFile.of_workshop(session.workshop)
        begin_pipes("an agent")
        await serve_pipes(_service(session), tokens, os.environ.get(TOKEN_VARIABLE, ""), page=_page(session))
    return 0


async def _serve_http(session: Session, host: str, port: int, allowed: tuple[str, ...]) -> int:
    from llm_do_temporal.doors.principal import TokenFile
    from llm_do_temporal.extensions.mcp.server import PATH, http_app
    from llm_do_temporal.ui.http_server import AppServer, check_names, listen, own_hosts, shown_address

    if session.workshop is None:
        raise UsageError("mcp --http needs a workshop: its folder has the tokens", next_step="Name it: --workshop DIR.")
    what = "the MCP server"
    check_names(host, allowed, what=what)
    server = AppServer(listen(host, port, what=what))
    stop_when_told(server.stop)
    address = shown_address(host, server.port)
    hosts = own_hosts(host, server.port, *allowed)
    tokens = TokenFile.of_workshop(session.workshop)
    async with http_app(_service(session), tokens, address=address, hosts=hosts, page=_page(session)) as app:
        say(f"MCP           {address}{PATH}")
        say("Ctrl-C stops the server; runs go on.")
        await server.serve(app)
    return 0


def _service(session: Session) -> DoorService:
    from llm_do_temporal.doors.service import DoorService

    return DoorService(session.client, session.workshop, embedded=session.embedded)


def _page(session: Session) -> str | None:
    from llm_do_temporal.definitions.workshop import WorkshopConfig, load_workshop, page_address

    config = WorkshopConfig() if session.workshop is None else load_workshop(session.workshop).config
    return page_address(config, os.environ)
