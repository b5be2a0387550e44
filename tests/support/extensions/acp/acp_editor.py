"""An editor that is connected to the ACP door over real streams, and the person at it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from acp import PROTOCOL_VERSION, connect_to_agent, run_agent, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    RequestPermissionResponse,
)

from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.extensions.acp.agent import VIA, WorkerAgent
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.place import Place

ADA = Principal("ada", frozenset(TokenScope), is_person=True, via=VIA)
Choose = Callable[[Any], str | None]


@dataclass
class Editor:
    """Person at an editor: chooses an option for each call, puts it aside (None), or never answers."""

    choose: Choose | None
    fill: Callable[[Any], Any] | None = None
    """Person who fills in forms; None: the editor has none."""
    asked: list[Any] = field(default_factory=list[Any])
    news: list[Any] = field(default_factory=list[Any])
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    has_news: asyncio.Event = field(default_factory=asyncio.Event)
    agent: Any = None

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_more: Any
    ) -> RequestPermissionResponse:
        """Answer as the person chooses."""
        self.asked.append(tool_call)
        self.was_asked.set()
        self.has_news.set()
        if self.choose is None:
            await asyncio.Event().wait()
        assert self.choose is not None
        chosen = self.choose(tool_call)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        assert chosen in [option.option_id for option in options]
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def create_elicitation(self, message: str, mode: Any, **_more: Any) -> Any:
        """Fill in a form."""
        assert self.fill is not None
        return self.fill(mode)

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        """Keep the news."""
        self.news.append(update)
        self.has_news.set()

    def words(self) -> str:
        """What the agent has said."""
        return "".join(one.content.text for one in self.news if one.session_update == "agent_message_chunk")

    def titles(self) -> list[str]:
        """Titles of calls, as they have changed."""
        return [one.title for one in self.news if one.session_update.startswith("tool_call") and one.title]

    def calls(self) -> dict[str, list[str]]:
        """States of each call, in their order."""
        found: dict[str, list[str]] = {}
        for one in self.news:
            if one.session_update in ("tool_call", "tool_call_update"):
                found.setdefault(one.tool_call_id, []).append(one.status)
        return found

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the news say so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not is_so():
                self.has_news.clear()
                await self.has_news.wait()

    async def new(self) -> str:
        """Open a session."""
        return (await self.agent.new_session(cwd="/work", mcp_servers=[])).session_id

    async def prompt(self, session: str, text: str = "go") -> str:
        """Send a prompt, and wait for the end of the turn."""
        return (await self.agent.prompt(session_id=session, prompt=[text_block(text)])).stop_reason


@asynccontextmanager
async def editor(
    place: Place, choose: Choose | None, *, fill: Callable[[Any], Any] | None = None
) -> AsyncGenerator[Editor]:
    """An editor that is connected to an agent as long as the block runs."""
    ours, theirs = socket.socketpair()
    reading, writing = await asyncio.open_connection(sock=ours)
    far_reading, far_writing = await asyncio.open_connection(sock=theirs)
    agent = WorkerAgent(DoorService(place.client, place.folder), ADA, "writer", version="1")
    serving = asyncio.create_task(run_agent(agent, writing, reading, use_unstable_protocol=True))  # pyright: ignore[reportArgumentType]
    person = Editor(choose, fill)
    connection = connect_to_agent(person, far_writing, far_reading, use_unstable_protocol=True)  # pyright: ignore[reportArgumentType]
    person.agent = connection
    try:
        forms = None if fill is None else ElicitationCapabilities(form=ElicitationFormCapabilities())
        can = ClientCapabilities(elicitation=forms)
        await connection.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=can)
        yield person
    finally:
        await connection.close()
        far_writing.close()
        serving.cancel()
        await agent.close()
        await asyncio.gather(serving, return_exceptions=True)
        writing.close()
