"""Updates of a session from the events of its run, and requests for permission from its questions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from acp.helpers import plan_entry, text_block, tool_content, tool_diff_content, update_agent_message_text, update_plan
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    ElicitationFormSessionMode,
    ElicitationSchema,
    PermissionOption,
    PlanEntry,
    ToolCallUpdate,
)

from llm_do_temporal.client.question_document import QuestionDocument
from llm_do_temporal.doors.forms import form_schema
from llm_do_temporal.doors.values import AskedQuestion, Run
from llm_do_temporal.extensions.acp.calls import KINDS
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.policy.models import cut_words

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
