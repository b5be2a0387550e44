"""The agent that an editor talks to: each session is a run of one worker, and goes on whatever becomes of the editor.

A thin translation. Who reconnects gets the list of sessions, the words so far, and each open question once. A question
that is decided elsewhere, or put aside here, is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Protocol

from acp import PROTOCOL_VERSION
from acp.exceptions import RequestError
from acp.helpers import update_agent_message_text, update_user_message_text
from acp.schema import (
    AgentCapabilities,
    AllowedOutcome,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    RequestPermissionResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    StopReason,
)

from llm_do_temporal.doors.acp.pictures import (
    APPROVE,
    OPTIONS,
    REJECT,
    REMEMBER,
    SessionPlan,
    call_of,
    decided,
    end_of,
    words_of,
)
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import Answer, Run, SentFile, Start
from llm_do_temporal.errors import DecisionRefused, LlmDoError, UnknownHere
from llm_do_temporal.messages.approvals import DecisionKind, Remember
from llm_do_temporal.policy.run_filter import RunFilter

VIA = "acp"
_ENDED = "The run of this session has ended. Open a new session.\n"
_ANSWERS = {
    APPROVE: Answer(decision=DecisionKind.APPROVE),
    REMEMBER: Answer(decision=DecisionKind.APPROVE, remember=Remember.SESSION),
    REJECT: Answer(decision=DecisionKind.REJECT, note="Rejected in the editor, without a reason."),
}


class Editor(Protocol):
    """The other end of the connection, as far as it is used here."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Show news of a session."""
        ...

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **kwargs: Any
    ) -> RequestPermissionResponse:
        """Ask the person at the editor."""
        ...


