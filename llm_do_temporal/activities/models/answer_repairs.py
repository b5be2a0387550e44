"""Repairs of answers on their way to the client libraries, which refuse or mix up what gateways make of them.

Called by the hook that counts what an HTTP client reads. It keeps one choice of an answer, gives calls and items ids
of their own, adds text that came in no delta, names a reason where an answer is incomplete, and gives fields that can
be read in one way only the form that the protocol has. Fields that nobody needs for the answer, such as a usage that
cannot be read, are left out. What needs no repair is passed on byte for byte. Events of streams are read as the
standard of server-sent events says: lines end with CR LF, CR or LF only, and the text is UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Protocol, cast, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from llm_do_temporal.activities.models.answers import meaning

_LINE_END = re.compile(rb"\r\n|\r|\n")
_ALSO_LINE_ENDS = {"\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029", "\u0085".encode(): b"\\u0085"}
"""Characters at which Python ends lines and neither JSON nor a stream does, with their escapes in JSON."""


@dataclass(frozen=True)
class ServerEvent:
    """Event with data; `name` is empty for an event without one."""

    name: bytes
    data: bytes

    def written(self) -> bytes:
        """Return the event in lines that every library reads alike."""
        lines = [b"data: " + line for line in with_escaped_line_ends(self.data).split(b"\n")]
        return b"\n".join([b"event: " + self.name, *lines] if self.name else lines) + b"\n\n"


class EventReader:
    """Reader of one stream, piece by piece."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        """Pieces of the line that has no end yet."""
        self._after_cr = False
        self._name = b""
        self._data: list[bytes] = []
        self._is_json = False
        """Whether the rest is bare JSON: an answer in one piece, or an error, in a body that calls itself a stream."""

    def read(self, piece: bytes) -> Iterator[ServerEvent | bytes]:
        """Yield the events that end in a piece; bare JSON comes as bytes, with its lines as they are."""
        if self._after_cr:
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r") or (self._after_cr and not piece)
        first, *others = _LINE_END.split(piece)
        self._line.append(first)
        for other in others:
            yield from self._take(b"".join(self._line))
            self._line = [other]

    def rest(self) -> Iterator[ServerEvent | bytes]:
        """Yield what the end of the stream leaves without an empty line behind it."""
        yield from self._take(b"".join(self._line))
        yield from self._event()

    def _take(self, line: bytes) -> Iterator[ServerEvent | bytes]:
        self._is_json = self._is_json or line.lstrip()[:1] in (b"{", b"[")
        if self._is_json:
            yield from self._event()
            yield line + b"\n"
            return
        field, _, value = line.partition(b":")
        if not line:
            yield from self._event()
        elif field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == b"data":
            self._data.append(value.removeprefix(b" "))

    def _event(self) -> Iterator[ServerEvent]:
        data, name = b"\n".join(self._data), self._name
        self._data, self._name = [], b""
        if data.strip():
            yield ServerEvent(name, in_utf8(data))


def in_utf8(data: bytes) -> bytes:
    """Return a text in UTF-8, with U+FFFD in the place of what is none."""
    return data.decode("utf-8", "replace").encode()


def with_escaped_line_ends(data: bytes) -> bytes:
    """Return JSON without the characters that a library takes for the end of a line."""
    for character, escape in _ALSO_LINE_ENDS.items():
        data = data.replace(character, escape)
    return data


Json = dict[str, Any]
_PREFIXES = {"message": "msg", "reasoning": "rs"}
"""Beginnings of the ids of items, by their type; those of calls begin with `fc`."""
_EVENT_FIELDS = (b"data:", b"event:", b":")
"""Beginnings of a stream of events."""
_TEXT_DELTA = "response.output_text.delta"


class Repairs(Protocol):
    """Repairs of one answer."""

    def whole(self, body: Json) -> Json:
        """Return an answer in one piece as the library can read it."""
        ...

    def event(self, event: Json) -> list[Json]:
        """Return the events in the place of one event of a stream."""
        ...


class ChatRepairs:
    """Repairs of one answer of chat completions."""

    def __init__(self) -> None:
        self._choice: Any = None

    def whole(self, body: Json) -> Json:
        """Return an answer in one piece with one choice, and with an id or an empty one for each call."""
        choices = _objects(body.get("choices"))
        if not choices:
            return body
        choice = _plain_choice(min(choices, key=_index))
        message = {"role": "assistant", **_object(choice.get("message"))}
        if "tool_calls" in message:
            message["tool_calls"] = [_chat_call(call) for call in _objects(message["tool_calls"])] or None
        end = choice.get("finish_reason") or ("tool_calls" if message.get("tool_calls") else "stop")
        kept = {**choice, "index": _index(choice), "message": message, "finish_reason": end}
        return _plain_envelope({**body, "choices": [kept]}, "chat.completion")

    def event(self, event: Json) -> list[Json]:
        """Return a chunk with pieces of the one choice that is kept."""
        choices = _objects(event.get("choices"))
        if not choices:
            return [_plain_envelope(event, "chat.completion.chunk")] if "usage" in event else [event]
        if self._choice is None:
            self._choice = min(map(_index, choices))
        kept = [_plain_piece(one) for one in choices if _index(one) == self._choice]
        return [_plain_envelope({**event, "choices": kept}, "chat.completion.chunk")]


def _plain_envelope(answer: Json, kind: str) -> Json:
    """Return an answer of chat completions without a usage that cannot be read, and with its kind."""
    answer = {**answer, "object": kind}
    if not _is_readable("CompletionUsage", answer.get("usage")):
        del answer["usage"]
    for key, usual in (("created", 0), ("model", ""), ("id", "")):
        if key in answer and not isinstance(answer[key], type(usual)):
            answer[key] = usual
    return _with_time(answer, "created")


_TIME = TypeAdapter(datetime)


def _with_time(answer: Json, key: str) -> Json:
    """Return an answer; a time of it that is none before the year 10000 is left out, which libraries write as 0."""
    try:
        _TIME.validate_python(answer.get(key) or 0)
    except ValidationError:
        return {**answer, key: 0}
    return answer


def _plain_choice(choice: Json) -> Json:
    """Return a choice without log probabilities that cannot be read, of which nothing of the answer is made."""
    choice = _with_text(choice, "finish_reason")
    return choice if _is_readable("ChoiceLogprobs", choice.get("logprobs")) else {**choice, "logprobs": None}


def _plain_piece(choice: Json) -> Json:
    kept = {**_plain_choice(choice), "index": _index(choice)}
    delta = kept.get("delta")
    if isinstance(delta, dict) and "tool_calls" in delta:
        calls: Any = _object(delta)["tool_calls"]
        pieces = [_call_piece(call) for call in _objects(calls)] if isinstance(calls, list) else None
        kept["delta"] = {**_object(delta), "tool_calls": pieces}
    return kept


def _chat_call(call: Json) -> Json:
    function = _object(call.get("function"))
    arguments = function.get("arguments")
    text = "{}" if arguments is None else arguments if isinstance(arguments, str) else json.dumps(arguments)
    kind = call.get("type") or "function"
    return {**call, "id": _text(call.get("id")), "type": kind, "function": {**function, "arguments": text}}


def _call_piece(call: Json) -> Json:
    """Return a piece of a call: what is missing there stands in another piece."""
    made = dict(call)
    if not isinstance(made.get("id"), str | None):
        made["id"] = _text(made["id"])
    function = _object(made.get("function"))
    if not isinstance(function.get("arguments"), str | None):
        made["function"] = {**function, "arguments": json.dumps(function["arguments"])}
    return made


class AnthropicRepairs:
    """Repairs of one answer of Anthropic's messages."""

    def __init__(self) -> None:
        self._unknown: set[Any] = set()
        """Places of blocks that are left out."""

    def whole(self, body: Json) -> Json:
        """Return an answer in one piece with an id for each call, and without blocks that the library does not know."""
        blocks = body.get("content")
        if not isinstance(blocks, list):
            return body
        kept = [self._block(one, place) for place, one in enumerate(_objects(cast("Any", blocks)))]
        body = _with_text(body, "stop_reason")
        return _with_usage({**body, "content": [one for one in kept if one is not None]})

    def event(self, event: Json) -> list[Json]:
        """Return the event; nothing in the place of one of a block that the library does not know."""
        kind, place = event.get("type"), event.get("index")
        if kind == "message_start":
            return [{**event, "message": _with_usage(_object(event.get("message")))}]
        if kind == "message_delta":
            return [{**event, "delta": _with_text(_object(event.get("delta")), "stop_reason")}]
        if kind == "content_block_start":
            block = self._block(_object(event.get("content_block")), place)
            if block is None:
                self._unknown.add(place)
                return []
            return [{**event, "content_block": block}]
        is_of_block = kind in ("content_block_delta", "content_block_stop")
        return [] if is_of_block and place in self._unknown else [event]

    def _block(self, block: Json, place: Any) -> Json | None:
        kind = block.get("type")
        if kind not in _known_blocks():
            return None
        if kind == "text" and block.get("text") is None:
            return {**block, "text": ""}
        if kind == "tool_use":
            own, given = _text(block.get("id")) or f"toolu_{place}", block.get("input")
            return {**block, "id": own, "input": {} if given is None else given}
        return block


