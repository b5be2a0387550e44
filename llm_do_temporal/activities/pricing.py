"""What a model turn costs: asked in the activity, so that it is in the history and no later price list changes it."""

from __future__ import annotations

import logging
from dataclasses import replace

from pydantic_ai.messages import ModelResponse

_log = logging.getLogger(__name__)


def priced(answer: ModelResponse) -> ModelResponse:
    """The answer with its cost in US dollars, where genai-prices knows the model; else without any, never with 0.

    A cost that the provider itself has reported is kept.
    """
    if answer.usage.cost is not None or not answer.usage.total_tokens:
        return answer
    try:
        cost = answer.cost().total_price
    except (LookupError, ValueError, AssertionError):
        return answer  # an unknown provider or model, or usage that says too little
    except Exception:
        _log.exception("the price of a turn with %s could not be found", answer.model_name)
        return answer
    return replace(answer, usage=replace(answer.usage, cost=cost))
