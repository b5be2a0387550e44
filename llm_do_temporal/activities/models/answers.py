"""Form of a model's answer before it enters a history: its end, its texts, its calls.

Called by the wrapper that sends model turns. An answer that cannot be kept would be requested again and again, at full
price: half characters are replaced, and a call that is too large, was cut, or holds a number that JSON does not have
becomes one that the gate refuses with a text for the model. Adapters know the finish reasons of their own protocol;
gateways and local servers send many others.

Thoughts, tool calls and results that a model wrote into its text become parts of their own. Adapters find thoughts only
where a tag is a piece of its own, or the answer comes as a whole. A result becomes a call of the tool that takes it. A
call of another tool is not carried out, because it may be quoted from a file: the turn is requested again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import Any, cast

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    BaseToolCallPart,
    FinishReason,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_core import PydanticSerializationError, from_json

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.json_schema import schema_problems
from llm_do_temporal.messages.sizes import MAX_ANSWER_BYTES, MAX_CALL_BYTES, MAX_CALLS, OVERSIZED
from llm_do_temporal.policy.files.encodings import whole_characters
from llm_do_temporal.policy.models import CUT, cut_reason
from llm_do_temporal.redaction.hidden_characters import cut, each_text

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


_NOT_LETTERS = re.compile(r"[^a-z]+")
_SIGNS: tuple[tuple[FinishReason, tuple[str, ...]], ...] = (
    (
        "error",
        (
            *("error", "fail", "abort", "cancel", "interrupt", "disconnect", "timeout", "timedout", "malformed"),
            *("insufficient", "unavailable", "overload", "incomplete", "inprogress", "queued", "unexpected", "toomany"),
            "missing",
        ),
    ),
    ("length", ("length", "maxtoken", "maxoutput", "maxnewtoken", "tokenlimit", "context", "truncat")),
    (
        "content_filter",
        (
            "filter",
            "safety",
            "sensitive",
            "blocked",
            "blocklist",
            "prohibited",
            "recitation",
            "moderation",
            "guardrail",
        ),
    ),
)
"""Pieces of words in the finish reasons of servers, by what they mean; the first that fits decides."""
_EXACT: dict[str, FinishReason] = {"load": "error", "other": "error"}
"""Reasons whose word is also a piece of others."""
NO_REASON = (None, "", "FINISH_REASON_UNSPECIFIED")
"""Finish reasons that say nothing, the last one of Google's protocol.

A stream has no end then. A whole answer is taken as whole, as its body has an end of its own."""
_REASON_CHARS = 60
"""Longest reason of a server that an error quotes."""


def with_known_end(answer: ModelResponse) -> ModelResponse:
    """Return the answer, with a finish reason that means a cut in the project's words.

    An answer that its provider will go on with has no end yet. Raises UnexpectedModelBehavior for one that its server
    broke off, or that lacks the calls it announces.
    """
    if answer.state == "suspended":
        return answer
    sent = (answer.provider_details or {}).get("finish_reason")
    reason = answer.finish_reason or (meaning(sent) if isinstance(sent, str) else None)
    if reason is None and isinstance(sent, str) and (answer.provider_name or "").startswith("google"):
        # Its reasons are all named, and each but STOP is for an answer that is not whole.
        reason = None if sent == "STOP" or sent in NO_REASON else "error"
    if reason == "error" and not _is_slip(answer, sent):
        words = cut(sent, _REASON_CHARS) if isinstance(sent, str) else reason
        raise UnexpectedModelBehavior(f"its server broke it off, with the finish reason '{words}'")
    if reason == "tool_call" and not any(isinstance(part, BaseToolCallPart) for part in answer.parts):
        raise UnexpectedModelBehavior("it ends with tool calls, and has no tool call")
    return replace(answer, finish_reason=reason)


def _is_slip(answer: ModelResponse, sent: object) -> bool:
    """Return whether the model made a call that its provider could not read, and said nothing else.

    The model is told so in its next turn: asked the same again, it would often do the same.
    """
    has_words = any(isinstance(part, TextPart) and part.content.strip() for part in answer.parts)
    return isinstance(sent, str) and "call" in _NOT_LETTERS.sub("", sent.lower()) and not has_words


def meaning(sent: str) -> FinishReason | None:
    """Return what a server's reason means; None: nothing that is known, or that the answer is whole."""
    plain = _NOT_LETTERS.sub("", sent.lower())
    if plain in _EXACT:
        return _EXACT[plain]
    return next((reason for reason, signs in _SIGNS if any(sign in plain for sign in signs)), None)


_TEXTS = ("args", "content", "tool_name", "tool_call_id", "id", "signature", "provider_details")
"""Fields of parts that a provider fills in."""
_NAMES = ("model_name", "provider_response_id")
"""Fields of an answer that are a text or None, whatever a server sends there."""
_NAME_CHARS = 500
"""Longest such text that is kept."""


