"""Tool calls of a streamed answer, as their provider sent them.

Called while a stream is read. Adapters put the pieces of calls together by an index or an item id. Some servers give
several calls the same index, or repeat a call's name in each piece; an adapter then joins two calls, or the names.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_core import from_json


class StreamedCalls:
    """Calls of one stream by the place of their part in the answer."""

    def __init__(self) -> None:
        self._calls: dict[int, list[ToolCallPart]] = {}

    def take(self, event: ModelResponseStreamEvent) -> None:
        """Take in the next event of the stream. Raises UnexpectedModelBehavior for a piece that fits no call."""
        if isinstance(event, PartStartEvent) and isinstance(event.part, ToolCallPart):
            found = self._calls.setdefault(event.index, [])
            if found and found[-1].tool_call_id == event.part.tool_call_id:
                found.pop()
            found.append(event.part)
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, ToolCallPartDelta):
            found = self._calls.get(event.index)
            if found is not None:
                _go_on(found, event.delta)

    def parted(self, answer: ModelResponse) -> ModelResponse:
        """Return the answer with calls that the adapter joined as calls of their own.

        Raises UnexpectedModelBehavior where it is not known which calls belong to which part.
        """
        sent = [self._calls[index] for index in sorted(self._calls)]
        if sum(isinstance(part, ToolCallPart) for part in answer.parts) != len(sent):
            raise UnexpectedModelBehavior("the calls of the stream cannot be told apart")
        parts: list[ModelResponsePart] = []
        calls = iter(sent)
        for part in answer.parts:
            parts.extend(_apart(part, next(calls)) if isinstance(part, ToolCallPart) else [part])
        return replace(answer, parts=parts)


def _apart(part: ToolCallPart, sent: list[ToolCallPart]) -> list[ToolCallPart]:
    if len(sent) == 1:
        return [replace(part, tool_name=sent[0].tool_name, tool_call_id=sent[0].tool_call_id)]
    return sent


def _go_on(found: list[ToolCallPart], delta: ToolCallPartDelta) -> None:
    """Add a piece to the last call, or begin another call with it."""
    last = found[-1]
    name, more = delta.tool_name_delta, delta.args_delta
    differs = delta.tool_call_id not in (None, last.tool_call_id)
    is_more = bool(more.strip() if isinstance(more, str) else more)
    if name and _begins(last, name, differs=differs, is_more=is_more):
        own = delta.tool_call_id or last.tool_call_id
        found.append(ToolCallPart(name, more, tool_call_id=own, provider_details=delta.provider_details))
        return
    same = replace(delta, tool_call_id=None, tool_name_delta=None if name == last.tool_name else name)
    grown = same.apply(last)
    if not isinstance(grown, ToolCallPart):
        raise UnexpectedModelBehavior("a piece of the stream belongs to no call")
    found[-1] = grown


def _begins(last: ToolCallPart, name: str, *, differs: bool, is_more: bool) -> bool:
    """Whether a piece with a name begins a call after `last`: by its id and name, or as `last` is complete."""
    if _is_complete(last):
        return differs or is_more or name != last.tool_name
    return differs and (name != last.tool_name or not last.args)


def _is_complete(call: ToolCallPart) -> bool:
    if not isinstance(call.args, str):
        return bool(call.args)
    try:
        return isinstance(from_json(call.args), dict)
    except ValueError:
        return False
