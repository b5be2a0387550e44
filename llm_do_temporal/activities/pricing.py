"""What a model turn costs: asked in the activity, so that it is in the history and no later price list changes it."""

from __future__ import annotations

import logging
from dataclasses import replace
from decimal import Decimal

from pydantic_ai.messages import ModelResponse

_DEEPEST_DISCOUNT = 10
"""Less than this part of the known price is nobody's price: it would only lift a limit."""

_log = logging.getLogger(__name__)


def priced(answer: ModelResponse) -> ModelResponse:
    """The answer with its cost in US dollars, where genai-prices knows the model; else without any, never with 0.

    A cost that the provider itself has reported is kept, unless it is a small part of the known price.
    """
    if not answer.usage.total_tokens:
        return answer
    reported, known = answer.usage.cost, _known(answer)
    if known is not None and (reported is None or reported * _DEEPEST_DISCOUNT < known):
        return replace(answer, usage=replace(answer.usage, cost=known))
    return answer


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
