"""People with browsers: a Temporal server, a worker service, the page, a scripted provider, and headless Chromium."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, async_playwright

from llm_do_temporal.client import Connection, LlmDoClient, connect
from llm_do_temporal.environment import UNDO_VARIABLE
from llm_do_temporal.messages.runs import StartRunInput
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.chromium import launch
from tests.support.people.desk import Desk, desk_in, use_provider
from tests.support.providers.answers import Answer, Call, Gate, Text, ToolCalls
from tests.support.providers.provider import FakeProvider, by_function
from tests.support.servers.temporal import temporal_server

TOKENS = {"ada": "ada-has-this-token", "bob": "bob-has-this-token"}
MODEL = "openai-chat:scripted"
CLERK = f"model: {MODEL}\ntoolsets: {{filesystem: {{}}, delegation: {{greeter: {{}}}}}}\n---\nDo as you are told.\n"
Turn = list[dict[str, Any]] | str
_VIEWER = ("chrome:", "chrome-extension:")
"""Chromium's own PDF viewer."""


def write(path: str, content: str) -> dict[str, Any]:
    """A call of `write_file`, for the prompt of a clerk."""
    return {"name": "write_file", "args": {"path": path, "content": content}}


def as_told(request: dict[str, Any], gate: Gate) -> Answer:
    """The clerk's model: the prompt is a JSON list of turns, each a list of tool calls, or a text."""
    messages: list[dict[str, Any]] = request["messages"]
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    if not isinstance(prompt, str):
        # With a file, the prompt is one part of what is said.
        prompt = next(part["text"] for part in prompt if part["type"] == "text")
    turns: list[Turn] = json.loads(prompt)
    turn = sum(message["role"] == "assistant" for message in messages)
    said = turns[turn] if turn < len(turns) else "Done."
    if isinstance(said, str):
        return Text(said, pause=gate if turn < len(turns) else None)
    return ToolCalls(tuple(Call(**call) for call in said))


@dataclass
class Office:
    """One of each, and as many people as are asked for."""

    desk: Desk
    provider: FakeProvider
    client: LlmDoClient
    browser: Browser
    link: str
    """Address of the page, without a slash at its end."""
    gate: Gate
    """Where a text that a clerk's model says stops half way."""
    visits: list[BrowserContext] = field(default_factory=list[BrowserContext])
    complaints: list[str] = field(default_factory=list[str])
    """What browsers complained about, and requests to anybody but the page."""

    async def person(self, name: str = "ada", **options: Any) -> Page:
        """A browser of one's own, signed in. Options are Playwright's, like `java_script_enabled`."""
        context = await self.browser.new_context(**options)
        self.visits.append(context)
        context.set_default_timeout(PATIENCE_SECONDS * 1000)
        page = await context.new_page()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._request)
        page.on("dialog", self._dialog)
        await page.goto(f"{self.link}/?token={TOKENS[name]}")
        return page

    async def leave(self) -> None:
        """Close all browsers of people: an open page asks for news again and again."""
        while self.visits:
            await self.visits.pop().close()

    async def start(self, run: str, *turns: Turn) -> None:
        """Start a clerk that makes these calls, turn by turn."""
        await self.client.start(StartRunInput(worker="clerk", prompt=json.dumps(turns)), run=run)

    async def asking(self, run: str, *turns: Turn) -> str:
        """Start a clerk and wait until it asks; the address of its first approval."""
        await self.start(run, *turns)
        await self.asks(run, "a1")
        return self.approval(run)

    async def asks(self, run: str, approval: str) -> None:
        """Wait until a run asks this."""
        async for event in self.client.follow(run).events():
            if event.type == "desk.changed" and approval in [one.id for one in await self.client.approvals(run)]:
                return

    async def listed(self, run: str, count: int) -> None:
        """Wait until the server lists so many questions of a run: it does so a moment after they are asked."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if len((await self.client.inbox(run)).entries) == count:
                    return
                await asyncio.sleep(0.05)

    def approval(self, run: str, approval: str = "a1") -> str:
        return f"{self.link}/runs/{run}/approvals/{approval}"

    def read(self, name: str) -> str | None:
        """A file of the workshop, if it is there."""
        path = self.desk.workshop / "files" / name
        return path.read_text() if path.exists() else None

    def _console(self, message: ConsoleMessage) -> None:
        # Chromium says of every page with an error status that it has one.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.link}/", "data:", *_VIEWER)):
            self.complaints.append(request.url)

    async def _dialog(self, dialog: Dialog) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        await dialog.dismiss()


@asynccontextmanager
async def office_in(folder: Path, *, undo_seconds: int = 0) -> AsyncGenerator[Office]:
    """An office in `folder` that holds decisions for so long; nothing that its browsers complained about is let
    pass."""
    gate = Gate()
    with temporal_server() as address, desk_in(folder) as desk, _clerks(gate) as provider:
        use_provider(desk, provider)
        desk.environment |= {"TEMPORAL_ADDRESS": address, UNDO_VARIABLE: str(undo_seconds)}
        (desk.workshop / "clerk.worker").write_text(CLERK)
        workshop = desk.workshop / "workshop.yaml"
        workshop.write_text(workshop.read_text().replace("worker.call: pre_approved", "worker.call: needs_approval"))
        tokens = folder / "tokens"
        tokens.write_text("".join(f"{name}: {token}\n" for name, token in TOKENS.items()))
        desk.begin("worker")
        link = link_of(desk.begin("ui", "--port", "0", "--token-file", str(tokens)))
        client = LlmDoClient(await connect(Connection(address=address)))
        async with async_playwright() as playwright:
            browser = await launch(playwright)
            office = Office(desk, provider, client, browser, link.rstrip("/"), gate)
            yield office
            await browser.close()
        assert not office.complaints


def _clerks(gate: Gate) -> FakeProvider:
    return FakeProvider(by_function(lambda request: as_told(request, gate)))


def link_of(command: subprocess.Popen[str]) -> str:
    """The link to the page that a command prints, as soon as it does."""
    assert command.stderr is not None
    said = ""
    for line in command.stderr:
        said += line
        if (found := re.match(r"page +(http://\S+)", line)) is not None:
            return found[1]
    raise AssertionError(f"the command ended without a page: {said}")
