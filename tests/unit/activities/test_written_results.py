"""Results that a model wrote as text instead of calling the tool that takes them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from llm_do_temporal.activities.models.written_results import with_result

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"points": {"type": "integer"}},
    "required": ["points"],
    "additionalProperties": False,
}
RESULT = ToolDefinition(name="final_result", parameters_json_schema=SCHEMA)
ASKED = ModelRequestParameters(output_tools=[RESULT], allow_text_output=False)


def calls(*parts: ModelResponsePart, asked: ModelRequestParameters = ASKED) -> list[Any]:
    answer = with_result(ModelResponse(parts=list(parts)), asked)
    assert answer.parts[: len(parts)] == list(parts), "what the model wrote stays"
    return [part.args for part in answer.parts[len(parts) :] if isinstance(part, ToolCallPart)]


@pytest.mark.parametrize(
    "text",
    [
        '{"points": 4}',
        ' \n{"points": 4}\n',
        '```json\n{"points": 4}\n```',
        'Here you are:\n\n```\n{\n  "points": 4\n}\n```\nAnything else?',
        'The result is {"points": 4}. Good luck!',
        # the same twice is one; what does not fit is none
        '```json\n{"points": 4}\n```\n```json\n{"points": 4}\n```',
        '```json\n{"score": 9}\n```\n```json\n{"points": 4}\n```',
    ],
)
def test_one_object_that_fits_is_the_result(text: str) -> None:
    assert calls(ThinkingPart("hm"), TextPart(text)) == [{"points": 4}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would say four points.",
        '{"points": "many"}',
        '{"points": 4, "why": "because"}',
        '[{"points": 4}]',
        '{"points": 4',
        '{"points": NaN}',
        '{"points": 4} or {"points": 5}',
        # which of two is meant nobody knows
        '```json\n{"points": 4}\n```\n```json\n{"points": 5}\n```',
        "{" * 100_000,
    ],
)
def test_anything_else_is_left_to_be_asked_for_again(text: str) -> None:
    assert calls(TextPart(text)) == []


def test_an_answer_that_calls_something_or_may_be_text_is_what_it_is() -> None:
    text = TextPart('{"points": 4}')
    assert calls(text, ToolCallPart("read_file", {})) == []
    assert calls(text, asked=ModelRequestParameters()) == []
    assert calls(text, asked=ModelRequestParameters(output_tools=[RESULT], allow_text_output=True)) == []