class GoogleRepairs:
    """Repairs of one answer of Google."""

    def whole(self, body: Json) -> Json:
        """Return an answer whose parts the library knows, and whose calls have arguments that are objects."""
        candidates = [self._candidate(one) for one in _objects(body.get("candidates"))]
        made = {**body, "candidates": candidates} if candidates else dict(body)
        for key in ("modelVersion", "responseId"):
            made = _with_text(made, key)
        usage = made.get("usageMetadata")
        if usage is not None and not _is_readable("GenerateContentResponseUsageMetadata", usage):
            del made["usageMetadata"]
        return made

    def event(self, event: Json) -> list[Json]:
        """Return the piece of a stream, which has the form of an answer."""
        return [self.whole(event)]

    def _candidate(self, candidate: Json) -> Json:
        candidate = _with_text(candidate, "finishReason")
        content = _object(candidate.get("content"))
        parts = content.get("parts")
        if not isinstance(parts, list):
            return candidate
        kept = [_google_part(one) for one in _objects(cast("Any", parts)) if not _known_parts().isdisjoint(one)]
        return {**candidate, "content": {**content, "parts": kept}}


def _google_part(part: Json) -> Json:
    call = _object(part.get("functionCall"))
    given = call.get("args")
    read = _read(given.encode()) if isinstance(given, str) else None
    return {**part, "functionCall": {**call, "args": read}} if read or given == "{}" else part


