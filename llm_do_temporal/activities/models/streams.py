"""Requests to a model whose answer is streamed, and the end of the answer that people see while it is written.

The answer is put together here, so the workflow gets it as a whole. Its end is sent as details of heartbeats: they cost
the history nothing, and the next attempt begins without them. Adapters put the pieces of calls together by an index or
an item id. Some servers give several calls the same index, or repeat a call's name in each piece.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, ModelRequestRejectedError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_core import from_json
from temporalio import activity

from llm_do_temporal.activities.models.answers import NO_REASON, whole_value
from llm_do_temporal.activities.models.builder import shown_name
from llm_do_temporal.activities.models.failures import MAX_STREAMED_CHARS, AnswerTooLarge
from llm_do_temporal.messages.conversation import LiveText
from llm_do_temporal.messages.sizes import LIVE_TEXT_CHARS
from llm_do_temporal.redaction.configured_keys import remove_keys


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


Asked = tuple[list[ModelMessage], ModelSettings, ModelRequestParameters]
"""A whole request: messages, settings, tools."""
BEAT_SECONDS = 0.2
"""Shortest time between two heartbeats with a tail that has grown."""
MOST_BEATS_A_SECOND = 50
"""Most heartbeats of one process, as each is a write in Temporal's database: of many turns, each beats less often."""
_STREAM = "stream"
"""Word in the refusal of a server that cannot stream, or does nothing else."""
MOST_WHOLE_TURNS = 64
"""Most turns of a model without a stream before the next stream is tried."""

_log = logging.getLogger(__name__)
_PAUSE = "llm_do_stream_pause"
"""Attribute of a model with its `StreamPause`."""
_MADE_UP = (None, "stop", "tool_call")
"""Reasons for an answer's end that an adapter also gives where its provider has sent none."""
_telling: set[asyncio.Task[None]] = set()


class AnswerTail:
    """End of an answer that is being written."""

    def __init__(self, attempt: int, asked_at: datetime | None = None) -> None:
        self.chars = 0
        self._asked_at = asked_at
        self._said = self._part_chars = 0
        self._attempt = attempt
        self._text = ""
        self._part: Literal["text", "thinking", "tool-call"] = "text"

    def take(self, event: ModelResponseStreamEvent) -> None:
        """Take in the next event of the stream."""
        if isinstance(event, PartStartEvent):
            self._begin(event.part)
        elif isinstance(event, PartDeltaEvent):
            delta = event.delta
            if isinstance(delta, TextPartDelta | ThinkingPartDelta):
                self._add(delta.content_delta)
            elif isinstance(delta, ToolCallPartDelta):
                self._add(delta.args_delta)

    def live_text(self) -> LiveText:
        """Return the tail as a heartbeat carries it, without keys."""
        written = self._text[-LIVE_TEXT_CHARS:]
        text = remove_keys(whole_value(written))
        return LiveText(
            text=text,
            chars=self.chars,
            attempt=self._attempt,
            part=self._part,
            said=self._said,
            part_chars=min(self._part_chars, len(text)) if text == written else 0,
            asked_at=self._asked_at,
        )

    def _begin(self, part: ModelResponsePart) -> None:
        if isinstance(part, ToolCallPart):
            text, self._part = f"{part.tool_name} {_written(part)}", "tool-call"
        elif isinstance(part, TextPart | ThinkingPart):
            text, self._part = part.content, "text" if isinstance(part, TextPart) else "thinking"
        else:
            return
        if self.chars:
            self._append("\n\n")
        self._part_chars = 0
        self._add(text)

    def _add(self, text: object) -> None:
        if isinstance(text, str) and text:
            self._append(text)
            self._part_chars += len(text)
            self._said += len(text) if self._part == "text" else 0

    def _append(self, text: str) -> None:
        self.chars += len(text)
        self._text += text
        if len(self._text) > 2 * LIVE_TEXT_CHARS:
            self._text = self._text[-LIVE_TEXT_CHARS:]


def _written(call: ToolCallPart) -> str:
    """The arguments as far as they are written, which is seldom JSON yet."""
    if isinstance(call.args, str):
        return call.args
    return replace(call, args=whole_value(call.args)).args_as_json_str() if call.args else ""


@dataclass
class StreamPause:
    """Turns of one model that are asked for without a stream, after a stream that could not be used."""

    left: int = 0
    """Turns before the next stream."""
    length: int = 0
    """Turns of the last pause; each further stream that cannot be used doubles it."""
    streamed: int = 0
    """Turns that are streamed although they are wanted whole, as the server has refused a whole answer."""


