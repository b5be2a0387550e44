"""Session of an editor while it is followed: news of its run as they come, and each open question once.

Words of a turn are said once while a model writes them, whatever becomes of the turn.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from acp.exceptions import RequestError
from acp.helpers import update_agent_message_text, update_agent_thought_text
from acp.interfaces import Client as Editor
from acp.schema import AcceptElicitationResponse, AllowedOutcome, StopReason

from llm_do_temporal.cli.terminal.prompts import stop
from llm_do_temporal.client.question_document import QuestionDocument
from llm_do_temporal.client.views.run_view import event_time
from llm_do_temporal.doors.forms import answer_of
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import Answer, AskedQuestion
from llm_do_temporal.errors import DecisionRefused, LlmDoError, UsageError
from llm_do_temporal.extensions.acp import updates
from llm_do_temporal.extensions.acp.calls import SessionCalls
from llm_do_temporal.messages.approvals import DecisionKind, Remember
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.messages.conversation import LiveText

ANEW = "\n\n(The model was asked again; its answer begins anew.)\n\n"
_WHOLE_WORDS = re.compile(r".*[^\x21-\x7e]", re.DOTALL)
"""Text up to the end of its last whole word. A key has no such end within itself, and is not said in pieces."""


class LiveWords:
    """Words of the turn under way of one invocation. It knows a turn by the time of its event, in milliseconds."""

    def __init__(self) -> None:
        self._turn = ""
        self._attempt = 0
        self._said = ""

    @property
    def is_open(self) -> bool:
        """Whether a turn is under way."""
        return bool(self._turn)

    def begin(self, turn: str) -> str:
        """Begin a turn, and return what is to be said about the one before, where it came to nothing."""
        broken, self._turn, self._attempt, self._said = bool(self._said), turn, 0, ""
        return ANEW if broken else ""

    def take(self, tail: LiveText | None) -> str:
        """Return the words of the turn that were not said yet, as far as the tail has them whole."""
        if tail is None or tail.asked_at is None or event_time(tail.asked_at) != self._turn:
            return ""
        before = ""
        if tail.attempt != self._attempt:
            before, self._attempt, self._said = ANEW if self._said else "", tail.attempt, ""
        unsaid = tail.said - len(self._said)
        if tail.part != "text" or not 0 < unsaid <= tail.part_chars:
            return before
        found = _WHOLE_WORDS.match(tail.text[-unsaid:])
        words = "" if found is None else found.group()
        self._said += words
        return before + words

    def end(self, text: str) -> str:
        """End the turn with its text, and return what of it was not said; all of it where something else was said."""
        said, self._turn, self._said = self._said, "", ""
        return text.removeprefix(said) if text.startswith(said) else f"{ANEW}{text}"


_POLL_SECONDS = 0.3
_NO_ANSWER = (RequestError, ConnectionError, ValueError)
"""Errors of an editor that cannot ask, has gone, or answers with something that is no answer."""
_ANSWERS = {
    updates.APPROVE: Answer(decision=DecisionKind.APPROVE),
    updates.REMEMBER: Answer(decision=DecisionKind.APPROVE, remember=Remember.SESSION),
    updates.REJECT: Answer(decision=DecisionKind.REJECT, note="Rejected in the editor, without a reason."),
}


class FollowedSession:
    """Session whose run's news an editor is shown."""

    def __init__(
        self, service: DoorService, who: Principal, editor: Editor, session_id: str, *, has_forms: bool
    ) -> None:
        self._service = service
        self._who = who
        self._editor = editor
        self._id = session_id
        self._has_forms = has_forms
        self._plan, self._calls, self._words = updates.SessionPlan(), SessionCalls(), LiveWords()
        self._said = False
        self.has_caught_up = asyncio.Event()
        """Set once all is shown that there was when the session began to be followed."""
        self._telling = asyncio.Lock()
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def show(self, shown_events: int | None) -> StopReason:
        """Show the news of the run until it ends, after the events that the editor has; None: all there are now."""
        count = await self._service.count_events(self._who, self._id)
        known, number = count if shown_events is None else shown_events, 0
        listening = asyncio.create_task(self._listen())
        try:
            async for event in self._service.events(self._who, self._id):
                number += 1
                await self._take(event, is_news=number > known)
                if number == count:
                    self.has_caught_up.set()
                if number == count or (number > count and event["type"] in ("desk.changed", "approval.decided")):
                    await self._ask_open()
            ended = await self._service.run(self._who, self._id)
            last = updates.end_of(ended, said=self._said)
            await self._say(*([] if last is None else [last]))
            return "cancelled" if ended.state == "cancelled" else "end_turn"
        finally:
            self.has_caught_up.set()
            await stop(listening, *self._asking.values())

    async def _listen(self) -> None:
        """Say words while they are written."""
        while True:
            tail = await self._service.live_text(self._who, self._id) if self._words.is_open else None
            async with self._telling:
                if words := self._words.take(tail):
                    await self._say(update_agent_message_text(words))
            await asyncio.sleep(_POLL_SECONDS)

    async def _take(self, event: Mapping[str, Any], *, is_news: bool) -> None:
        async with self._telling:
            news = [self._plan.take(event), self._spoken(event), *self._calls.take(event)]
            await self._say(*(one for one in news if one is not None and is_news))

    def _spoken(self, event: Mapping[str, Any]) -> Any:
        """Return what models said: the entry's as the agent's words, that of others as thoughts."""
        kind, path, text = event["type"], event["path"], str(event.get("text") or "")
        if path != ENTRY_PATH:
            return update_agent_thought_text(f"{path}: {text}\n") if kind == "turn.completed" and text else None
        told = self._words.begin(str(event["ts"])) if kind == "turn.started" else ""
        if kind == "turn.completed":
            rest, self._said = self._words.end(text), self._said or bool(text)
            told = f"{rest}\n" if text or rest else ""
        return update_agent_message_text(told) if told else None

    async def _ask_open(self) -> None:
        """Ask about each open question once, and take back what needs no answer here any more."""
        opened = {one.question.id: one for one in await self._service.documents(self._who, self._id)}
        await stop(*(task for question, task in self._asking.items() if question not in opened))
        for name, document in opened.items():
            if name not in self._asking and document.question.request.digest in self._calls.heard:
                self._asking[name] = asyncio.create_task(self._ask(document))

    async def _ask(self, document: QuestionDocument) -> None:
        """Ask the person at the editor; what is put aside there stays open for others."""
        question = document.question
        try:
            answer = await self._answer(document, self._calls.name(document))
            if answer is not None:
                digest = question.request.digest
                await self._service.decide(self._who, self._id, question.id, answer, digest=digest)
        except DecisionRefused as refused:
            await self._say(update_agent_message_text(f"{refused.message}\n"))
        except LlmDoError as error:
            await self._say(update_agent_message_text(f"Not decided: {error.message}\n"))
        except _NO_ANSWER:
            return

    async def _answer(self, document: QuestionDocument, call: str) -> Answer | None:
        """Return the person's answer; None where they put the question aside. Raises UsageError."""
        options = [*updates.OPTIONS, updates.FORM_OPTION] if self._has_forms else list(updates.OPTIONS)
        given = await self._editor.request_permission(
            session_id=self._id, tool_call=updates.call_of(document, call), options=options
        )
        if not isinstance(given.outcome, AllowedOutcome):
            return None
        if given.outcome.option_id == updates.FORM and self._has_forms:
            question = AskedQuestion.of(document.question)
            form = updates.form_of(question, call)
            filled = await self._editor.create_elicitation(message=question.summary, mode=form)
            return answer_of(question, filled.content or {}) if isinstance(filled, AcceptElicitationResponse) else None
        if given.outcome.option_id not in _ANSWERS:
            raise UsageError("the editor chose an option that it was not given")
        return _ANSWERS[given.outcome.option_id]

    async def _say(self, *news: Any) -> None:
        for update in news:
            await self._editor.session_update(session_id=self._id, update=update)
