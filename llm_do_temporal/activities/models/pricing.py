"""Price of a model turn: found in the activity, so that the history has it and no later price list changes it."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model

from llm_do_temporal.activities.models.builder import price_of

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
