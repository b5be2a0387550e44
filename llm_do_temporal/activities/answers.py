"""What a model's answer must be before it enters a history, which carries at most 2 MiB a value.

Called by the wrapper that sends model turns. An answer that Temporal cannot carry would be asked for again
and again, at full price; so half characters are replaced, and a tool call that is too large becomes one that
says so, which the gate refuses with a text for the model.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai.messages import ModelResponse, ModelResponsePart, ToolCallPart
from pydantic_core import PydanticSerializationError

from llm_do_temporal.errors import ModelFailed

MAX_CALL_BYTES = 256 * 1024
"""Arguments of one tool call, as JSON. They travel several times together: in the question for a person beside
their diff, in the decision, in the activity."""
MAX_ANSWER_BYTES = 1024 * 1024
"""One answer of a model: half of what Temporal carries, so that what a turn sets off fits one message too."""
OVERSIZED = "llm_do_oversized_bytes"
"""The only argument of a call whose real arguments were too large to keep: their size."""

_ANSWER = TypeAdapter(ModelResponse)


def storable(answer: ModelResponse, *, whole: Collection[str] = ()) -> ModelResponse:
    """The answer as a history can hold it; calls of the tools `whole` may be as large as all of it.

    Raises ModelFailed for one that no history can hold.
    """
    answer = replace(answer, parts=[_clean(part) for part in answer.parts])
    size = _size(answer)
    if size > MAX_CALL_BYTES:
        parts = [part if _is_whole(part, whole) else _shortened(part) for part in answer.parts]
        answer = replace(answer, parts=parts)
        size = _size(answer)
    if size > MAX_ANSWER_BYTES:
        raise ModelFailed(f"the model's answer has {size} bytes; at most {MAX_ANSWER_BYTES} can be kept")
    return answer


def _size(answer: ModelResponse) -> int:
    try:
        return len(_ANSWER.dump_json(answer))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ModelFailed(f"the model's answer cannot be kept: {error}") from error


def _is_whole(part: ModelResponsePart, whole: Collection[str]) -> bool:
    return not isinstance(part, ToolCallPart) or part.tool_name in whole


def _shortened(part: ModelResponsePart) -> ModelResponsePart:
    assert isinstance(part, ToolCallPart)
    text = part.args if isinstance(part.args, str) else part.args_as_json_str()
    size = len(text.encode())
    return replace(part, args={OVERSIZED: size}) if size > MAX_CALL_BYTES else part


def _clean(part: ModelResponsePart) -> ModelResponsePart:
    texts = {name: _whole_characters(getattr(part, name)) for name in ("args", "content") if hasattr(part, name)}
    return replace(part, **texts)


def _whole_characters(value: Any) -> Any:
    """The value with every half character (a lone surrogate, which no UTF-8 can hold) replaced."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {_whole_characters(key): _whole_characters(inner) for key, inner in items}
    if isinstance(value, list):
        return [_whole_characters(inner) for inner in cast("list[Any]", value)]
    return value
