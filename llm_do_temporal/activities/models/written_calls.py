"""Tool calls that a model wrote as text, because its server has no parser for the calls of that model.

Called by the wrapper that sends model turns. Such a text is no result, and is not carried out either: it may be quoted
from a file. So the turn is asked for again, and fails with what to change at the server.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, cast

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import BaseToolCallPart, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_core import from_json

_BEGIN = re.compile(
    r"<tool_calls?>|<\|?tool_call(s?_section_begin|s?_begin|_start)?\|>|\[TOOL_CALLS\]|<\|python_tag\|>|<function=\w"
    r"|<\uff5ctool▁calls?▁begin\uff5c>|<\|channel\|>commentary to=|<function_calls>|<invoke name=|```tool_(code|call)\b"
)
"""Marks with which chat templates begin a call."""
_WORD = re.compile(r"\w+")
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.DOTALL)
_SEARCHED_CHARS = 400
"""Characters after a mark in which the tool is named."""
_KEYS = ({"name", "arguments"}, {"name", "parameters"})
"""Keys of a call that is written as an object of JSON."""


def refuse_written_calls(answer: ModelResponse, parameters: ModelRequestParameters) -> None:
    """Raise UnexpectedModelBehavior for an answer whose text begins or ends with a call of an offered tool.

    A text that quotes the marks of a call between other words is a text.
    """
    if any(isinstance(part, BaseToolCallPart) for part in answer.parts):
        return
    offered = {tool.name for tool in (*parameters.function_tools, *parameters.output_tools)}
    text = "".join(part.content for part in answer.parts if isinstance(part, TextPart)).strip()
    if offered and text and (_has_marked_call(text, offered) or _is_object_of_call(text, offered)):
        raise UnexpectedModelBehavior(
            "it holds a tool call as text: start the server with the parser of this model's tool calls, "
            "such as --tool-call-parser of vLLM and SGLang, or --jinja of llama.cpp"
        )


def _has_marked_call(text: str, offered: Collection[str]) -> bool:
    """Return whether the text begins with a marked call, or has one on a line of its own and ends with its mark."""
    for mark in _BEGIN.finditer(text):
        before, after = text[: mark.start()], text[mark.end() - 1 : mark.end() + _SEARCHED_CHARS]
        is_first = not before.strip()
        is_last = (before.endswith("\n") or not before) and text[-1] in ">`]}" and "```" not in before
        if (is_first or is_last) and any(word in offered for word in _WORD.findall(after)):
            return True
    return False


def _is_object_of_call(text: str, offered: Collection[str]) -> bool:
    """Return whether the text is nothing but a JSON object, in a code block or not, that calls a tool."""
    fenced = _FENCE.match(text)
    try:
        value: Any = from_json(fenced[1] if fenced else text)
    except ValueError:
        return False
    if not isinstance(value, dict):
        return False
    call = cast("dict[str, Any]", value)
    return set(call) in _KEYS and isinstance(call["name"], str) and call["name"] in offered
