"""Pictures for an editor: events of a run as updates of a session, questions as requests for permission."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from acp.helpers import (
    plan_entry,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
)
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    PermissionOption,
    PlanEntry,
    ToolCallProgress,
    ToolCallUpdate,
    ToolKind,
)

from llm_do_temporal.doors.values import AskedQuestion, Run
from llm_do_temporal.messages.base import ENTRY_PATH

APPROVE, REMEMBER, REJECT = "approve", "approve-always", "reject"
OPTIONS = (
    PermissionOption(option_id=APPROVE, name="Approve", kind="allow_once"),
    PermissionOption(option_id=REMEMBER, name="Approve, and the same call again in this run", kind="allow_always"),
    PermissionOption(option_id=REJECT, name="Reject", kind="reject_once"),
)
_KINDS: dict[str, ToolKind] = {"write_file": "edit", "edit_file": "edit", "read_file": "read", "shell": "execute"}
_ENDED = {"completed": "completed", "failed": "completed", "cancelled": "completed"}
Update = AgentMessageChunk | AgentThoughtChunk | AgentPlanUpdate | ToolCallProgress


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


def words_of(event: Mapping[str, Any]) -> Update | None:
    """Return what a model wrote in a turn: the entry's as the agent's words, those of others as thoughts."""
    if event["type"] != "turn.completed" or not event.get("text"):
        return None
    text = f"{event['text']}\n"
    if event["path"] == ENTRY_PATH:
        return update_agent_message_text(text)
    return update_agent_thought_text(f"{event['path']}: {text}")


def call_of(question: AskedQuestion) -> ToolCallUpdate:
    """Return the call that a question is about, with the change that it would make."""
    return ToolCallUpdate(
        tool_call_id=call_id(question.id),
        title=question.summary,
        kind=_KINDS.get(question.tool, "other"),
        status="pending",
        content=_content(question),
        raw_input=question.args,
    )


def call_id(question: str) -> str:
    """Return the id by which a session calls the call of a question."""
    return f"approval-{question}"


def decided(question: AskedQuestion) -> ToolCallProgress:
    """Return the news that a question was decided, by whom and at which door."""
    by = ", ".join(f"{vote.by or 'somebody'}{f' via {vote.via}' if vote.via else ''}" for vote in question.votes)
    verdict = question.votes[-1].decision.done if question.votes else question.state
    status = "failed" if verdict in ("rejected", "withdrawn") else "completed"
    title = f"{question.summary}: {verdict}{f' by {by}' if by else ''}"
    return update_tool_call(call_id(question.id), title=title, status=status)


def end_of(run: Run, *, said: bool) -> AgentMessageChunk | None:
    """Return the last words about a run that has ended; None where its result was said already."""
    if run.error is not None:
        return update_agent_message_text(f"The run {run.run} has ended: {run.error.message}\n")
    if isinstance(run.output, str):
        return None if said else update_agent_message_text(run.output)
    if run.output is None:
        return None
    return update_agent_message_text(f"```json\n{json.dumps(run.output, ensure_ascii=False, indent=1)}\n```\n")


def _content(question: AskedQuestion) -> list[Any]:
    args, path = question.args, str(question.args.get("path", ""))
    if question.tool == "write_file" and (question.diff or "").startswith("--- /dev/null"):
        return [tool_diff_content(path, str(args.get("content", "")))]
    if question.diff:
        return [tool_content(text_block(f"```diff\n{question.diff}\n```"))]
    return [tool_content(text_block(f"```json\n{json.dumps(args, ensure_ascii=False, indent=1)}\n```"))]
