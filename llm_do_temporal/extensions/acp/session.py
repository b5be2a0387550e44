"""Session of an editor while it is followed: news of its run as they come, and each open question once.

Calls of the run are tool calls of the session: pending while people are asked, then under way, then ended. Words of a
turn are said once while a model writes them, whatever becomes of the turn.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from acp.exceptions import RequestError
from acp.helpers import (
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
)
from acp.interfaces import Client as Editor
from acp.schema import (
    AcceptElicitationResponse,
    AgentMessageChunk,
    AgentPlanUpdate,
    AllowedOutcome,
    ElicitationFormSessionMode,
    ElicitationSchema,
    PermissionOption,
    PlanEntry,
    StopReason,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    ToolKind,
)

from llm_do_temporal.cli.terminal.prompts import stop
from llm_do_temporal.client.question_document import QuestionDocument, by_words
from llm_do_temporal.client.views.run_view import event_time
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import Answer, AskedQuestion, Run, answer_of, form_schema
from llm_do_temporal.errors import DecisionRefused, LlmDoError, UsageError
from llm_do_temporal.messages.approvals import DecisionKind, Remember
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.messages.conversation import LiveText
from llm_do_temporal.policy.models import cut_words

KINDS: dict[str, ToolKind] = {"write_file": "edit", "edit_file": "edit", "read_file": "read", "shell": "execute"}
_OUTPUT = "final_result"
"""Beginning of the names of calls that carry a structured result, and do nothing."""
_TITLE_CHARS = 100
_DONE = {kind.value: kind.done for kind in DecisionKind}


@dataclass
class _Call:
    """Call that has not ended."""

    id: str
    path: str
    tool: str
    args: Any
    call: str
    """Id within its conversation."""
    digest: str = ""
    """Digest of the question about it; empty: there is none."""
    summary: str = ""
    question: str = ""
    """Id of that question, once somebody was asked."""


class SessionCalls:
    """Calls of a run that have not ended, each under an id of its own."""

    def __init__(self) -> None:
        self._open: list[_Call] = []
        self.heard = {""}
        """Digests of the questions of which an event has told."""

    def take(self, event: Mapping[str, Any]) -> list[ToolCallStart | ToolCallProgress]:
        """Return the news of calls that an event brings."""
        path, (what, _, state) = str(event["path"]), str(event["type"]).partition(".")
        if event["type"] == "turn.completed":
            return self._begin(path, event)
        if event["type"] == "call.failed":
            return self._fail(path, event)
        if event["type"] == "turn.started" or (what == "invocation" and state != "started"):
            # A model is asked again once it has the results of all its calls.
            return self._end(path, "completed" if state in ("started", "completed") else "failed")
        return self._question(path, event) if what == "approval" else []

    def name(self, document: QuestionDocument) -> str:
        """Return the id of the call that a question is about."""
        question, asked = document.question, document.question.request
        mine = [one for one in self._open if one.question == question.id]
        mine += [one for one in self._open if not one.question and one.digest == asked.digest]
        if not mine:
            mine = [_Call(f"question-{question.id}", asked.place, asked.tool, question.args, "")]
            mine[0].summary = asked.summary
            self._open += mine
        mine[0].question = question.id
        return mine[0].id

    def _begin(self, path: str, event: Mapping[str, Any]) -> list[ToolCallStart | ToolCallProgress]:
        told: list[ToolCallStart | ToolCallProgress] = []
        for number, asked in enumerate(cast("list[dict[str, Any]]", event.get("calls") or []), 1):
            tool, args = str(asked.get("tool")), asked.get("args")
            if tool.startswith(_OUTPUT):
                continue
            one = _Call(f"{path}@{event.get('turn')}#{number}", path, tool, args, str(asked.get("call") or ""))
            self._open.append(one)
            title, kind = _title(path, f"{tool} {json.dumps(args, ensure_ascii=False)}"), KINDS.get(tool, "other")
            told.append(start_tool_call(one.id, title, kind=kind, status="in_progress", raw_input=args))
        return told

    def _fail(self, path: str, event: Mapping[str, Any]) -> list[ToolCallStart | ToolCallProgress]:
        found = [one for one in self._open if one.path == path and one.call == event.get("call")]
        self._open = [one for one in self._open if one not in found]
        reason = tool_content(text_block(str(event.get("reason", ""))))
        return [update_tool_call(one.id, status="failed", content=[reason]) for one in found]

    def _end(self, path: str, status: Any) -> list[ToolCallStart | ToolCallProgress]:
        ended = [one for one in self._open if one.path == path]
        self._open = [one for one in self._open if one.path != path]
        return [update_tool_call(one.id, status=status) for one in ended]

    def _question(self, path: str, event: Mapping[str, Any]) -> list[ToolCallStart | ToolCallProgress]:
        mine = [one for one in self._open if one.path == path]
        if event["type"] == "approval.requested":
            self.heard.add(str(event.get("digest") or ""))
            same = [one for one in mine if not one.summary and (one.tool, one.args) == (event["tool"], event["args"])]
            for one in same[:1]:
                one.digest, one.summary = str(event.get("digest") or ""), str(event["summary"])
                return [update_tool_call(one.id, title=_title(path, one.summary), status="pending")]
        if event["type"] == "approval.decided":
            for one in mine:
                if one.summary == event["summary"] and one.question in ("", event["id"]):
                    one.question = str(event["id"])
                    verdict = (
                        f"{_DONE.get(str(event['decision']), 'decided')} by {by_words(event['by'], event.get('via'))}"
                    )
                    title = _title(path, f"{one.summary}: {verdict}")
                    is_rejected = event.get("decision") == DecisionKind.REJECT.value
                    return [update_tool_call(one.id, title=title, status="failed" if is_rejected else "in_progress")]
        return []


def _title(path: str, words: str) -> str:
    short = words if len(words) <= _TITLE_CHARS else f"{words[: _TITLE_CHARS - 1]}…"
    return short if path == ENTRY_PATH else f"{path}: {short}"


APPROVE, REMEMBER, REJECT, FORM = "approve", "approve-always", "reject", "form"
OPTIONS = (
    PermissionOption(option_id=APPROVE, name="Approve", kind="allow_once"),
    PermissionOption(option_id=REMEMBER, name="Approve, and the same call again in this run", kind="allow_always"),
    PermissionOption(option_id=REJECT, name="Reject", kind="reject_once"),
)
FORM_OPTION = PermissionOption(option_id=FORM, name="Change it, or reject it with a reason…", kind="reject_once")
"""Option of editors that can show forms."""


class SessionPlan:
    """Delegations of a run as the plan of a session: each worker that was called is an entry."""

    def __init__(self) -> None:
        self._entries: dict[str, PlanEntry] = {}

    def take(self, event: Mapping[str, Any]) -> AgentPlanUpdate | None:
        """Return the plan after an event that changes it; None for any other."""
        path, (what, _, state) = str(event["path"]), str(event["type"]).partition(".")
        if what != "invocation" or path in ("", ENTRY_PATH):
            return None
        name = path.removeprefix(f"{ENTRY_PATH}/")
        if state == "started":
            self._entries[path] = plan_entry(f"{name} ({event.get('worker', '')})", status="in_progress")
        elif path in self._entries:
            before = self._entries[path]
            words = before.content if state == "completed" else f"{before.content}: {state}"
            self._entries[path] = plan_entry(words, status="completed")
        return update_plan(self._entries.values())


def call_of(document: QuestionDocument, name: str) -> ToolCallUpdate:
    """Return the call that a question is about, with the change that it would make; `name` is its id."""
    question = document.question
    return ToolCallUpdate(
        tool_call_id=name,
        title=question.request.summary,
        kind=KINDS.get(question.request.tool, "other"),
        status="pending",
        content=[_content(document)],
        raw_input=question.args,
        field_meta={"question": question.id},
    )


def form_of(question: AskedQuestion, call: str) -> ElicitationFormSessionMode:
    """Return the form in which a question can be answered with changes or a reason."""
    asked = ElicitationSchema.model_validate(form_schema(question))
    return ElicitationFormSessionMode(session_id=question.run, tool_call_id=call, requested_schema=asked)


def end_of(run: Run, *, said: bool) -> AgentMessageChunk | None:
    """Return the last words about a run that has ended; None where its result was said already."""
    if run.error is not None:
        return update_agent_message_text(f"The run {run.run} has ended: {run.error.message}\n")
    words = ""
    if isinstance(run.output, str):
        words = "" if said else run.output
    elif run.output is not None:
        words = f"```json\n{json.dumps(run.output, ensure_ascii=False, indent=1)}\n```\n"
    if run.truncated is not None:
        words += f"\n\nThis result is not whole: {cut_words(run.truncated)}.\n"
    return update_agent_message_text(words) if words else None


def _content(document: QuestionDocument) -> Any:
    args = document.question.args
    if document.question.request.tool == "write_file" and document.diff.startswith("--- /dev/null"):
        return tool_diff_content(str(args.get("path", "")), str(args.get("content", "")))
    return tool_content(text_block(f"```{'diff' if document.diff else 'json'}\n{document.call_text}\n```"))


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
    APPROVE: Answer(decision=DecisionKind.APPROVE),
    REMEMBER: Answer(decision=DecisionKind.APPROVE, remember=Remember.SESSION),
    REJECT: Answer(decision=DecisionKind.REJECT, note="Rejected in the editor, without a reason."),
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
        self._plan, self._calls, self._words = SessionPlan(), SessionCalls(), LiveWords()
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
            last = end_of(ended, said=self._said)
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
        options = [*OPTIONS, FORM_OPTION] if self._has_forms else list(OPTIONS)
        given = await self._editor.request_permission(
            session_id=self._id, tool_call=call_of(document, call), options=options
        )
        if not isinstance(given.outcome, AllowedOutcome):
            return None
        if given.outcome.option_id == FORM and self._has_forms:
            question = AskedQuestion.of(document.question)
            form = form_of(question, call)
            filled = await self._editor.create_elicitation(message=question.summary, mode=form)
            return answer_of(question, filled.content or {}) if isinstance(filled, AcceptElicitationResponse) else None
        if given.outcome.option_id not in _ANSWERS:
            raise UsageError("the editor chose an option that it was not given")
        return _ANSWERS[given.outcome.option_id]

    async def _say(self, *news: Any) -> None:
        for update in news:
            await self._editor.session_update(session_id=self._id, update=update)
