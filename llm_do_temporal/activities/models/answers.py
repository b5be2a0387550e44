"""Form of a model's answer before it enters a history.

Called by the wrapper that sends model turns. An answer that cannot be kept would be asked for again and
again, at full price; so half characters are replaced, and a tool call that is too large becomes one that
says so, which the gate refuses with a text for the model.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, ModelResponsePart, ToolCallPart
from pydantic_core import PydanticSerializationError

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.sizes import MAX_ANSWER_BYTES, MAX_CALL_BYTES, OVERSIZED
from llm_do_temporal.policy.files.encodings import whole_characters
from llm_do_temporal.policy.models import CUT, cut_reason

_TEXTS = ("args", "content", "tool_name", "tool_call_id", "id", "signature", "provider_details")
"""Fields of parts that a provider fills in."""
_NAMES = ("model_name", "provider_response_id")
"""Fields of an answer that are a text or None, whatever a server sends there."""
_NAME_CHARS = 500
"""Longest such text that is kept."""


def with_whole_characters(answer: ModelResponse) -> ModelResponse:
    """Return the answer without half a character, which many functions that read a text do not take."""
    details = whole_value(answer.provider_details)
    return replace(answer, parts=[_whole_part(part) for part in answer.parts], provider_details=details)


def _whole_part(part: ModelResponsePart) -> ModelResponsePart:
    return replace(part, **{name: whole_value(getattr(part, name)) for name in _TEXTS if hasattr(part, name)})


def storable(answer: ModelResponse, *, whole: Collection[str] = ()) -> ModelResponse:
    """Return the answer as a history can hold it; calls of the tools `whole` may be as large as the whole answer.

    Raises ModelFailed for an answer that no history can hold, UnexpectedModelBehavior for one that no workflow reads.
    """
    answer = replace(answer, **{name: _short(getattr(answer, name)) for name in _NAMES})
    kept = _dumped(answer)
    if len(kept) > MAX_CALL_BYTES:
        answer = replace(answer, parts=_shortened(answer.parts, whole))
        kept = _dumped(answer)
    if len(kept) > MAX_ANSWER_BYTES:
        raise ModelFailed(f"the model's answer has {len(kept)} bytes; at most {MAX_ANSWER_BYTES} can be kept")
    try:
        # A workflow that cannot read an answer stands still.
        ModelMessagesTypeAdapter.validate_json(kept)
    except ValueError as error:
        raise UnexpectedModelBehavior(f"it cannot be read once it is kept: {error}") from error
    return answer


def without_half_call(answer: ModelResponse) -> ModelResponse:
    """Return the answer, with a call in which it was cut made into one that is not carried out.

    Its arguments may be JSON all the same: some servers close the brackets, and some leave out all of them.
    """
    reason, last = cut_reason(answer.finish_reason), answer.parts[-1] if answer.parts else None
    if reason is None or not isinstance(last, ToolCallPart):
        return answer
    return replace(answer, parts=[*answer.parts[:-1], replace(last, args={CUT: reason})])


def _dumped(answer: ModelResponse) -> bytes:
    try:
        return ModelMessagesTypeAdapter.dump_json([answer], warnings=False)
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


def _short(name: Any) -> str | None:
    """Return a name that a server sent as a text; None for anything that is none."""
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    return whole_value(name)[:_NAME_CHARS] if isinstance(name, str) else None


def whole_value(value: Any) -> Any:
    """The value with the halves of a character that follow each other joined, and every other half replaced."""
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {whole_value(key): whole_value(inner) for key, inner in items}
    if isinstance(value, list):
        return [whole_value(inner) for inner in cast("list[Any]", value)]
    return value
