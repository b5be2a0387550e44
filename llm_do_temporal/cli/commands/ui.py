"""`ui`: the web page, for as long as the command runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import say
from llm_do_temporal.signals import leave_when_told, stop_when_told

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from llm_do_temporal.cli.session import Session
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.ui.page_server import PageServer


async def ui(
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token_file: Path | None = None,
    trusted_header: str | None = None,
    trusted_proxy: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    allowed_host: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    temporal_ui: str | None = None,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Serve the web page with the inbox, approvals and runs until Ctrl-C; prints the link to open.

    Parameters
    ----------
    host
        Address to listen at; 127.0.0.1 by default. Beyond this machine a token file or a proxy must say who people are.
    port
        Port to listen at; by default that of the last start, 8234, or any other where these are in use.
    token_file
        Who may come in: a file with lines `name: token`. Decisions record the name.
    trusted_header
        Header in which a proxy names the user, like X-Forwarded-User.
    trusted_proxy
        IP address of that proxy; the header counts from nobody else. May be given several times.
    allowed_host
        Name by which people call the page, where it is not the address listened at. May be given several times.
    temporal_ui
        Address of the Temporal UI, for links into it; known for the embedded server.
    """
    leave_when_told()
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.telemetry import begin_telemetry
    from llm_do_temporal.ui.access import Admission
    from llm_do_temporal.ui.page_server import PageOptions, PageServer

    begin_telemetry()
    admission = Admission(token_file, trusted_header, trusted_proxy)
    page = PageServer(PageOptions(host, port, admission, allowed_host, location.local_workshop()))
    try:
        async with opened(location) as session:
            stop_when_told(page.stop)
            announce_page(page)
            say("Ctrl-C stops the page; runs go on.")
            await page.serve(
                session.client,
                workshop=session.workshop,
                temporal_ui=temporal_ui.rstrip("/") if temporal_ui else _own_temporal_ui(session),
                namespace=session.client.temporal.namespace,
                embedded=session.embedded,
                build_api=api_of(session.client, session.workshop, embedded=session.embedded),
            )
    finally:
        page.stop()
    return 0


def api_of(
    client: LlmDoClient, workshop: Path | None, *, embedded: bool
) -> Callable[[Collection[str]], ASGIApp] | None:
    """Return what makes the door for programs under the page's names; None where no workshop, and so no token, is."""
    if workshop is None:
        return None

    def build(hosts: Collection[str]) -> ASGIApp:
        from llm_do_temporal.doors.http.app import build_api
        from llm_do_temporal.doors.http.requests import misdirected
        from llm_do_temporal.doors.principal import TokenFile
        from llm_do_temporal.doors.service import DoorService
        from llm_do_temporal.ui.http_server import OnlyByName

        api = build_api(DoorService(client, workshop, embedded=embedded), TokenFile.of_workshop(workshop))
        return OnlyByName(api, hosts, misdirected())

    return build


def announce_page(page: PageServer) -> None:
    """Say where the page is."""
    say(f"page          {page.link}")


def _own_temporal_ui(session: Session) -> str | None:
    from llm_do_temporal.client.embedded.server import running_host

    host = running_host(session.workshop) if session.embedded and session.workshop is not None else None
    return host.ui if host is not None else None
