"""Form of a model's answer before it enters a history, whichever adapter has read it.

Called by the wrapper that sends model turns. An answer that cannot be kept would be asked for again and again, at full
price; one that no provider takes back would end the run at its next turn. So half characters are replaced; names and
ids of calls are made plain, and ids unique. A call that cannot be carried out as it was written, because it is too
large, holds a number that JSON does not have or is one of too many, becomes one that says so: the gate refuses it with
a text for the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import count
from math import isfinite
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_core import PydanticSerializationError, from_json

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.sizes import (
    LEFT_OUT,
    MAX_ANSWER_BYTES,
    MAX_CALL_BYTES,
    MAX_CALLS,
    OVERSIZED,
    QUOTED_CHARS,
    UNFIT,
)
from llm_do_temporal.policy.cuts import CUT, cut_reason

MAX_NAME_CHARS = 64
"""Longest name of a tool that all providers take."""
_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""Ids of calls that all providers take back, but for those that want nine letters."""
_UNPLAIN = re.compile(r"[^a-zA-Z0-9_-]")
_SPECIAL = re.compile(r"<\|")
"""Begins a special token of a chat template."""
_OPENED, _CLOSED = "<think>", "</think>\n"
_ODD_NUMBER = re.compile(r"NaN|Infinity|[0-9]{300}|[eE]\+?0*[1-9][0-9]{2}")
"""Text without this has no number that has to be looked for."""
_DOUBLE_BITS = 1023
"""Largest length of an integer that every reader of JSON can hold, if only as a double."""
_ANSWER = TypeAdapter(ModelResponse)


def storable(
    answer: ModelResponse, parameters: ModelRequestParameters, before: Iterable[ModelMessage] = ()
) -> ModelResponse:
    """Return the answer as a history can hold it, and as every provider takes it back.

    `before` is the conversation that was answered: its calls have ids already. The result may be as large as the whole
    answer. Raises ModelFailed for an answer that no history can hold.
    """
    whole = {tool.name for tool in parameters.output_tools}
    tools = {tool.name for tool in (*parameters.function_tools, *parameters.output_tools)}
    parts = _thought_first([_clean(part) for part in answer.parts])
    answer = replace(answer, parts=_plain(parts, tools, before))
    size = _size(answer)
    if size > MAX_CALL_BYTES:
        answer = replace(answer, parts=_shortened(answer.parts, whole))
        size = _size(answer)
    if size > MAX_ANSWER_BYTES:
        raise ModelFailed(f"the model's answer has {size} bytes; at most {MAX_ANSWER_BYTES} can be kept")
    return answer


def without_half_call(answer: ModelResponse) -> ModelResponse:
    """Return the answer, with a call in which it was cut made into one that is not carried out.

    Its arguments may be JSON all the same: some servers close the brackets, and some leave out all of them.
    """
    reason, last = cut_reason(answer.finish_reason), answer.parts[-1] if answer.parts else None
    if reason is None or not isinstance(last, ToolCallPart):
        return answer
    return replace(answer, parts=[*answer.parts[:-1], replace(last, args={CUT: reason})])


def _size(answer: ModelResponse) -> int:
    try:
        return len(_ANSWER.dump_json(answer))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ModelFailed(f"the model's answer cannot be kept: {error}") from error


def _shortened(parts: Sequence[ModelResponsePart], whole: Collection[str]) -> list[ModelResponsePart]:
    """The parts, with as many calls as fit, the first ones first."""
    found: list[ModelResponsePart] = []
    left = MAX_CALL_BYTES
    for part in parts:
        if not isinstance(part, ToolCallPart) or part.tool_name in whole:
            found.append(part)
            continue
        text = part.args if isinstance(part.args, str) else part.args_as_json_str()
        size = len(text.encode())
        fits = size <= left
        left -= size if fits else 0
        found.append(part if fits else replace(part, args={OVERSIZED: size}))
    return found


