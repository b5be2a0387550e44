"""The agent that an editor talks to: each session is a run of one worker, and goes on whatever becomes of the editor.

A thin translation. Who reconnects gets the list of sessions, the words so far, and each open question once. A question
that is decided elsewhere, or put aside here, is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from contextlib import suppress
from importlib.metadata import version
from typing import Any, cast
from urllib.parse import unquote

from acp import PROTOCOL_VERSION, run_agent, stdio_streams
from acp.exceptions import RequestError
from acp.helpers import update_agent_message_text, update_user_message_text
from acp.interfaces import Client as Editor
from acp.schema import (
    AgentCapabilities,
    ClientCapabilities,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    StopReason,
)

from llm_do_temporal.cli.terminal.prompts import stop
from llm_do_temporal.doors.files import name_of_part, sent_files
from llm_do_temporal.doors.message_lines import MessageLines
from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import Run, SentFile, Start
from llm_do_temporal.errors import LlmDoError, UnknownHere, UsageError
from llm_do_temporal.extensions.acp.session import FollowedSession
from llm_do_temporal.login import login_name
from llm_do_temporal.policy.run_filter import RunFilter

VIA = "acp"
_ENDED = "The run of this session has ended. Open a new session.\n"
_GOES_ON = "The run of this session goes on with its first prompt; what you have just written was not given to it.\n"


class WorkerAgent:
    """Agent of one worker, for one connection."""

    def __init__(self, service: DoorService, who: Principal, worker: str, *, version: str) -> None:
        self._service = service
        self._who = who
        self._worker = worker
        self._mine = RunFilter(worker=worker, who=who.name)
        self._version = version
        self._editor: Editor
        self._followed: dict[str, tuple[asyncio.Task[StopReason], FollowedSession]] = {}
        self._named: set[str] = set()
        """Sessions that this agent has named; it begins no others."""
        self._prompted: set[str] = set()
        self._cancelled: set[str] = set()
        self._has_forms = False

    def on_connect(self, conn: Editor) -> None:
        """Take the connection."""
        self._editor = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: ClientCapabilities | None = None, **_more: Any
    ) -> InitializeResponse:
        """Say what this agent can do, and learn whether the editor can show forms."""
        can = None if client_capabilities is None else client_capabilities.elicitation
        self._has_forms = can is not None and can.form is not None
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(embedded_context=True, image=True, audio=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(), resume=SessionResumeCapabilities()
                ),
            ),
            agent_info=Implementation(name="llm-do-temporal", title=self._worker, version=self._version),
        )

    async def new_session(self, cwd: str, **_more: Any) -> NewSessionResponse:
        """Name a session; its run begins with the first prompt. Servers and folders of the editor are not used."""
        self._named.add(session_id := f"{self._worker}-{secrets.token_hex(4)}")
        return NewSessionResponse(session_id=session_id)

    async def load_session(self, session_id: str, cwd: str, **_more: Any) -> LoadSessionResponse:
        """Show a session from its beginning, and go on with it."""
        await self._go_on(session_id, shown_events=0)
        return LoadSessionResponse()

    async def resume_session(self, session_id: str, cwd: str, **_more: Any) -> ResumeSessionResponse:
        """Go on with a session whose words the editor has kept."""
        await self._go_on(session_id, shown_events=None)
        return ResumeSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_more: Any
    ) -> ListSessionsResponse:
        """List the runs of the worker that this person has started, the open ones first."""
        try:
            page = await self._service.runs(self._who, self._mine, page=cursor or "")
        except UsageError as wrong:
            raise RequestError.invalid_params({"cursor": wrong.message}) from wrong
        return ListSessionsResponse(sessions=[_info(one, cwd) for one in page.runs], next_cursor=page.following)

    async def prompt(self, session_id: str, prompt: list[Any], **_more: Any) -> PromptResponse:
        """Begin the run of a session, or go on with it; the answer comes when it has ended."""
        self._prompted.add(session_id)
        try:
            return PromptResponse(stop_reason=await self._run(session_id, prompt))
        except LlmDoError as error:
            await self._tell(session_id, f"{error.message}\n{error.next_step or ''}\n")
            return PromptResponse(stop_reason="refusal")
        finally:
            self._prompted.discard(session_id)
            self._cancelled.discard(session_id)

    async def cancel(self, session_id: str, **_more: Any) -> None:
        """Stop the run of a session, and everything below it; one that is being started, once it is there."""
        if session_id in self._prompted:
            self._cancelled.add(session_id)
        with suppress(LlmDoError):  # it has ended
            if await self._known(session_id) is not None:
                await self._service.cancel(self._who, session_id)

    async def close(self) -> None:
        """Leave all sessions; their runs go on."""
        await stop(*(task for task, _ in self._followed.values()))

    async def _run(self, session_id: str, prompt: list[Any]) -> StopReason:
        run = await self._known(session_id)
        if run is not None and run.ended_at is not None:
            await self._tell(session_id, _ENDED)
            return "refusal"
        if run is None:
            if session_id not in self._named:
                raise UnknownHere(f"there is no session '{session_id[:80]}'")
            start = Start.of({"worker": self._worker, "prompt": _text(prompt), "attachments": _files(prompt)})
            await self._service.start(self._who, start, run=session_id)
        elif any(block.type != "text" or block.text for block in prompt):
            await self._tell(session_id, _GOES_ON)
        if session_id in self._cancelled:
            await self._service.cancel(self._who, session_id)
        task, _ = self._follow(session_id, shown_events=0 if run is None else None)
        reason = await asyncio.shield(task)
        return "cancelled" if session_id in self._cancelled else reason

    async def _known(self, session_id: str) -> Run | None:
        """Return the run of a session; None where there is none, or it is no session of this worker and person."""
        try:
            run = await self._service.run(self._who, session_id)
        except UnknownHere:
            return None
        return run if (run.worker, run.started_by) == (self._worker, self._who.name) else None

    async def _go_on(self, session_id: str, *, shown_events: int | None) -> None:
        run = await self._known(session_id)
        if run is None:
            raise RequestError.resource_not_found(session_id)
        if shown_events == 0:
            await self._editor.session_update(session_id=session_id, update=update_user_message_text(run.task))
        if run.ended_at is None or shown_events == 0:
            task, session = self._follow(session_id, shown_events=shown_events)
            await (session.has_caught_up.wait() if run.ended_at is None else asyncio.shield(task))

    def _follow(self, session_id: str, *, shown_events: int | None) -> tuple[asyncio.Task[StopReason], FollowedSession]:
        """Return the task that shows the news of a session, and what it shows; there is one for each session."""
        found = self._followed.get(session_id)
        if found is None or found[0].done():
            session = FollowedSession(self._service, self._who, self._editor, session_id, has_forms=self._has_forms)
            found = self._followed[session_id] = asyncio.create_task(session.show(shown_events)), session
        return found

    async def _tell(self, session_id: str, words: str) -> None:
        await self._editor.session_update(session_id=session_id, update=update_agent_message_text(words))


def _info(run: Run, cwd: str | None) -> SessionInfo:
    at, title = run.ended_at or run.started_at, f"{run.task or run.run} ({run.state})"
    return SessionInfo(session_id=run.run, cwd=cwd or "/", title=title, updated_at=at.isoformat())


def _text(prompt: list[Any]) -> str:
    """Return the words of a prompt; what is linked is named, and what is embedded is attached."""
    parts = [block.uri if block.type == "resource_link" else getattr(block, "text", "") for block in prompt]
    return "\n".join(str(part) for part in parts if part)


def _files(prompt: list[Any]) -> tuple[SentFile, ...]:
    """Return what is embedded in a prompt as files, each called by the last part of its address; an image or a sound by
    its kind and its place among the parts of the prompt. Raises UsageError."""
    found: list[tuple[str, str]] = []
    for place, block in enumerate(prompt, 1):
        if block.type in ("image", "audio"):
            found.append((name_of_part(block.type, place, block.mime_type), block.data))
        elif block.type == "resource":
            name = unquote(str(block.resource.uri)).rstrip("/").rpartition("/")[2] or "file"
            text, blob = getattr(block.resource, "text", None), getattr(block.resource, "blob", None)
            content = blob if blob is not None else b64encode(str(text or "").encode(errors="replace")).decode()
            found.append((name, content))
    return sent_files(found)


async def serve(service: DoorService, worker: str) -> None:
    """Serve one editor until it closes its end. Its person is the account that the editor runs as."""
    who = Principal(login_name() or "somebody", frozenset(TokenScope), is_person=True, via=VIA)
    agent = WorkerAgent(service, who, worker, version=version("llm-do-temporal"))
    try:
        reader, writer = await stdio_streams()
        await run_agent(cast("Any", agent), MessageLines(reader, writer), use_unstable_protocol=True)
    finally:
        await agent.close()
