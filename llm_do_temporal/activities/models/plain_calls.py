"""Tool calls of a model's answer in a form that every later request can hold.

Called by the wrapper that sends model turns, before the answer enters a history. Names and ids have letters, digits,
`_` and `-`; ids are unique in the conversation; numbers are numbers of JSON. A call that cannot be taken gets, as its
arguments, a text that is no JSON: so it is refused like other broken arguments, and the model is shown that text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from math import isfinite
from typing import Any, cast

from pydantic_ai.messages import BaseToolCallPart, ModelMessage, ModelResponse, ModelResponsePart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_core import from_json

from llm_do_temporal.activities.models.answers import whole_value
from llm_do_temporal.messages.sizes import MAX_CALLS

_MAX_NAME_CHARS = 64
"""Longest name of a tool that all providers take."""
_MAX_ID_CHARS = 40
"""Longest id of a call that all providers take."""
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_BETWEEN = re.compile(r"<\|[^|>]*\|?>?|[^A-Za-z0-9_-]+")
"""Separators of the words of a name: special tokens of a model's template, and all that no name has."""
_LEAST, _MOST = -(2**63), 2**64 - 1
"""Integers that are taken: all of 64 bits, with a sign or without."""


def call_ids(messages: Iterable[ModelMessage]) -> set[str]:
    """Return the ids of all calls of a conversation."""
    answers = (message for message in messages if isinstance(message, ModelResponse))
    return {call.tool_call_id for answer in answers for call in _calls(answer)}


def with_plain_calls(
    answer: ModelResponse, parameters: ModelRequestParameters, taken: Collection[str]
) -> ModelResponse:
    """Return the answer with plain calls; `taken` are the ids of calls of earlier turns."""
    offered = {tool.name for tool in (*parameters.function_tools, *parameters.output_tools)}
    ids = {*taken, *(call.tool_call_id for call in _calls(answer) if not isinstance(call, ToolCallPart))}
    items: set[str] = set()
    parts: list[ModelResponsePart] = []
    for part in _bounded(answer.parts):
        if isinstance(part, ToolCallPart):
            name, own = plain_name(part.tool_name, offered), _plain_id(part.tool_call_id, ids)
            item = None if part.id in items else part.id
            part = replace(part, tool_name=name, tool_call_id=own, id=item, args=plain_args(part))
            ids.add(own)
            items.update({item} if item else ())
        parts.append(part)
    return replace(answer, parts=parts)


def plain_name(name: str, offered: Collection[str]) -> str:
    """Return the name of the offered tool that a call means; a plain name of no offered tool where it means none."""
    if name in offered:
        return name
    plain = _OTHER.sub("_", name.strip())
    if plain in offered:
        return plain
    meant = {word for word in _BETWEEN.split(name) if word in offered}
    if len(meant) == 1:
        return meant.pop()
    plain = plain[:_MAX_NAME_CHARS] or "unnamed"
    return f"no_{plain}"[:_MAX_NAME_CHARS] if plain in offered else plain


def odd_number(value: Any) -> str | None:
    """Return a description of a number in the value that JSON, or a program that reads it, does not have; None: no such
    number."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left.extend(cast("dict[Any, Any]", one).values())
        elif isinstance(one, list):
            left.extend(cast("list[Any]", one))
        elif isinstance(one, float) and not isfinite(one):
            return f"{one}, a number that JSON does not have"
        elif isinstance(one, int) and not _LEAST <= one <= _MOST:
            return f"an integer of {one.bit_length()} bits; at most 64 are taken"
    return None


def _calls(answer: ModelResponse) -> Iterator[BaseToolCallPart]:
    """Return all calls, those of server-side tools included."""
    return (part for part in answer.parts if isinstance(part, BaseToolCallPart))


def _plain_id(given: str | None, taken: Collection[str]) -> str:
    plain = _OTHER.sub("_", given or "")[:_MAX_ID_CHARS] or "call"
    found, number = plain, 1
    while found in taken:
        number += 1
        found = f"{plain[: _MAX_ID_CHARS - 8]}_{number}"
    return found


def plain_args(part: ToolCallPart) -> Any:
    """Return the arguments; where they hold a number that cannot be taken, a text that says so.

    JSON may write half a character as an escape. It is replaced, as in arguments that come as a value.
    """
    args = whole_value(part.args)
    try:
        value = from_json(args) if isinstance(args, str) else args
    except ValueError:
        args = value = _with_whole_escapes(args)
    odd = odd_number(value)
    if odd is None:
        # A call without arguments: some servers write them as null.
        return "{}" if value is None and isinstance(args, str) else args
    return f"Not carried out: the arguments hold {odd}. Call again with another number, or with a text."


def _with_whole_escapes(args: str) -> Any:
    """Return arguments whose only fault is half a character as a value; all others as they are."""
    try:
        value = json.loads(args) if "\\u" in args else None
    except (ValueError, RecursionError):
        return args
    return whole_value(value) if isinstance(value, dict) else args


def _bounded(parts: Iterable[ModelResponsePart]) -> list[ModelResponsePart]:
    """Return the parts with the first calls, and one more that says how many others were left out."""
    found: list[ModelResponsePart] = []
    rest: list[ToolCallPart] = []
    calls = 0
    for part in parts:
        calls += isinstance(part, ToolCallPart)
        if isinstance(part, ToolCallPart) and calls > MAX_CALLS:
            rest.append(part)
        else:
            found.append(part)
    if rest:
        text = f"Not carried out: this call and {len(rest) - 1} after it; at most {MAX_CALLS} calls of one answer are."
        found.append(replace(rest[0], args=f"{text} Make them again in later answers."))
    return found