def _thought_first(parts: list[ModelResponsePart]) -> list[ModelResponsePart]:
    """The parts, the first with its thoughts apart where it only closes them.

    A chat template that opens the thoughts itself leaves their end alone to the answer.
    """
    first = parts[0] if parts else None
    if not isinstance(first, TextPart) or _OPENED in first.content:
        return parts
    thought, _, text = first.content.partition(_CLOSED)
    return [ThinkingPart(thought), replace(first, content=text.lstrip()), *parts[1:]] if text else parts


def _plain(
    parts: Sequence[ModelResponsePart], tools: Collection[str], before: Iterable[ModelMessage]
) -> list[ModelResponsePart]:
    """The parts, their calls with plain names and ids of their own, MAX_CALLS of them and one for all others."""
    found: list[ModelResponsePart] = []
    calls = sum(isinstance(part, ToolCallPart) for part in parts)
    taken = {part.tool_call_id for message in before for part in message.parts if isinstance(part, ToolCallPart)}
    kept = 0
    for part in parts:
        if not isinstance(part, ToolCallPart):
            found.append(part)
            continue
        kept += 1
        if kept > MAX_CALLS + 1:
            continue
        name, own = plain_name(part.tool_name, tools), plain_id(part.tool_call_id, taken)
        taken.add(own)
        args = {LEFT_OUT: calls - MAX_CALLS} if kept > MAX_CALLS else _fit(part)
        found.append(replace(part, tool_name=name, tool_call_id=own, args=args))
    return found


def plain_name(name: str, tools: Collection[str]) -> str:
    """Return the tool that a call names, as every provider takes it back.

    Models add to a name what their own templates have around it: a prefix, or the marks of a channel.
    """
    if name in tools:
        return name
    alone = _SPECIAL.split(name, maxsplit=1)[0].strip()
    for meant in (alone, re.split(r"[.:/]", alone)[-1]):
        if meant in tools:
            return meant
    return _UNPLAIN.sub("_", alone)[:MAX_NAME_CHARS] or "unnamed"


def plain_id(own: str, taken: Collection[str]) -> str:
    """Return the id of a call where every provider takes it back and no other call has it; else one made of it."""
    if own not in taken and _ID.fullmatch(own):
        return own
    numbers = (f"call_{sha256(f'{number} {own}'.encode()).hexdigest()[:24]}" for number in count())
    return next(made for made in numbers if made not in taken)


def _fit(call: ToolCallPart) -> str | dict[str, Any] | None:
    """The arguments of a call; in their place a word about a number in them that no JSON holds."""
    args = call.args
    if isinstance(args, str):
        if not _ODD_NUMBER.search(args):
            return args
        try:
            read = from_json(args, allow_inf_nan=True)
        except ValueError:
            return args
    else:
        read = args
    number = unfit_number(read)
    return args if number is None else {UNFIT: number}


def unfit_number(value: Any) -> str | None:
    """Return the first number that JSON does not have, or that no double holds, and its place; None: there is none."""
    left: list[tuple[str, Any]] = [("", value)]
    while left:
        place, one = left.pop()
        if isinstance(one, float) and not isfinite(one):
            return f"{one} at {place or '/'}"
        if isinstance(one, int) and one.bit_length() > _DOUBLE_BITS:
            return f"an integer of {one.bit_length()} bits at {place or '/'}"
        if isinstance(one, dict):
            left += [(f"{place}/{key}"[:QUOTED_CHARS], inner) for key, inner in cast("dict[Any, Any]", one).items()]
        elif isinstance(one, list):
            left += [(f"{place}/{index}"[:QUOTED_CHARS], inner) for index, inner in enumerate(cast("list[Any]", one))]
    return None


def _clean(part: ModelResponsePart) -> ModelResponsePart:
    texts = {name: whole_characters(getattr(part, name)) for name in ("args", "content") if hasattr(part, name)}
    return replace(part, **texts)


def whole_characters(value: Any) -> Any:
    """The value with every half character (a lone surrogate, which no UTF-8 can hold) replaced."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {whole_characters(key): whole_characters(inner) for key, inner in items}
    if isinstance(value, list):
        return [whole_characters(inner) for inner in cast("list[Any]", value)]
    return value
