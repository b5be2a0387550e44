"""Asks a model, and tells the server the end of its answer while it is written.

The answer is streamed from the provider and put together here, so the workflow gets it as a whole. Its end goes out as
details of heartbeats: they cost the history nothing, and the next attempt begins without them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import datetime
from math import inf
from typing import Literal

from pydantic_ai.exceptions import ModelRequestRejectedError, UnexpectedModelBehavior
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
from temporalio import activity

from llm_do_temporal.activities.models.answer_bounds import MAX_STREAMED_CHARS, AnswerTooLarge
from llm_do_temporal.activities.models.answers import whole_characters
from llm_do_temporal.activities.models.builder import shown_name
from llm_do_temporal.activities.models.chat_servers import StreamCut
from llm_do_temporal.messages.conversation import LiveText
from llm_do_temporal.messages.sizes import LIVE_TEXT_CHARS
from llm_do_temporal.redaction.configured_keys import remove_keys

BEAT_SECONDS = 0.2
"""Shortest time between two heartbeats with a tail that has grown."""
MOST_BEATS_A_SECOND = 50
"""Most heartbeats of one process, as each is a write in Temporal's database: of many turns, each beats less often."""
_STREAM = "stream"
"""Word in the refusal of a server that cannot stream."""

_log = logging.getLogger(__name__)
_WHOLE_UNTIL = "llm_do_whole_until"
"""Attribute of a model whose server does not stream, as an earlier turn has found: the time until which it is asked for
whole answers, in seconds of the monotonic clock."""
_BROKEN_SECONDS = 600.0
"""Time for which a server is asked for whole answers after a stream that broke while a whole answer did not."""
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
        text = remove_keys(whole_characters(written))
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
    return call.args_as_json_str() if call.args else ""


async def ask(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters,
) -> ModelResponse:
    """Return the model's answer, and beat with its end while it is written; call it in an activity.

    A stream that cannot be read, or that ends before its answer does, is asked again as a whole at once. A server that
    does not stream is asked for whole answers from then on, until it refuses those. A model without a provider plays a
    script, and is asked for a whole answer. Raises like the model.
    """
    if model.provider is None:
        return await model.request(messages, settings, parameters)
    if getattr(model, _WHOLE_UNTIL, 0.0) > time.monotonic():
        return await _whole(model, messages, settings, parameters)
    try:
        answer = await _streamed(model, messages, settings, parameters)
    except NotImplementedError:
        _note(model, "its library cannot")
    except ModelRequestRejectedError as error:
        if not _is_about_streams(error):
            raise
        _note(model, error.message)
    except UnexpectedModelBehavior as error:
        return await _instead(error, model, messages, settings, parameters)
    else:
        if answer.usage.unmeasured_requests:
            _note(model, "it says nothing of the tokens used")
        return answer
    return await model.request(messages, settings, parameters)


async def _whole(
    model: Model, messages: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
) -> ModelResponse:
    """Return the answer of a model whose server did not stream before; as a stream where it refuses anything else."""
    try:
        return await model.request(messages, settings, parameters)
    except ModelRequestRejectedError as error:
        if not _is_about_streams(error):
            raise
        _log.warning("answers of model %s are streamed again: %s", shown_name(model), error.message)
        setattr(model, _WHOLE_UNTIL, 0.0)
    return await _streamed(model, messages, settings, parameters)


async def _instead(
    broken: UnexpectedModelBehavior,
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters,
) -> ModelResponse:
    """Return the whole answer in place of a stream that broke. Raises what broke it where a whole one is refused."""
    _log.warning("a stream of model %s broke, its answer is asked for as a whole: %s", shown_name(model), broken)
    try:
        answer = await model.request(messages, settings, parameters)
    except ModelRequestRejectedError:
        # It only streams: the next attempt is a stream again.
        raise broken from None
    except UnexpectedModelBehavior:
        _note(model, f"for {_BROKEN_SECONDS:g} s", seconds=_BROKEN_SECONDS)
        raise
    if not isinstance(broken, StreamCut):
        _note(model, f"for {_BROKEN_SECONDS:g} s", seconds=_BROKEN_SECONDS)
    return answer


def _is_about_streams(error: ModelRequestRejectedError) -> bool:
    return _STREAM in f"{error.message} {error.body}".lower()


async def _streamed(
    model: Model, messages: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
) -> ModelResponse:
    tail = AnswerTail(activity.info().attempt, activity.info().scheduled_time)
    telling = asyncio.create_task(_tell(tail))
    _telling.add(telling)
    telling.add_done_callback(_telling.discard)
    try:
        async with model.request_stream(messages, settings, parameters) as stream:
            try:
                async for event in stream:
                    tail.take(event)
                    if tail.chars > MAX_STREAMED_CHARS:
                        raise AnswerTooLarge
            except ValueError as error:
                raise UnexpectedModelBehavior(f"the stream cannot be read: {error}") from error
            answer = stream.get()
    finally:
        telling.cancel()
    if not has_end(answer):
        # Whatever came is not a whole answer, or nobody can tell.
        raise StreamCut
    return answer


def has_end(answer: ModelResponse) -> bool:
    """Whether an answer says why it ended. A reason that no library knows is one."""
    return answer.finish_reason is not None or bool((answer.provider_details or {}).get("finish_reason"))


async def _tell(tail: AnswerTail) -> None:
    told = 0
    while True:
        await asyncio.sleep(max(BEAT_SECONDS, len(_telling) / MOST_BEATS_A_SECOND))
        if tail.chars != told:
            told = tail.chars
            activity.heartbeat(tail.live_text())


def _note(model: Model, why: str, *, seconds: float = inf) -> None:
    _log.warning("answers of model %s are not streamed any more: %s", shown_name(model), why)
    setattr(model, _WHOLE_UNTIL, time.monotonic() + seconds)
