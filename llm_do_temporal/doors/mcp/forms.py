"""Forms in which a client asks its person about a call, and the answers that come back.

A form names what it shows by the question's digest, which comes back with the answer: nothing is kept in between.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
from pydantic import ValidationError

from llm_do_temporal.doors.values import Answer, AskedQuestion
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.approvals import DecisionKind

MAX_SHOWN_CHARS = 4_000
"""Most characters of arguments in a form; the page shows all of them."""
MAX_FIELD_CHARS = 500
"""Longest text that a field of a form has to be edited in."""
_ARGUMENT = "change_"
_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool}


def key_of(question: AskedQuestion) -> str:
    """Return the name of a form: the question, and what was shown."""
    return f"{question.id}:{question.digest}"


def read_key(key: str) -> tuple[str, str]:
    """Return the id of the question and the digest of what was shown. Both are a stranger's words until compared."""
    question, _, digest = key.partition(":")
    return question, digest


def form_of(question: AskedQuestion, page: str | None) -> types.ElicitRequest:
    """Return the form; `page` is the address of the web page, None where none is known."""
    fields: dict[str, Any] = {
        "decision": {"type": "string", "enum": ["approve", "reject"], "description": "Whether the call may be made."},
        "reason": {"type": "string", "description": "What the worker is told, for a rejection."},
    }
    for name, value in _editable(question).items():
        fields[f"{_ARGUMENT}{name}"] = {"type": _type_of(question, name), "title": name, "default": value}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(
            message=words_of(question, page),
            requested_schema={"type": "object", "properties": fields, "required": ["decision"]},
        )
    )


def words_of(question: AskedQuestion, page: str | None) -> str:
    """Return what a person reads: the call, who wants it, and where all of it can be seen."""
    shown = json.dumps(question.args, ensure_ascii=False, indent=1)
    lines = [f"'{question.worker}' ({question.path}) in run '{question.run}' wants: {question.summary}", ""]
    lines.append(shown[:MAX_SHOWN_CHARS])
    if len(shown) > MAX_SHOWN_CHARS or question.diff or question.is_review:
        lines += ["", f"This is not all of it. {_whole(question, page)}"]
    return "\n".join(lines)


def answer_of(question: AskedQuestion, content: Mapping[str, Any]) -> Answer:
    """Return the answer that a filled form gives. Raises UsageError for one that is not of this form."""
    args = dict(question.args)
    for name, before in _editable(question).items():
        now = content.get(f"{_ARGUMENT}{name}", before)
        if not isinstance(now, _TYPES[_type_of(question, name)]):
            raise UsageError(f"'{name}' is not of the kind that the form asked for")
        args[name] = now
    kind, note = str(content.get("decision", "")), str(content.get("reason") or "")
    try:
        if kind == DecisionKind.APPROVE and args != question.args:
            return Answer(decision=DecisionKind.MODIFY, args=args, note=note)
        return Answer(decision=DecisionKind(kind), note=note)
    except (ValueError, ValidationError):
        raise UsageError("the form was not filled in: `decision` is approve or reject") from None


def _editable(question: AskedQuestion) -> dict[str, Any]:
    """Return the arguments that fit into fields of a form, none where they cannot be changed."""
    if question.args_schema is None or question.is_review:
        return {}
    return {name: value for name, value in question.args.items() if _type_of(question, name) and _fits(value)}


def _type_of(question: AskedQuestion, name: str) -> str:
    """Return the type of a field for the argument; empty where it is none that forms have."""
    properties = cast("dict[str, Any]", (question.args_schema or {}).get("properties") or {})
    declared = cast("dict[str, Any]", properties.get(name) or {})
    kind = declared.get("type")
    value = question.args.get(name)
    return kind if isinstance(kind, str) and kind in _TYPES and isinstance(value, _TYPES[kind]) else ""


def _fits(value: Any) -> bool:
    return not isinstance(value, str) or len(value) <= MAX_FIELD_CHARS


def _whole(question: AskedQuestion, page: str | None) -> str:
    if page is None:
        return f"See `llm-do-temporal approvals {question.run} {question.id}`."
    return f"See {page}/runs/{question.run}/approvals/{question.id}"