class ResponseRepairs:
    """Repairs of one answer of responses."""

    def __init__(self) -> None:
        self._ids: dict[Any, str] = {}
        """Ids of the items that are open, by their place."""
        self._used: set[str] = set()
        self._texts: dict[tuple[Any, Any], list[str]] = {}
        """Text of deltas, by the places of an item and of its content."""
        self._said: list[str] = []

    def whole(self, body: Json) -> Json:
        """Return an answer in one piece without items that the library does not know."""
        items = [one for one in _objects(body.get("output")) if one.get("type") in _known_items()]
        body = _with_time(body, "created_at")
        # One that is incomplete for no known reason counts as cut for its length.
        response = {**body, "output": items} if isinstance(body.get("output"), list) else body
        if response.get("status") != "incomplete":
            return response
        details = _object(response.get("incomplete_details"))
        given = details.get("reason")
        reason = given if isinstance(given, str) else ""
        if meaning(reason) in ("length", "content_filter"):
            return response
        return {**response, "incomplete_details": {**details, "reason": f"length {reason}".strip()}}

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
        if "response" in event:
            event = {**event, "response": _with_time(_object(event["response"]), "created_at")}
        return [event]

    def _item(self, event: Json, kind: str, place: Any) -> list[Json]:
        item = _object(event.get("item"))
        if not item:
            return [event]
        if kind == "response.output_item.added" or place not in self._ids:
            given = item.get("id")
            prefix = _PREFIXES.get(str(item.get("type")), "fc")
            own = given if isinstance(given, str) and given else f"{prefix}_{len(self._used)}"
            number = 1
            while own in self._used:
                number += 1
                own = f"{given or prefix}_{number}"
            self._used.add(own)
            self._ids[place] = own
            self._texts = {key: text for key, text in self._texts.items() if key[0] != place}
        event = {**event, "item": {**item, "id": self._ids[place]}}
        return [*(self._missing(event, item) if kind == "response.output_item.done" else ()), event]

    def _missing(self, event: Json, item: Json) -> Iterator[Json]:
        if item.get("type") == "message":
            for number, part in enumerate(_objects(item.get("content"))):
                yield from self._rest(event, self._ids.get(event.get("output_index")), number, part.get("text"))

    def _rest(self, event: Json, item: Any, content: Any, text: Any) -> Iterator[Json]:
        """Yield a delta with the end of a text that has come as a whole, where its deltas were its beginning."""
        place = event.get("output_index")
        had = "".join(self._texts.get((place, content), ()))
        if not isinstance(text, str) or not text.startswith(had) or text == had:
            return
        if not had and text in "".join(self._said):
            return
        rest = text[len(had) :]
        self._add(place, content, rest)
        at: Json = {"output_index": place, "content_index": content, "sequence_number": event.get("sequence_number", 0)}
        yield {"type": _TEXT_DELTA, "item_id": item or "msg_0", **at, "delta": rest, "logprobs": []}

    def _add(self, place: Any, content: Any, text: str) -> None:
        self._texts.setdefault((place, content), []).append(text)
        self._said.append(text)

    def _end(self, event: Json) -> list[Json]:
        whole = self.whole(_object(event.get("response")))
        found: list[Json] = []
        if not self._said:
            for place, item in enumerate(_objects(whole.get("output"))):
                self._ids.setdefault(place, str(item.get("id") or f"msg_{place}"))
                found += self._missing({**event, "output_index": place}, item)
        return [*found, {**event, "response": whole}]


