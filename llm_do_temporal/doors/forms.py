"""Fields of forms in which a protocol's client asks its person about a call, and the answers that come back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from llm_do_temporal.doors.values import Answer, AskedQuestion
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.redaction.hidden_characters import made_visible

MAX_FIELD_CHARS = 500
"""Longest text that a field of a form has to be edited in."""
_ARGUMENT = "change_"
_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool}


def form_schema(question: AskedQuestion) -> dict[str, Any]:
    """Return the JSON Schema of the form about a question: the decision, a reason, and each short argument."""
    fields: dict[str, Any] = {
        "decision": {"type": "string", "enum": ["approve", "reject"], "description": "Whether the call may be made."},
        "reason": {"type": "string", "description": "What the worker is told, for a rejection."},
    }
    for name, value in _editable(question).items():
        fields[f"{_ARGUMENT}{name}"] = {"type": _type_of(question, name), "title": name, "default": value}
    return {"type": "object", "properties": fields, "required": ["decision"]}


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
    """Return the arguments that fields of a form can show, none where they cannot be changed."""
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
    """Whether a field shows the value as it is: it is short, and has nothing hidden but line ends and tabs."""
    return not isinstance(value, str) or (len(value) <= MAX_FIELD_CHARS and made_visible(value, keep="\n\t") == value)


def filled_values(name: str, form: Any) -> dict[str, Any] | None:
    """Return the values of a form that was accepted; None where it was declined or cancelled.

    Whether they fit the form `answer_of` checks. `name` is for the error. Raises UsageError for what is no answer to a
    form.
    """
    told = cast("dict[str, Any]", form) if isinstance(form, dict) else {"content": form}
    values: Any = told.get("content") or {}
    if not isinstance(values, dict) or not isinstance(told.get("action"), str):
        raise UsageError(f"the answer to '{name[:80]}' is no form that was accepted, declined or cancelled")
    return cast("dict[str, Any]", values) if told["action"] == "accept" else None