def with_whole_characters(answer: ModelResponse) -> ModelResponse:
    """Return the answer without half a character, which many functions that read a text do not take."""
    parts = [
        replace(part, **{name: whole_value(getattr(part, name)) for name in _TEXTS if hasattr(part, name)})
        for part in answer.parts
    ]
    return replace(answer, parts=parts, provider_details=whole_value(answer.provider_details))


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
    return each_text(value, whole_characters)


_MAX_NAME_CHARS = 64
"""Longest name of a tool that all providers take."""
_MAX_ID_CHARS = 40
"""Longest id of a call that all providers take."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")
_BETWEEN = re.compile(r"<\|[^|>]*\|?>?|[^A-Za-z0-9_-]+")
"""Separators of the words of a name: special tokens of a model's template, and all that no name has."""
_LEAST, _MOST = -(2**63), 2**64 - 1
"""Integers that are taken: all of 64 bits, with a sign or without."""


def call_ids(messages: Iterable[ModelMessage]) -> set[str]:
    """Return the ids of all calls of a conversation."""
    answers = (message for message in messages if isinstance(message, ModelResponse))
    return {call.tool_call_id for answer in answers for call in _calls(answer)}


def with_plain_calls(
    answer: ModelResponse, parameters: ModelRequestParameters, taken: Collection[str]
) -> ModelResponse:
    """Return the answer with plain calls; `taken` are the ids of calls of earlier turns."""
    offered = {tool.name for tool in (*parameters.function_tools, *parameters.output_tools)}
    ids = {*taken, *(call.tool_call_id for call in _calls(answer) if not isinstance(call, ToolCallPart))}
    items: set[str] = set()
    parts: list[ModelResponsePart] = []
    for part in _bounded(answer.parts):
        if isinstance(part, ToolCallPart):
            plain = _NOT_PLAIN.sub("_", part.tool_call_id or "")[:_MAX_ID_CHARS] or "call"
            own, number = plain, 1
            while own in ids:
                number += 1
                own = f"{plain[: _MAX_ID_CHARS - 8]}_{number}"
            name = plain_name(part.tool_name, offered)
            item = None if part.id in items else part.id
            part = replace(part, tool_name=name, tool_call_id=own, id=item, args=plain_args(part))
            ids.add(own)
            items.update({item} if item else ())
        parts.append(part)
    return replace(answer, parts=parts)


def plain_name(name: str, offered: Collection[str]) -> str:
    """Return the name of the offered tool that a call means; a plain name of no offered tool where it means none."""
    if name in offered:
        return name
    plain = _NOT_PLAIN.sub("_", name.strip())
    if plain in offered:
        return plain
    meant = {word for word in _BETWEEN.split(name) if word in offered}
    if len(meant) == 1:
        return meant.pop()
    plain = plain[:_MAX_NAME_CHARS] or "unnamed"
    return f"no_{plain}"[:_MAX_NAME_CHARS] if plain in offered else plain


def odd_number(value: Any) -> str | None:
    """Return a description of a number in the value that JSON, or a program that reads it, does not have; None: no such
    number."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left.extend(cast("dict[Any, Any]", one).values())
        elif isinstance(one, list):
            left.extend(cast("list[Any]", one))
        elif isinstance(one, float) and not isfinite(one):
            return f"{one}, a number that JSON does not have"
        elif isinstance(one, int) and not _LEAST <= one <= _MOST:
            return f"an integer of {one.bit_length()} bits; at most 64 are taken"
    return None


def _calls(answer: ModelResponse) -> Iterator[BaseToolCallPart]:
    """Return all calls, those of server-side tools included."""
    return (part for part in answer.parts if isinstance(part, BaseToolCallPart))


def plain_args(part: ToolCallPart) -> Any:
    """Return the arguments; where they hold a number that cannot be taken, a text that says so.

    JSON may write half a character as an escape. It is replaced, as in arguments that come as a value.
    """
    args = whole_value(part.args)
    try:
        value = from_json(args) if isinstance(args, str) else args
    except ValueError:
        args = value = _with_whole_escapes(args)
    odd = odd_number(value)
    if odd is None:
        # A call without arguments: some servers write them as null.
        return "{}" if value is None and isinstance(args, str) else args
    return f"Not carried out: the arguments hold {odd}. Call again with another number, or with a text."


def _with_whole_escapes(args: str) -> Any:
    """Return arguments whose only fault is half a character as a value; all others as they are."""
    try:
        value = json.loads(args) if "\\u" in args else None
    except (ValueError, RecursionError):
        return args
    return whole_value(value) if isinstance(value, dict) else args


def _bounded(parts: Iterable[ModelResponsePart]) -> list[ModelResponsePart]:
    """Return the parts with the first calls, and one more that says how many others were left out."""
    found: list[ModelResponsePart] = []
    rest: list[ToolCallPart] = []
    calls = 0
    for part in parts:
        calls += isinstance(part, ToolCallPart)
        if isinstance(part, ToolCallPart) and calls > MAX_CALLS:
            rest.append(part)
        else:
            found.append(part)
    if rest:
        text = f"Not carried out: this call and {len(rest) - 1} after it; at most {MAX_CALLS} calls of one answer are."
        found.append(replace(rest[0], args=f"{text} Make them again in later answers."))
    return found