_PATHS: Mapping[str, Callable[[], Repairs]] = {
    "/chat/completions": ChatRepairs,
    "/responses": ResponseRepairs,
    "/messages": AnthropicRepairs,
    ":generateContent": GoogleRepairs,
    ":streamGenerateContent": GoogleRepairs,
}


def repairs_of(path: str) -> Repairs | None:
    """Return the repairs of an answer to a request at this path; None: it is of another protocol."""
    return next((kind() for end, kind in _PATHS.items() if path.endswith(end)), None)


def repaired_body(repairs: Repairs, data: bytes) -> bytes:
    """Return an answer in one piece as the library can read it; also a stream that does not call itself one."""
    text = in_utf8(data)
    body = _read(text)
    if not body:
        reader = EventReader()
        return _written(repairs, (*reader.read(data), *reader.rest())) if data.startswith(_EVENT_FIELDS) else data
    made = repairs.whole(body)
    return text if made == body else json.dumps(made).encode()


async def repaired_events(repairs: Repairs, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield a stream of events as the library can read them, in whole events."""
    reader = EventReader()
    async for piece in pieces:
        if written := _written(repairs, reader.read(piece)):
            yield written
    if written := _written(repairs, reader.rest()):
        yield written


def _written(repairs: Repairs, events: Iterable[ServerEvent | bytes]) -> bytes:
    return b"".join(one if isinstance(one, bytes) else _repaired_event(repairs, one) for one in events)


def _repaired_event(repairs: Repairs, event: ServerEvent) -> bytes:
    if isinstance(repairs, GoogleRepairs) and event.data.strip() == b"[DONE]":
        # Gateways end all their streams as OpenAI does.
        return b""
    given = _read(event.data)
    made = repairs.event(given) if given else [given]
    if made == [given]:
        return event.written()
    return b"".join(replace(event, data=json.dumps(one).encode()).written() for one in made)


def _read(data: bytes) -> Json:
    """Return a JSON object, also one with half a character in a text; empty for anything else."""
    try:
        return _object(from_json(data))
    except ValueError:
        pass
    try:
        return _object(json.loads(data))
    except (ValueError, RecursionError):
        return {}


@cache
def _known_items() -> frozenset[str]:
    from openai.types.responses import ResponseOutputItem

    return _types_in(ResponseOutputItem)


@cache
def _known_blocks() -> frozenset[str]:
    from anthropic.types.beta import BetaContentBlock

    return _types_in(BetaContentBlock)


def _types_in(union: Any) -> frozenset[str]:
    """Return the values of the field `type` of the classes in an annotated union."""
    kinds = get_args(get_args(union)[0])
    return frozenset(name for kind in kinds for name in get_args(kind.model_fields["type"].annotation))


@cache
def _known_parts() -> frozenset[str]:
    from google.genai.types import Part

    return frozenset(name for field, info in Part.model_fields.items() for name in (field, info.alias or field))


@cache
def _model_named(name: str) -> type[BaseModel]:
    if name == "CompletionUsage":
        from openai.types import CompletionUsage as Kind
    elif name == "ChoiceLogprobs":
        from openai.types.chat.chat_completion import ChoiceLogprobs as Kind
    else:
        from google.genai.types import GenerateContentResponseUsageMetadata as Kind
    return Kind


def _is_readable(name: str, value: Any) -> bool:
    """Return whether a library can read a part of an answer as its class of this name. None is readable."""
    if value is None:
        return True
    try:
        _model_named(name).model_validate(value)
    except ValidationError:
        return False
    return True


def _with_usage(message: Json) -> Json:
    """Return a message of Anthropic; one without a usage that can be read counts no tokens."""
    usage = _object(message.get("usage"))
    keys = ("input_tokens", "output_tokens")
    counted = {key: usage[key] if isinstance(usage.get(key), int) else 0 for key in keys}
    return message if usage == {**usage, **counted} and usage else {**message, "usage": {**usage, **counted}}


def _with_text(given: Json, key: str) -> Json:
    """Return an object whose value at this key is a text or None, whatever a server sends there."""
    value = given.get(key)
    return given if isinstance(value, str | None) else {**given, key: json.dumps(value)}


def _text(given: Any) -> str:
    """Return an id as a text; empty for none."""
    return "" if given is None or isinstance(given, dict | list) else str(given)


def _index(choice: Json) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _object(given: Any) -> Json:
    return cast("Json", given) if isinstance(given, dict) else {}


def _objects(given: Any) -> list[Json]:
    """Return the objects of a list; none of anything else."""
    items = cast("list[Any]", given) if isinstance(given, list) else []
    return [_object(one) for one in items if isinstance(one, dict)]
