"""Thoughts, tool calls and results that a model wrote into its text.

Called by the wrapper that sends model turns, so its result is what the history holds. Adapters find thoughts only
where a tag is a piece of its own, or the answer comes as a whole. A result becomes a call of the tool that takes it. A
call of another tool is not carried out, because it may be quoted from a file: the turn is requested again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    BaseToolCallPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_core import from_json

from llm_do_temporal.json_schema import schema_problems

_Tags = tuple[tuple[str, tuple[str, ...]], ...]
_FINAL = "<|channel|>final<|message|>"
_TAGS: _Tags = (
    ("<think>", ("</think>",)),
    ("<THINK>", ("</THINK>",)),
    ("<thinking>", ("</thinking>",)),
    ("[THINK]", ("[/THINK]",)),
    ("<seed:think>", ("</seed:think>",)),
    ("◁think▷", ("◁/think▷",)),
    ("<|begin_of_thought|>", ("<|end_of_thought|>",)),
    (
        "<|channel|>analysis<|message|>",
        tuple(f"{end}{_FINAL}" for end in ("<|end|><|start|>assistant", "<|start|>assistant", "")),
    ),
)
"""The first tag of a thought and its last ones, as templates of models have them.

Tags that an answer may well have for its own sake, such as `<reasoning>`, are text."""
_CONTENT = "content"
"""Id that an adapter gives to a thought that it found in the text of an answer."""
_FENCE = "```"


def with_thoughts(answer: ModelResponse, model: Model) -> ModelResponse:
    """Return the answer with the thoughts in its text as parts of their own."""
    begin, end = model.profile.get("thinking_tags") or ("<think>", "</think>")
    tags = _TAGS if any(begin == known for known, _ in _TAGS) else (*_TAGS, (begin, (end,)))
    parts: list[ModelResponsePart] = []
    for part in answer.parts:
        if isinstance(part, TextPart):
            is_after = bool(parts) and isinstance(parts[-1], ThinkingPart)
            parts.extend(_split(replace(part, content=part.content.lstrip("\r\n")) if is_after else part, tags))
        elif isinstance(part, ThinkingPart) and part.id == _CONTENT:
            parts.extend(_ended(part, tags))
        else:
            parts.append(part)
    return replace(answer, parts=parts)


@lru_cache
def _pattern(tags: _Tags) -> re.Pattern[str]:
    """Return the pattern of a tag, or of the fence of a code block. It has no groups: so it is searched for fast."""
    literals = sorted({_FENCE, *(tag for begin, ends in tags for tag in (begin, *ends))}, key=len, reverse=True)
    return re.compile("|".join(re.escape(tag) for tag in literals))


@lru_cache
def _meanings(tags: _Tags) -> dict[str, tuple[str, bool]]:
    """Return the pair of each tag, by its first tag, and whether it begins a thought."""
    return {tag: (begin, tag == begin) for begin, ends in tags for tag in (begin, *ends)}


@dataclass
class _Thought:
    """Place of a thought in a text, with its tags and without."""

    pair: str
    at: int
    inner: int
    depth: int = 1
    end: tuple[int, int] | None = None
    """Begin and end of its last tag; None while none has come."""


def _thoughts(text: str, tags: _Tags) -> Iterator[_Thought]:
    """Yield the thoughts that have both tags, in order. A tag within a thought, a code block or backticks begins
    none."""
    meanings = _meanings(tags)
    thought: _Thought | None = None
    in_code = False
    for tag in _pattern(tags).finditer(text):
        if tag[0] == _FENCE:
            in_code = thought is None and not in_code
            continue
        pair, begins = meanings[tag[0]]
        if thought is None:
            if (
                begins
                and not in_code
                and "`" not in (text[tag.start() - 1 : tag.start()], text[tag.end() : tag.end() + 1])
            ):
                thought = _Thought(pair, tag.start(), tag.end())
        elif pair == thought.pair:
            thought.depth += 1 if begins else -1
            thought.end = thought.end if begins else tag.span()
            if thought.depth == 0:
                yield thought
                thought = None
    if thought is not None and thought.end is not None:
        yield thought


def _half_thought(text: str, tags: _Tags) -> tuple[int, int, int] | None:
    """Return where a thought at the beginning of the text stands whose first or last tag is missing, and where the
    rest of the text begins. Templates of some models put the first tag into the prompt."""
    blank = len(text) - len(text.lstrip())
    for begin, _ in tags:
        if text.startswith(begin, blank) and not text.startswith("`", blank + len(begin)):
            return blank + len(begin), len(text), len(text)
    meanings = _meanings(tags)
    in_code = False
    for tag in _pattern(tags).finditer(text):
        in_code ^= tag[0] == _FENCE
        ends = tag[0] in meanings and not meanings[tag[0]][1] and not in_code
        if ends and _stands_alone(text, *tag.span()):
            return 0, tag.start(), tag.end()
    return None


def _stands_alone(text: str, begin: int, end: int) -> bool:
    """Return whether a line begins or ends with what stands here."""
    before = begin
    while before and text[before - 1] in " \t":
        before -= 1
    after = end
    while text[after : after + 1] in (" ", "\t"):
        after += 1
    return (before > 0 and text[before - 1] == "\n") or text[after : after + 1] == "\n"


def _split(part: TextPart, tags: _Tags) -> list[ModelResponsePart]:
    text = part.content
    found = [(one.at, (one.inner, one.end[0]), one.end[1]) for one in _thoughts(text, tags) if one.end]
    if not found and (half := _half_thought(text, tags)):
        found = [(0, half[:2], half[2])]
    if not found:
        return [part]
    parts: list[ModelResponsePart] = []
    at = 0
    for begin, inner, end in found:
        parts.extend(_said(part, text[at:begin], after_thought=at > 0))
        thought = text[slice(*inner)].strip()
        parts.extend([ThinkingPart(thought)] if thought else [])
        at = end
    return [*parts, *_said(part, text[at:], after_thought=True)]


def _ended(part: ThinkingPart, tags: _Tags) -> list[ModelResponsePart]:
    """Return a thought, and the text after its end, which the adapter did not see where it came in two pieces."""
    meanings = _meanings(tags)
    ends = (tag for tag in _pattern(tags).finditer(part.content) if not meanings.get(tag[0], ("", True))[1])
    found = next(ends, None)
    if found is None:
        return [part]
    thought, after = part.content[: found.start()], part.content[found.end() :]
    text = _split(TextPart(after.lstrip()), tags) if after.strip() else []
    return [*([replace(part, content=thought)] if thought.strip() else []), *text]


def _said(part: TextPart, text: str, *, after_thought: bool) -> list[ModelResponsePart]:
    text = text.lstrip() if after_thought else text
    return [replace(part, content=text)] if text.strip() else []


_BEGIN = re.compile(
    r"<tool_calls?>|<\|?tool_call(s?_section_begin|s?_begin|_start)?\|>|\[TOOL_CALLS\]|<\|python_tag\|>|<function=\w"
    r"|<\uff5ctool▁calls?▁begin\uff5c>|<\|channel\|>commentary to=|<function_calls>|<invoke name=|```tool_(code|call)\b"
)
"""Marks with which chat templates begin a call."""
_WORD = re.compile(r"\w+")
_FENCED_WHOLE = re.compile(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.DOTALL)
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
    fenced = _FENCED_WHOLE.match(text)
    try:
        value: Any = from_json(fenced[1] if fenced else text)
    except ValueError:
        return False
    if not isinstance(value, dict):
        return False
    call = cast("dict[str, Any]", value)
    return set(call) in _KEYS and isinstance(call["name"], str) and call["name"] in offered


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
