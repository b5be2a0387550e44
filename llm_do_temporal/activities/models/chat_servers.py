"""Models that speak chat completions, as their servers and gateways really are.

Owns the class of such a model: its profile says what chat templates take, and it makes three repairs on the pieces of a
stream, because nothing can tell them apart once an adapter has put them together: an end without a finish reason,
calls that share one index, thinking tags cut in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, cast

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponseStreamEvent
from pydantic_ai.models import Model
from pydantic_ai.profiles import DEFAULT_THINKING_TAGS
from pydantic_core import from_json

from llm_do_temporal.activities.models.openai_requests import template_profile


class StreamCut(UnexpectedModelBehavior):
    """A stream that ended before its answer did: what came of it is not a whole answer."""

    def __init__(self) -> None:
        super().__init__("the stream ended before the answer did: it has no finish reason")


def careful_model(model: Model) -> Model:
    """The model, of such a class if it speaks chat completions through OpenAI's library."""
    from pydantic_ai.models.openai import OpenAIChatModel

    if isinstance(model, OpenAIChatModel):
        # The class of a stream is a property of the class of the model, which each provider may have replaced.
        cast("Any", model).__class__ = _careful_model(type(model))
        vars(model).pop("profile", None)  # it was looked up with the class before
    return model


@cache
def _careful_model(kind: Any) -> type[Any]:
    """A model class like `kind`."""

    class CarefulModel(kind):  # pyright: ignore[reportUntypedBaseClass]
        @cached_property
        def profile(self) -> Any:
            """See Model."""
            return template_profile(super().profile, self._provider)  # pyright: ignore[reportUnknownArgumentType]

        @property
        def _streamed_response_cls(self) -> type[Any]:
            return _careful_stream(super()._streamed_response_cls)  # pyright: ignore[reportUnknownArgumentType]

    return CarefulModel


@cache
def _careful_stream(kind: type[Any]) -> type[Any]:
    """A stream class like `kind`."""
    from pydantic_ai.models.openai import OpenAIStreamedResponse

    # A provider's own class knows that this provider never sends a finish reason.
    knows_better = kind._missing_finish_reason is not OpenAIStreamedResponse._missing_finish_reason  # pyright: ignore[reportPrivateUsage]

    class CarefulStream(kind):
        def _missing_finish_reason(self) -> Any:
            if knows_better:
                return super()._missing_finish_reason()  # pyright: ignore[reportUnknownVariableType]
            raise StreamCut

        def _map_tool_call_delta(self, choice: Any) -> Iterable[ModelResponseStreamEvent]:
            if "_llm_do_calls" not in vars(self):
                self._llm_do_calls = CallPieces()
            for piece in choice.delta.tool_calls or ():
                self._llm_do_calls.place(piece)
            return super()._map_tool_call_delta(choice)  # pyright: ignore[reportUnknownVariableType]

        def _map_text_delta(self, choice: Any) -> Iterator[ModelResponseStreamEvent]:
            if not isinstance(choice.delta.content, str):
                yield from super()._map_text_delta(choice)
                return
            for text in self._tags().take(choice.delta.content, is_last=bool(choice.finish_reason)):
                choice.delta.content = text
                yield from super()._map_text_delta(choice)

        def _flush_pending_chat_annotations(self) -> Iterator[ModelResponseStreamEvent]:
            yield from self._parts_of(self._tags().rest())
            yield from super()._flush_pending_chat_annotations()

        def _tags(self) -> TagPieces:
            if "_llm_do_tags" not in vars(self):
                self._llm_do_tags = TagPieces(self._model_profile.get("thinking_tags", DEFAULT_THINKING_TAGS))
            return self._llm_do_tags

        def _parts_of(self, text: str) -> Iterator[ModelResponseStreamEvent]:
            """Yield the events of a text that was held back until the stream's end."""
            from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta

            if text:
                yield from super()._map_text_delta(Choice(delta=ChoiceDelta(content=text), index=0))

    return CarefulStream