class WorkerAgent:
    """Agent of one worker, for one connection."""

    def __init__(self, service: DoorService, who: Principal, worker: str, *, version: str) -> None:
        self._service = service
        self._who = who
        self._worker = worker
        self._version = version
        self._editor: Editor | None = None
        self._following: dict[str, asyncio.Task[StopReason]] = {}
        self._asking: dict[tuple[str, str], asyncio.Task[None]] = {}

    def on_connect(self, conn: Editor) -> None:
        """Take the connection."""
        self._editor = conn

    async def initialize(self, protocol_version: int, **_more: Any) -> InitializeResponse:
        """Say what this agent can do."""
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(embedded_context=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(), resume=SessionResumeCapabilities()
                ),
            ),
            agent_info=Implementation(name="llm-do-temporal", title=self._worker, version=self._version),
        )

    async def new_session(self, cwd: str, **_more: Any) -> NewSessionResponse:
        """Name a session; its run begins with the first prompt. Servers and folders of the editor are not used."""
        return NewSessionResponse(session_id=f"{self._worker}-{secrets.token_hex(4)}")

    async def load_session(self, session_id: str, cwd: str, **_more: Any) -> LoadSessionResponse:
        """Show a session from its beginning, and go on with it."""
        await self._go_on(session_id, told=0)
        return LoadSessionResponse()

    async def resume_session(self, session_id: str, cwd: str, **_more: Any) -> ResumeSessionResponse:
        """Go on with a session whose words the editor has kept."""
        await self._go_on(session_id, told=None)
        return ResumeSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_more: Any
    ) -> ListSessionsResponse:
        """List the runs of the worker that this person has started, the open ones first."""
        wanted = RunFilter(worker=self._worker, who=self._who.name)
        page = await self._service.runs(self._who, wanted, page=cursor or "")
        return ListSessionsResponse(sessions=[_info(one, cwd) for one in page.runs], next_cursor=page.following)

    async def prompt(self, session_id: str, prompt: list[Any], **_more: Any) -> PromptResponse:
        """Begin the run of a session, or go on with it; the answer comes when it has ended."""
        try:
            run = await self._known(session_id)
            if run is not None and run.ended_at is not None:
                await self._say(session_id, update_agent_message_text(_ENDED))
                return PromptResponse(stop_reason="refusal")
            if run is None:
                start = Start(worker=self._worker, prompt=_text(prompt), attachments=_files(prompt))
                await self._service.start(self._who, start, run=session_id)
            return PromptResponse(stop_reason=await asyncio.shield(self._follow(session_id, told=0)))
        except LlmDoError as error:
            await self._say(session_id, update_agent_message_text(f"{error.message}\n{error.next_step or ''}\n"))
            return PromptResponse(stop_reason="refusal")

    async def cancel(self, session_id: str, **_more: Any) -> None:
        """Stop the run of a session, and everything below it."""
        try:
            await self._service.cancel(self._who, session_id)
        except LlmDoError:
            return  # it has not begun, or has ended

    async def close(self) -> None:
        """Leave all sessions; their runs go on."""
        tasks: list[asyncio.Task[Any]] = [*self._following.values(), *self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _known(self, session_id: str) -> Run | None:
        try:
            return await self._service.run(self._who, session_id)
        except UnknownHere:
            return None

    async def _go_on(self, session_id: str, *, told: int | None) -> None:
        run = await self._known(session_id)
        if run is None:
            raise RequestError.resource_not_found(session_id)
        if told == 0:
            await self._say(session_id, update_user_message_text(run.task))
        if run.ended_at is None or told == 0:
            self._follow(session_id, told=told)

    def _follow(self, session_id: str, *, told: int | None) -> asyncio.Task[StopReason]:
        """Return the task that shows the news of a session; there is one for each."""
        task = self._following.get(session_id)
        if task is None or task.done():
            task = asyncio.create_task(self._show(session_id, told))
            self._following[session_id] = task
        return task

    async def _show(self, session_id: str, told: int | None) -> StopReason:
        """Show the news of a run until it ends; `told` None: all that there is now was shown before."""
        plan, said, number = SessionPlan(), False, 0
        known = await self._count(session_id) if told is None else told
        await self._ask_open(session_id)
        async for event in self._service.events(self._who, session_id):
            number += 1
            change, words = plan.take(event), words_of(event)
            if number > known:
                for update in (one for one in (change, words) if one is not None):
                    await self._say(session_id, update)
            if words is not None and event["path"] == "main":
                said = True
            if event["type"] in ("desk.changed", "approval.decided"):
                await self._ask_open(session_id)
        ended = await self._service.run(self._who, session_id)
        await self._ask_open(session_id)
        last = end_of(ended, said=said)
        if last is not None:
            await self._say(session_id, last)
        return "cancelled" if ended.state == "cancelled" else "end_turn"

    async def _count(self, session_id: str) -> int:
        """Return the number of events so far."""
        return await self._service.count_events(self._who, session_id)

    async def _ask_open(self, session_id: str) -> None:
        """Ask about each open question once, and take back what needs no answer here any more."""
        opened = {one.id: one for one in await self._service.questions(self._who, session_id)}
        for (session, question), task in list(self._asking.items()):
            if session == session_id and question not in opened and not task.done():
                task.cancel()
                about = await self._service.question(self._who, session_id, question)
                await self._say(session_id, decided(about))
        for name, question in opened.items():
            if (session_id, name) not in self._asking:
                self._asking[session_id, name] = asyncio.create_task(self._ask(session_id, question.id))

    async def _ask(self, session_id: str, name: str) -> None:
        """Ask the person at the editor; what is put aside there stays open for others."""
        question = await self._service.question(self._who, session_id, name)
        assert self._editor is not None
        given = await self._editor.request_permission(
            session_id=session_id, tool_call=call_of(question), options=list(OPTIONS)
        )
        if not isinstance(given.outcome, AllowedOutcome) or given.outcome.option_id not in _ANSWERS:
            return
        answer = _ANSWERS[given.outcome.option_id]
        try:
            about = await self._service.decide(self._who, session_id, name, answer, digest=question.digest)
            await self._say(session_id, decided(about))
        except DecisionRefused as refused:
            await self._say(session_id, update_agent_message_text(f"{refused.message}\n"))
        except LlmDoError as error:
            await self._say(session_id, update_agent_message_text(f"Not decided: {error.message}\n"))

    async def _say(self, session_id: str, update: Any) -> None:
        assert self._editor is not None
        await self._editor.session_update(session_id=session_id, update=update)


def _info(run: Run, cwd: str | None) -> SessionInfo:
    at = run.ended_at or run.started_at
    return SessionInfo(
        session_id=run.run, cwd=cwd or "/", title=f"{run.task or run.run} ({run.state})", updated_at=at.isoformat()
    )


def _text(prompt: list[Any]) -> str:
    """Return the words of a prompt; what is linked is named, and what is embedded is attached."""
    parts = [getattr(block, "text", None) or getattr(block, "uri", None) or "" for block in prompt]
    return "\n".join(str(part) for part in parts if part)


def _files(prompt: list[Any]) -> tuple[SentFile, ...]:
    """Return the texts and bytes that are embedded in a prompt as files, each with the last part of its address."""
    from base64 import b64encode

    found: dict[str, SentFile] = {}
    for block in prompt:
        resource = getattr(block, "resource", None)
        if resource is None:
            continue
        name = str(resource.uri).rstrip("/").rpartition("/")[2] or "file"
        text, blob = getattr(resource, "text", None), getattr(resource, "blob", None)
        content = blob if blob is not None else b64encode(str(text or "").encode()).decode()
        found[name] = SentFile.model_validate({"name": name, "content": content})
    return tuple(found.values())
