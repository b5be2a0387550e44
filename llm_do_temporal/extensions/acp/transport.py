"""The agent at the pipes of the editor that started it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, cast

from acp import run_agent, stdio_streams

from llm_do_temporal.doors.message_lines import MessageLines
from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.extensions.acp.agent import VIA, WorkerAgent
from llm_do_temporal.login import login_name


async def serve(service: DoorService, worker: str) -> None:
    """Serve one editor until it closes its end. Its person is the account that the editor runs as."""
    who = Principal(login_name() or "somebody", frozenset(TokenScope), is_person=True, via=VIA)
    agent = WorkerAgent(service, who, worker, version=version("llm-do-temporal"))
    try:
        reader, writer = await stdio_streams()
        await run_agent(cast("Any", agent), MessageLines(reader, writer), use_unstable_protocol=True)
    finally:
        await agent.close()