@dataclass
class _Call:
    index: int
    id: str
    name: str
    written: str = ""
    again: tuple[str, str] | None = None
    """Id and name that came a second time once the arguments were whole: perhaps those of another call."""


@dataclass
class CallPieces:
    """Tool calls of a stream, told apart where a server gives several of them one index."""

    _newest: dict[int | None, _Call] = field(default_factory=dict[int | None, _Call])
    """The call that the next piece with this index belongs to."""
    _used: set[int] = field(default_factory=set[int])

    def place(self, piece: Any) -> None:
        """Give a piece the index of its call, and leave out a name that is only repeated. Changes the piece."""
        function = piece.function
        name = (function.name if function is not None else None) or ""
        written = (function.arguments if function is not None else None) or ""
        call = self._newest.get(piece.index)
        if call is None or self._is_next(call, piece.id or "", name):
            call = self._begin(piece.index, piece.id or "", name)
        elif name:
            name = self._continued(call, piece, name)
        if written.strip() and call.again is not None and _is_whole(call.written):
            piece.id, name = call.again
            call = self._begin(piece.index, piece.id, name)
        call.written += written
        piece.index = call.index
        if function is not None:
            function.name = name or None

    def _begin(self, index: int | None, id_: str, name: str) -> _Call:
        own = index if index is not None and index not in self._used else max(self._used, default=-1) + 1
        self._used.add(own)
        call = self._newest[index] = _Call(own, id_, name)
        return call

    def _is_next(self, call: _Call, id_: str, name: str) -> bool:
        """Whether a piece with this id and name begins another call.

        An id alone says nothing: some servers make up a new one for each piece."""
        if not name:
            return False
        if id_ and call.id and id_ != call.id:
            return bool(call.written) or name != call.name
        return bool(call.written) and name != call.name

    def _continued(self, call: _Call, piece: Any, name: str) -> str:
        """Return what a name in a later piece of a call adds to the name: nothing where it is the same one again."""
        if _is_whole(call.written):
            call.again = (piece.id or "", name)
        if name == call.name or call.written:
            return ""
        call.name += name
        return name


def _is_whole(written: str) -> bool:
    """Whether the arguments are a JSON object already."""
    try:
        return isinstance(from_json(written), dict)
    except ValueError:
        return False


@dataclass
class TagPieces:
    """Text of a stream, cut so that each thinking tag is a piece of its own.

    An opening tag counts at the beginning of the text alone: elsewhere a model writes about it."""

    tags: tuple[str, str]
    """Opening and closing tag."""
    _held: str = ""
    _is_answer: bool = False
    _thinks: bool = False

    def take(self, text: str, *, is_last: bool) -> Iterator[str]:
        """Yield the pieces that are certain; with `is_last` all of them."""
        text, self._held = self._held + text, ""
        while text:
            size = len(text) if self._is_answer else self._certain(text, is_last=is_last)
            if not size:
                self._held = text
                return
            yield text[:size]
            text = text[size:]

    def _certain(self, text: str, *, is_last: bool) -> int:
        """Return the length of the next piece: a tag, or what stands before one; 0: more has to come first."""
        tag = self.tags[self._thinks]
        if self._thinks:
            place = text.find(tag)
            if place < 0:
                return len(text) if is_last else len(text) - _beginning(text, tag)
            if place > 0:
                return place
        elif not text.lstrip().startswith(tag):
            if tag.startswith(text.lstrip()) and not is_last:
                return 0
            self._is_answer = True
            return len(text)
        elif not text.startswith(tag):
            return text.index(tag)
        self._thinks = not self._thinks
        return len(tag)

    def rest(self) -> str:
        """Return what is still held back, once."""
        text, self._held = self._held, ""
        return text


def _beginning(text: str, tag: str) -> int:
    """Return how many characters at the end of a text may be the beginning of the tag."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)
