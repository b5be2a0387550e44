"""Calls of a run as tool calls of a session: pending while people are asked, then under way, then ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from acp.helpers import start_tool_call, text_block, tool_content, update_tool_call
from acp.schema import ToolCallProgress, ToolCallStart, ToolKind

from llm_do_temporal.client.question_document import QuestionDocument, by_words
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.messages.base import ENTRY_PATH

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
                    title = _title(path, f"{one.summary}: {_verdict(event)}")
                    is_rejected = event.get("decision") == DecisionKind.REJECT.value
                    return [update_tool_call(one.id, title=title, status="failed" if is_rejected else "in_progress")]
        return []


def _title(path: str, words: str) -> str:
    short = words if len(words) <= _TITLE_CHARS else f"{words[: _TITLE_CHARS - 1]}…"
    return short if path == ENTRY_PATH else f"{path}: {short}"


def _verdict(event: Mapping[str, Any]) -> str:
    return f"{_DONE.get(str(event['decision']), 'decided')} by {by_words(event['by'], event.get('via'))}"