async def ask(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters,
    *,
    live: bool = True,
) -> ModelResponse:
    """Return the model's answer; where `live`, beat with its end while it is written. Call it in an activity.

    Raises like the model. One without a provider plays a script; it is asked without a stream, like a server that has
    none. Where a stream cannot be used, the same turn is asked for without a stream: a whole answer has its own end.
    Where a server refuses the one form, the other is asked for, whatever is wanted.
    """
    asked = (messages, settings, parameters)
    if model.provider is None:
        return await model.request(*asked)
    pause = _pause_of(model)
    if pause.left or not (live or pause.streamed):
        pause.left = max(0, pause.left - 1)
        return await _whole(model, asked, live=live)
    pause.streamed = max(0, pause.streamed - 1)
    try:
        answer = await _streamed(model, asked, live=live)
    except NotImplementedError:
        pause_streams(model, "its library cannot", most=True)
    except ModelRequestRejectedError as error:
        if not _is_of_streams(error):
            raise
        pause_streams(model, error.message, most=True)
    except UnexpectedModelBehavior as error:
        pause_streams(model, error.message)
    else:
        if answer.usage.unmeasured_requests:
            pause_streams(model, "it says nothing of the tokens used")
        else:
            pause.length = 0
        return answer
    return await _whole(model, asked, live=live)


def pause_streams(model: Model, why: str, *, most: bool = False) -> None:
    """Ask for the next turns of a model without a stream: one turn, twice as many each further time, or the most."""
    pause = _pause_of(model)
    pause.length = MOST_WHOLE_TURNS if most else min(max(1, 2 * pause.length), MOST_WHOLE_TURNS)
    pause.left, pause.streamed = pause.length, 0
    turns = f"{pause.length} turn{'s' if pause.length > 1 else ''}"
    _log.warning("answers of model %s are not streamed for %s: %s", shown_name(model), turns, why)


def _pause_of(model: Model) -> StreamPause:
    pause = getattr(model, _PAUSE, None)
    if not isinstance(pause, StreamPause):
        pause = StreamPause()
        setattr(model, _PAUSE, pause)
    return pause


def _is_of_streams(error: ModelAPIError) -> bool:
    return _STREAM in f"{error.message} {error.body}".lower()


async def _whole(model: Model, asked: Asked, *, live: bool) -> ModelResponse:
    """Return an answer without a stream; with one where the server does nothing else."""
    try:
        return await model.request(*asked)
    except ModelHTTPError as error:
        is_refusal = isinstance(error, ModelRequestRejectedError) or error.status_code in (405, 501)
        if not is_refusal or not _is_of_streams(error):
            raise
    except UnexpectedModelBehavior:
        _pause_of(model).left = 0
        raise
    pause = _pause_of(model)
    pause.left, pause.streamed = 0, MOST_WHOLE_TURNS
    return await _streamed(model, asked, live=live)


async def _streamed(model: Model, asked: Asked, *, live: bool) -> ModelResponse:
    tail = AnswerTail(activity.info().attempt, activity.info().scheduled_time)
    calls = StreamedCalls()
    telling = asyncio.create_task(_tell(tail)) if live else None
    if telling is not None:
        _telling.add(telling)
        telling.add_done_callback(_telling.discard)
    try:
        async with model.request_stream(*asked) as stream:
            try:
                async for event in stream:
                    tail.take(event)
                    calls.take(event)
                    if tail.chars > MAX_STREAMED_CHARS:
                        raise AnswerTooLarge
            except ValueError as error:
                raise UnexpectedModelBehavior(f"the stream cannot be read: {error}") from error
            answer = stream.get()
    finally:
        if telling is not None:
            telling.cancel()
    if not has_end(answer):
        # Whatever came is no whole answer, or nobody can tell.
        raise UnexpectedModelBehavior("the stream ended before the answer did")
    return calls.parted(answer)


def has_end(answer: ModelResponse) -> bool:
    """Whether the provider has sent a reason for the end of a streamed answer."""
    sent = (answer.provider_details or {}).get("finish_reason")
    return sent not in NO_REASON or answer.finish_reason not in _MADE_UP


async def _tell(tail: AnswerTail) -> None:
    told = 0
    while True:
        await asyncio.sleep(max(BEAT_SECONDS, len(_telling) / MOST_BEATS_A_SECOND))
        if tail.chars != told:
            told = tail.chars
            activity.heartbeat(tail.live_text())
