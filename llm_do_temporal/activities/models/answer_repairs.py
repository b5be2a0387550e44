"""Repairs of OpenAI's answers on their way to the client library, which refuses or mixes up what gateways make of them.

Called by the hook that counts what an HTTP client reads. It keeps one choice of an answer, gives calls and items ids
of their own, adds text that came in no delta, and names a reason where an answer is incomplete. What needs no repair
is passed on byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from functools import cache
from typing import Any, cast, get_args

from pydantic_core import from_json

from llm_do_temporal.activities.models.endings import meaning

Json = dict[str, Any]
_PREFIXES = {"message": "msg", "reasoning": "rs"}
"""Beginnings of the ids of items, by their type; those of calls begin with `fc`."""
_TEXT_DELTA = "response.output_text.delta"


class ChatRepairs:
    """Repairs of one answer of chat completions."""

    def __init__(self) -> None:
        self._choice: Any = None

    def whole(self, body: Json) -> Json:
        """Return an answer in one piece with one choice, and with an id or an empty one for each call."""
        choices = _objects(body.get("choices"))
        if len(choices) > 1:
            choices = [min(choices, key=_index)]
        for choice in choices:
            for call in _objects(_object(choice.get("message")).get("tool_calls")):
                call["id"] = call.get("id") or ""
        return {**body, "choices": choices} if choices else body

    def event(self, chunk: Json) -> list[Json]:
        """Return a chunk with pieces of the one choice that is kept."""
        choices = _objects(chunk.get("choices"))
        if not choices:
            return [chunk]
        if self._choice is None:
            self._choice = min(map(_index, choices))
        kept = [one for one in choices if _index(one) == self._choice]
        return [chunk if len(kept) == len(choices) else {**chunk, "choices": kept}]


class ResponseRepairs:
    """Repairs of one answer of responses."""

    def __init__(self) -> None:
        self._ids: dict[Any, str] = {}
        """Ids of the items that are open, by their place."""
        self._used: set[str] = set()
        self._texts: dict[tuple[Any, Any], str] = {}
        """Text of deltas, by the places of an item and of its content."""
        self._said = ""

    def whole(self, body: Json) -> Json:
        """Return an answer in one piece without items that the library does not know."""
        items = [one for one in _objects(body.get("output")) if one.get("type") in _known_items()]
        return _with_reason({**body, "output": items} if isinstance(body.get("output"), list) else body)

    def event(self, event: Json) -> list[Json]:
        """Return an event, after one with the text that its deltas left out."""
        kind, place = event.get("type"), event.get("output_index")
        if kind in ("response.output_item.added", "response.output_item.done"):
            return self._item(event, kind, place)
        if "item_id" in event and place in self._ids:
            event = {**event, "item_id": self._ids[place]}
        if kind == _TEXT_DELTA and isinstance(event.get("delta"), str):
            self._add(place, event.get("content_index"), event["delta"])
        if kind == "response.output_text.done":
            return [*self._rest(event, event.get("item_id"), event.get("content_index"), event.get("text")), event]
        if kind in ("response.completed", "response.incomplete"):
            return self._end(event)
        return [event]

    def _item(self, event: Json, kind: str, place: Any) -> list[Json]:
        item = _object(event.get("item"))
        if not item:
            return [event]
        if kind == "response.output_item.added" or place not in self._ids:
            self._ids[place] = self._own_id(item)
            self._texts = {key: text for key, text in self._texts.items() if key[0] != place}
        event = {**event, "item": {**item, "id": self._ids[place]}}
        return [*(self._missing(event, item) if kind == "response.output_item.done" else ()), event]

    def _own_id(self, item: Json) -> str:
        given = item.get("id")
        prefix = _PREFIXES.get(str(item.get("type")), "fc")
        own = given if isinstance(given, str) and given else f"{prefix}_{len(self._used)}"
        number = 1
        while own in self._used:
            number += 1
            own = f"{given or prefix}_{number}"
        self._used.add(own)
        return own

    def _missing(self, event: Json, item: Json) -> Iterator[Json]:
        if item.get("type") == "message":
            for number, part in enumerate(_objects(item.get("content"))):
                yield from self._rest(event, self._ids.get(event.get("output_index")), number, part.get("text"))

    def _rest(self, event: Json, item: Any, content: Any, text: Any) -> Iterator[Json]:
        """Yield a delta with the end of a text that has come as a whole, where its deltas were its beginning."""
        place = event.get("output_index")
        had = self._texts.get((place, content), "")
        if not isinstance(text, str) or not text.startswith(had) or text == had or (not had and text in self._said):
            return
        rest = text[len(had) :]
        self._add(place, content, rest)
        at: Json = {"output_index": place, "content_index": content, "sequence_number": event.get("sequence_number", 0)}
        yield {"type": _TEXT_DELTA, "item_id": item or "msg_0", **at, "delta": rest, "logprobs": []}

    def _add(self, place: Any, content: Any, text: str) -> None:
        self._texts[place, content] = self._texts.get((place, content), "") + text
        self._said += text

    def _end(self, event: Json) -> list[Json]:
        whole = self.whole(_object(event.get("response")))
        found: list[Json] = []
        if not self._said:
            for place, item in enumerate(_objects(whole.get("output"))):
                self._ids.setdefault(place, str(item.get("id") or f"msg_{place}"))
                found += self._missing({**event, "output_index": place}, item)
        return [*found, {**event, "response": whole}]


def repairs_of(path: str) -> ChatRepairs | ResponseRepairs | None:
    """Return the repairs of an answer to a request at this path; None: it is of another protocol."""
    if path.endswith("/chat/completions"):
        return ChatRepairs()
    return ResponseRepairs() if path.endswith("/responses") else None


def repaired_body(repairs: ChatRepairs | ResponseRepairs, data: bytes) -> bytes:
    """Return an answer in one piece as the library can read it."""
    body = _read(data)
    if not body:
        return data
    made = repairs.whole(_read(data))
    return data if made == body else json.dumps(made).encode()


async def repaired_events(
    repairs: ChatRepairs | ResponseRepairs, pieces: AsyncIterator[bytes]
) -> AsyncGenerator[bytes]:
    """Yield a stream of events as the library can read them, in whole lines."""
    left = b""
    async for piece in pieces:
        *lines, left = (left + piece).split(b"\n")
        if lines:
            yield b"".join(_repaired_line(repairs, line + b"\n") for line in lines)
    if left:
        yield _repaired_line(repairs, left)


def _repaired_line(repairs: ChatRepairs | ResponseRepairs, line: bytes) -> bytes:
    event = _read(line.removeprefix(b"data:")) if line.startswith(b"data:") else {}
    if not event:
        return line
    made = repairs.event(event)
    if made == [event]:
        return line
    return b"\n".join(b"data: " + json.dumps(one).encode() + b"\n" for one in made)


def _read(data: bytes) -> Json:
    """Return a JSON object; empty for anything else."""
    try:
        return _object(from_json(data))
    except ValueError:
        return {}


def _with_reason(response: Json) -> Json:
    """Return a response; one that is incomplete for no known reason counts as cut for its length."""
    if response.get("status") != "incomplete":
        return response
    details = _object(response.get("incomplete_details"))
    given = details.get("reason")
    reason = given if isinstance(given, str) else ""
    if meaning(reason) in ("length", "content_filter"):
        return response
    return {**response, "incomplete_details": {**details, "reason": f"length {reason}".strip()}}


@cache
def _known_items() -> frozenset[str]:
    from openai.types.responses import ResponseOutputItem

    kinds = get_args(get_args(ResponseOutputItem)[0])
    return frozenset(name for kind in kinds for name in get_args(kind.model_fields["type"].annotation))


def _index(choice: Json) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _object(given: Any) -> Json:
    return cast("Json", given) if isinstance(given, dict) else {}


def _objects(given: Any) -> list[Json]:
    """Return the objects of a list; none of anything else."""
    return (
        [_object(one) for one in cast("list[Any]", given) if isinstance(one, dict)] if isinstance(given, list) else []
    )
