"""Tokens of a turn: the provider's count, or an estimate where that is missing or not believable.

Called by the wrapper that sends model turns, before the answer is priced and enters a history. A count is not believed
where it is negative, no whole number, larger than any turn, or so small that the text cannot have fitted. Then it is
estimated: four characters of text a token, and a fixed number for each file. An estimated turn is marked, so
that limits count it like any other and people see that it is a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.usage import RequestUsage

from llm_do_temporal.policy.models import CHARACTERS_PER_TOKEN

FILE_TOKENS = 1_500
"""Tokens of a picture or a document in an estimate, about as many as providers count for a large picture or a page."""
CHARACTERS_OF_A_TOKEN = 40
"""More than any tokenizer puts into a token on average: a smaller count than this allows is not believed."""
MAX_TOKENS = 1_000_000_000
"""Most tokens of one turn: no model takes as many, and a larger count is not believed."""
_COUNTS = ("input_tokens", "output_tokens")
_PARTS = tuple(
    field.name
    for field in fields(RequestUsage)
    if field.name not in (*_COUNTS, "details", "cost", "unmeasured_requests")
)
"""Counts that are parts of others, and change the price."""
_CACHED = ("cache_read_tokens", "cache_write_tokens")
"""Parts of the input that exclude each other."""


def counted(
    answer: ModelResponse, asked: Sequence[ModelMessage], parameters: ModelRequestParameters
) -> tuple[ModelResponse, bool]:
    """Return the answer with tokens that can be counted, and whether any of them are estimated.

    `asked` is the conversation as it was sent.
    """
    given = answer.usage
    request, files = _request_text(asked)
    said = sum(map(_answer_text, answer.parts))
    usage = RequestUsage(
        input_tokens=_believed(given.input_tokens, request + files * CHARACTERS_OF_A_TOKEN),
        output_tokens=_believed(given.output_tokens, said),
    )
    estimated = [name for name in _COUNTS if getattr(usage, name) != getattr(given, name)]
    if "input_tokens" in estimated:
        usage.input_tokens = _tokens(request + _schema_text(parameters)) + files * FILE_TOKENS
    if "output_tokens" in estimated:
        usage.output_tokens = _tokens(said)
    if not estimated:
        # Of a turn that is estimated nothing else is believed either: a part of a sum that is wrong.
        _add_parts(usage, given)
    return replace(answer, usage=usage), bool(estimated)


def marked(answer: ModelResponse) -> ModelResponse:
    """The answer of a turn whose tokens are estimated; it is priced already."""
    return replace(answer, usage=replace(answer.usage, unmeasured_requests=1))


def _believed(count: Any, characters: int) -> int:
    """Return the count; -1, which no count is, where it cannot be true of so many characters of text."""
    whole = isinstance(count, int) and not isinstance(count, bool)
    return count if whole and characters <= count * CHARACTERS_OF_A_TOKEN and 0 <= count <= MAX_TOKENS else -1


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _add_parts(usage: RequestUsage, given: RequestUsage) -> None:
    """Take over what else was counted where it can be true: a part is never less than nothing or more than all."""
    said = {
        name: amount for name in _PARTS if (amount := getattr(given, name)) and _is_amount(amount, _most(name, usage))
    }
    extra = {
        name: amount
        for name, amount in vars(given).items()
        if name not in (*_PARTS, *_COUNTS, "details", "cost", "unmeasured_requests") and _is_amount(amount, MAX_TOKENS)
    }
    if sum(said.get(name, 0) for name in _CACHED) > usage.input_tokens:
        said = {name: amount for name, amount in said.items() if name not in _CACHED}
    for name, amount in (said | extra).items():
        setattr(usage, name, amount)
    if given.cost is not None and given.cost.is_finite() and 0 < given.cost <= MAX_TOKENS:
        usage.cost = given.cost
    details = cast("dict[Any, Any]", given.details)
    usage.details = {
        str(name): amount
        for name, amount in details.items()
        if isinstance(amount, int) and _is_amount(amount, MAX_TOKENS)
    }


def _most(part: str, usage: RequestUsage) -> int:
    """Return the most tokens that a part of the sums can have; no price is found for a turn with more."""
    if part == "audio_seconds":
        return MAX_TOKENS
    return usage.output_tokens if part.startswith("output_") else usage.input_tokens


def _is_amount(amount: Any, most: int) -> bool:
    return isinstance(amount, int | float) and not isinstance(amount, bool) and 0 <= amount <= most


def _request_text(asked: Sequence[ModelMessage]) -> tuple[int, int]:
    """Return the number of characters of text of a conversation, and of its files."""
    characters = files = 0
    instructions = 0
    for message in asked:
        if isinstance(message, ModelRequest):
            # Every request of a conversation carries them, a provider gets those of the last.
            instructions = len(message.instructions or "")
            for part in message.parts:
                more, found = _content(getattr(part, "content", None))
                characters, files = characters + more, files + found
        else:
            characters += sum(map(_answer_text, message.parts))
    return characters + instructions, files


def _content(content: Any) -> tuple[int, int]:
    """Return the number of characters, and of files, of a part of a request."""
    if content is None or isinstance(content, str):
        return len(content or ""), 0
    if not isinstance(content, list | tuple):
        return len(json.dumps(content, ensure_ascii=False, default=str)), 0
    texts = [item for item in cast("Iterable[Any]", content) if not _is_file(item)]
    sizes = [len(item if isinstance(item, str) else json.dumps(item, default=str)) for item in texts]
    return sum(sizes), len(cast("Sequence[Any]", content)) - len(texts)


def _is_file(item: Any) -> bool:
    return hasattr(item, "media_type")


def _answer_text(part: ModelResponsePart) -> int:
    if isinstance(part, TextPart | ThinkingPart):
        return len(part.content)
    if isinstance(part, ToolCallPart):
        args = part.args if isinstance(part.args, str) else json.dumps(part.args or {}, default=str)
        return len(part.tool_name) + len(args)
    return 0


def _schema_text(parameters: ModelRequestParameters) -> int:
    tools = [*parameters.function_tools, *parameters.output_tools]
    return sum(
        len(tool.name) + len(tool.description or "") + len(json.dumps(tool.parameters_json_schema, default=str))
        for tool in tools
    )
