"""The ACP door in a process of its own, at an editor that is played by the official client."""

from __future__ import annotations

import asyncio
import base64
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.exceptions import RequestError
from acp.helpers import embedded_blob_resource, resource_block
from acp.schema import DeniedOutcome, RequestPermissionResponse

from tests.support.doors.scenario import DECK, PROMPT, Door, Ended
from tests.support.patience import PATIENCE_SECONDS

T = TypeVar("T")


class AcpDoor(Door):
    """An editor that starts the agent for each of its visits, and kills it in between."""

    session = ""
    """The session, which is the run."""
    _begun = ""
    """The key that it was begun with."""
    _question = ""

    def open(self) -> None:
        """Nothing runs before the editor starts it."""

    def close(self) -> None:
        """Nothing is open between visits."""

    def die(self) -> None:
        """The agent was killed while it asked."""

    def start(self) -> str:
        """Open a session, send the prompt, and kill the agent once it asks."""
        asyncio.run(self._begin())
        return self.session

    def asked(self, run: str) -> str:
        """Return the question that the agent was killed over."""
        return self._question

    def result(self, run: str) -> Ended:
        """Come back to the session, and stay to the end."""
        return asyncio.run(self._come_back(run))

    def _agent(self, editor: _Editor) -> Any:
        """Return the block in which the agent's process runs, connected to the editor."""
        command, *arguments = self.desk.command("acp", "deck_keeper")
        return spawn_agent_process(cast("Any", editor), command, *arguments, env=self.desk.environment)

    async def _begin(self) -> None:
        """Begin the session of this key, or go on with it where a visit before has got so far."""
        editor = _Editor()

        async def prompt(agent: Any, process: Process) -> None:
            if self._begun != self.key or not await self._is_there(agent):
                # A session is begun by the process that has named it, or never.
                self.session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
                self._begun = self.key
                deck = embedded_blob_resource("file:///deck.txt", base64.b64encode(DECK).decode())
                blocks = [text_block(PROMPT), resource_block(deck)]
                prompting = asyncio.create_task(agent.prompt(session_id=self.session, prompt=blocks))
                prompting.add_done_callback(lambda task: task.cancelled() or task.exception())
            await editor.was_asked.wait()
            process.kill()

        await self._visit(editor, prompt)
        self._question = editor.asked[0]

    async def _come_back(self, run: str) -> Ended:
        editor = _Editor()

        async def load(agent: Any, _process: Process) -> Any:
            await agent.load_session(cwd="/", session_id=run, mcp_servers=[])
            await asyncio.wait_for(editor.was_told.wait(), PATIENCE_SECONDS)
            # The last words may be heard before the run has ended, and it is listed a moment later still.
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    listed = (await agent.list_sessions(cwd="/")).sessions
                    found = [one for one in listed if one.session_id == run]
                    if found and not str(found[0].title).endswith(("(running)", "(waiting)")):
                        return found
                    await asyncio.sleep(0.1)

        (session,) = await self._visit(editor, load)
        # The service may not have taken the answer yet: then the question is still open, and asked once more.
        assert editor.asked in ([], [self._question])
        return Ended(str(session.title).rpartition("(")[2].rstrip(")"), editor.words)

    async def _is_there(self, agent: Any) -> bool:
        try:
            await agent.load_session(cwd="/", session_id=self.session, mcp_servers=[])
        except RequestError:
            return False
        return True

    async def _visit(self, editor: _Editor, work: Callable[[Any, Process], Awaitable[T]]) -> T:
        """Start the agent, and work with it. Raises ConnectionError where it dies before that is done."""
        async with self._agent(editor) as (agent, process):

            async def working() -> T:
                await agent.initialize(protocol_version=PROTOCOL_VERSION)
                return await work(agent, process)

            done, dead = asyncio.create_task(working()), asyncio.create_task(process.wait())
            await asyncio.wait((done, dead), return_when=asyncio.FIRST_COMPLETED)
            dead.cancel()
            if not done.done():
                done.cancel()
                await asyncio.gather(done, return_exceptions=True)
                raise ConnectionError("the agent has died")
            return done.result()


class _Editor:
    """Person at the editor who never answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.words = ""
        self.was_asked = asyncio.Event()
        self.was_told = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        """Take the connection."""

    async def request_permission(self, session_id: str, tool_call: Any, **_more: Any) -> RequestPermissionResponse:
        """Never answer."""
        self.asked.append(tool_call.field_meta["question"])
        self.was_asked.set()
        await asyncio.Event().wait()
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        """Keep what the agent says."""
        if update.session_update == "agent_message_chunk":
            self.words += update.content.text
            if "Wrote" in self.words:
                self.was_told.set()


DOORS = (AcpDoor,)
