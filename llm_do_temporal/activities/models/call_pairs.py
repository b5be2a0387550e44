"""Calls of a conversation and their results, in pairs that every provider takes.

Called before each request. An answer is kept with plain names and unique ids; one that was kept by an earlier version
or another program, or came back after its turn was left out, may have others. Each call gets a name and an id that no
other call has, and its result stands in the request that follows it. Messages that are in pairs stay as they are.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeAlias

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart

from llm_do_temporal.activities.models.plain_calls import plain_args, plain_name

_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""Ids of calls that all providers take, but for those that want nine letters, whose profiles say so."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools that all providers take, as `plain_name` makes them."""
_RESULTS = ("tool-return", "retry-prompt")
"""Kinds of parts of a request that may be the result of a call."""
_Open: TypeAlias = dict[str, deque[tuple[int, ToolCallPart]]]
"""Calls without a result, by the id with which they were kept: place of their answer, and the call as it is sent."""


def paired(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Return the conversation with its calls and results in pairs; the messages given stay as they are.

    A result goes to the oldest call with its id that has none. One without a call is left out. A call without a result
    stays without.
    """
    return messages if _is_paired(messages) else _in_pairs(messages)


def _is_paired(messages: Sequence[ModelMessage]) -> bool:
    """Whether nothing has to be changed. Asked of every call in every turn, so it only looks."""
    taken: set[str] = set()
    waiting: dict[str, str] = {}
    follows = False
    for message in messages:
        if isinstance(message, ModelResponse):
            if waiting:
                return False
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    if part.tool_call_id in taken or not _is_plain(part):
                        return False
                    taken.add(part.tool_call_id)
                    waiting[part.tool_call_id] = part.tool_name
        else:
            for result in _results(message):
                if not follows or waiting.pop(result.tool_call_id, None) != result.tool_name:
                    return False
        follows = isinstance(message, ModelResponse)
    return True


def _is_plain(call: ToolCallPart) -> bool:
    has_names = _ID.fullmatch(call.tool_call_id) is not None and _NAME.fullmatch(call.tool_name) is not None
    return has_names and not _may_hold_odd_number(call)


def _may_hold_odd_number(call: ToolCallPart) -> bool:
    return isinstance(call.args, str) and ("NaN" in call.args or "Infinity" in call.args)


def _results(request: ModelRequest) -> Iterator[Any]:
    return (part for part in request.parts if _is_result(part))


def _is_result(part: Any) -> bool:
    return part.part_kind in _RESULTS and part.tool_name is not None


def _in_pairs(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    taken: set[str] = set()
    waiting: _Open = defaultdict(deque)
    results: dict[int, list[Any]] = defaultdict(list)
    others: list[ModelMessage | None] = []
    for place, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            others.append(_with_plain_calls(message, place, taken, waiting))
            continue
        for result in _results(message):
            if waiting[result.tool_call_id]:
                asked, call = waiting[result.tool_call_id].popleft()
                results[asked].append(_with_names(result, call.tool_name, call.tool_call_id))
        rest = [part for part in message.parts if not _is_result(part)]
        is_left_out = not rest and message.parts and place < len(messages) - 1
        others.append(None if is_left_out else replace(message, parts=rest))
    return list(_put_together(others, results))


def _put_together(others: Sequence[ModelMessage | None], results: dict[int, list[Any]]) -> Iterator[ModelMessage]:
    """Yield the messages, each result in the request after its call."""
    found: list[Any] = []
    for place, message in enumerate(others):
        if isinstance(message, ModelRequest):
            yield replace(message, parts=[*found, *message.parts]) if found else message
            found = []
        elif isinstance(message, ModelResponse):
            if found:
                yield ModelRequest(parts=found)
            yield message
            found = results.get(place, [])
    if found:
        yield ModelRequest(parts=found)


def _with_plain_calls(answer: ModelResponse, place: int, taken: set[str], waiting: _Open) -> ModelResponse:
    parts = list(answer.parts)
    for index, part in enumerate(parts):
        if isinstance(part, ToolCallPart):
            call = _with_names(part, plain_name(part.tool_name, ()), _free_id(part.tool_call_id, taken))
            if _may_hold_odd_number(call):
                call = replace(call, args=plain_args(call))
            waiting[part.tool_call_id].append((place, call))
            parts[index] = call
    return replace(answer, parts=parts)


def _with_names(part: Any, name: str, own: str) -> Any:
    if (part.tool_name, part.tool_call_id) == (name, own):
        return part
    other = copy(part)
    other.tool_name, other.tool_call_id = name, own
    return other


def _free_id(given: str, taken: set[str]) -> str:
    """Return a plain id that no earlier call has, and take it. It stays the same while the conversation grows."""
    found, number = given, 1
    while found in taken or _ID.fullmatch(found) is None:
        odd = given if number == 1 and given not in taken else f"{given}#{number}"
        found = f"call_{sha256(odd.encode(errors='surrogatepass')).hexdigest()[:32]}"
        number += 1
    taken.add(found)
    return found
