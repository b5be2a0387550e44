"""The MCP door in a process of its own, over pipes and over HTTP, asked by the official client."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from abc import abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, cast

import httpx2
import psutil
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support.doors.scenario import DECK, PROMPT, Door, Ended, token
from tests.support.people.desk import Desk
from tests.support.ports import unused_port


class McpDoor(Door):
    """What both ways have in common: each call is a connection of its own."""

    run = ""
    """The run that was started."""

    @abstractmethod
    def client(self) -> AbstractAsyncContextManager[Client]:
        """Return a client that is connected as long as the block runs."""

    def start(self) -> str:
        """Start the run twice with one key, as an agent does that has lost the first answer."""
        file = {"name": "deck.txt", "content": base64.b64encode(DECK).decode()}
        given = {"worker": "deck_keeper", "prompt": PROMPT, "attachments": [file], "key": self.key}
        (self.run,) = {str(self.call("start", given)["run"]) for _ in range(2)}
        return self.run

    def asked(self, run: str) -> str:
        """Wait for the question."""
        while not (asked := (got := self.call("wait", {"run": run}))["asked"]):
            assert "ended_at" not in got
        (question,) = asked
        return question["id"]

    def result(self, run: str) -> Ended:
        while True:
            got = self.call("wait", {"run": run, "seen": ["a1"]})
            if "ended_at" in got:
                files = [one["name"] for one in self.call("result", {"run": run})["files"]]
                return Ended(got["state"], got["output"], files, got["usage"]["requests"])

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return asyncio.run(self._call(tool, arguments))

    async def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        async with self.client() as client:
            done = await client.call_tool(tool, arguments)
            assert not done.is_error, done
            return cast("dict[str, Any]", done.structured_content)


class McpOverHttp(McpDoor):
    """`mcp --http`, with a token."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.port = unused_port()
        self.headers = {"Authorization": f"Bearer {token(desk, 'agent')}"}

    def open(self) -> None:
        """Begin the server."""
        self.process = self.desk.begin("mcp", "--http", "--port", str(self.port))
        assert self.process.stderr is not None
        assert any(re.match(r"MCP +http", line) for line in self.process.stderr)

    def close(self) -> None:
        """Nothing is open between requests."""

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        """Connect with the token."""
        async with httpx2.AsyncClient(headers=self.headers, timeout=120) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{self.port}/mcp", http_client=http)
            async with Client(transport) as client:
                yield client


class McpOverPipes(McpDoor):
    """`mcp`, started by the agent for each connection; the one that asked about the question is killed."""

    def open(self) -> None:
        """Nothing runs before the agent starts it."""

    def die(self) -> None:
        """Kill the server in the middle of a call."""
        asyncio.run(self._die())

    def close(self) -> None:
        """Nothing is open between connections."""

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        """Start the server, and connect to its pipes."""
        command, *arguments = self.desk.command("mcp")
        async with Client(StdioServerParameters(command=command, args=arguments, env=self.desk.environment)) as client:
            yield client

    async def _die(self) -> None:
        killed = False
        try:
            async with self.client() as client:
                await client.list_tools()
                waiting = asyncio.ensure_future(client.call_tool("wait", {"run": self.run, "seen": ["a1"]}))
                for process in psutil.Process().children(recursive=True):
                    with suppress(psutil.NoSuchProcess):  # another child that has just ended
                        if "mcp" in process.cmdline() and str(self.desk.workshop) in process.cmdline():
                            process.kill()
                            killed = True
                await asyncio.gather(waiting, return_exceptions=True)
        except Exception:
            pass
        assert killed, json.dumps([one.cmdline() for one in psutil.Process().children(recursive=True)])


DOORS = (McpOverHttp, McpOverPipes)
