"""Tokens and price of a model turn, found in the activity: the history holds them, and no later list changes them.

Tokens are the provider's count, or an estimate where that is missing or not believable: negative, no integer, larger
than any turn, or too small for the text. An estimate is four characters a token, and a fixed number for each file. An
estimated turn is marked: limits count it like any other, and people see that it is a guess.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from decimal import Decimal
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
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.usage import RequestUsage

from llm_do_temporal.activities.models.builder import price_of
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
    texts = [item for item in cast("Iterable[Any]", content) if not hasattr(item, "media_type")]
    sizes = [len(item if isinstance(item, str) else json.dumps(item, default=str)) for item in texts]
    return sum(sizes), len(cast("Sequence[Any]", content)) - len(texts)


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


_DEEPEST_DISCOUNT = 10
"""Divisor of the known price: a reported cost below that part is not believed, as it would only lift a limit."""

_BATCH = {"processing": "batch"}
"""Words of the price list for a request that went through a batch API."""
_log = logging.getLogger(__name__)


def priced(answer: ModelResponse, asked: Model | None = None, *, batched: bool = False) -> ModelResponse:
    """The answer with its cost in US dollars, where the workshop or genai-prices has a price; else without any.

    A price of the workshop holds, whatever the list or the answer says; an offline model is free. By the list, the
    price is that of the model that was asked, or of the one that says it answered where that is dearer: who answers
    must not set it. `asked` is None where that is not known. With `batched` the price of the list is that of the
    provider's batch API, and the usual one where it knows none, which then is too high. A cost that the provider
    itself has reported is kept, unless it is a small part of the known price.
    """
    stated = None if asked is None else price_of(asked)
    if stated is not None:
        spent = answer.usage
        cost = stated.cost_of(
            told=spent.input_tokens,
            written=spent.output_tokens,
            cache_read=spent.cache_read_tokens,
            cache_write=spent.cache_write_tokens,
        )
        return replace(answer, usage=replace(spent, cost=cost))
    if not answer.usage.total_tokens:
        return answer
    reported, known = answer.usage.cost, _dearest(answer, asked, batched=batched)
    if known is not None and (reported is None or reported * _DEEPEST_DISCOUNT < known):
        return replace(answer, usage=replace(answer.usage, cost=known))
    return answer


def _dearest(answer: ModelResponse, asked: Model | None, *, batched: bool) -> Decimal | None:
    """The price by the price list; None where it has none, or nothing."""
    if asked is None:
        return _known(answer) or None
    # When it was made and how it was served is what the answer says as well.
    plain = replace(
        answer,
        model_name=asked.model_name,
        timestamp=datetime.now(UTC),
        provider_details=_BATCH if batched else None,
        provider_response_id=None,
    )
    said = [answer] if answer.model_name == plain.model_name else [replace(plain, model_name=answer.model_name), answer]
    return max((price for one in (plain, *said) if (price := _known(one))), default=None)


def _known(answer: ModelResponse) -> Decimal | None:
    """The price by the price list; None where it has none."""
    try:
        cost = answer.cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None  # an unknown provider or model, or usage that says too little
    except Exception:
        _log.exception("the price of a turn with %s could not be found", answer.model_name)
        return None
    return cost if cost.is_finite() and cost >= 0 else None
