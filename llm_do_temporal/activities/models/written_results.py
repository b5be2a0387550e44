"""Results that a model wrote as text, where it was to call the tool that takes them.

Called by the wrapper that sends model turns, so what comes of it is what the history holds. The text stays; the call is
added to it. What is no JSON, or does not fit the schema, is left to be asked for again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_core import from_json

from llm_do_temporal.json_schema import schema_problems

_FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_NONE = object()
_MOST_BLOCKS = 20
"""Code blocks of one answer that are looked at."""


def with_result(answer: ModelResponse, parameters: ModelRequestParameters) -> ModelResponse:
    """Return the answer, with a call of its result's tool if it calls nothing and one JSON object in its text fits."""
    if len(parameters.output_tools) != 1 or parameters.allow_text_output:
        return answer
    if any(isinstance(part, ToolCallPart) for part in answer.parts):
        return answer
    tool = parameters.output_tools[0]
    text = "".join(part.content for part in answer.parts if isinstance(part, TextPart))
    found: list[dict[str, Any]] = []
    for value in _objects(text):
        if value not in found and not schema_problems(tool.parameters_json_schema, value):
            found.append(value)
    if len(found) != 1:
        return answer
    return replace(answer, parts=[*answer.parts, ToolCallPart(tool.name, found[0])])


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Return the JSON objects of a text: all of it, else its code blocks, else the text from first to last brace."""
    whole = _read(text)
    if whole is not _NONE:
        pieces = [whole]
    else:
        blocks = (_read(block[1]) for _, block in zip(range(_MOST_BLOCKS), _FENCED.finditer(text), strict=False))
        pieces = [block for block in blocks if block is not _NONE]
    if not pieces:
        begin, end = text.find("{"), text.rfind("}")
        pieces = [_read(text[begin : end + 1])] if 0 <= begin < end else []
    yield from (cast("dict[str, Any]", piece) for piece in pieces if isinstance(piece, dict))


def _read(text: str) -> Any:
    """Return the value of a JSON text; _NONE for another text.

    NaN and infinities are read: the call that is made of them is refused with the reason.
    """
    try:
        return from_json(text.strip())
    except ValueError:
        return _NONE
