"""Price list that Pydantic AI brings along: the models of the great providers, against which names are spelt.

A model that the list lacks may be newer than it, or one's own; only a name beside a listed one is doubted.
"""

from __future__ import annotations

from difflib import get_close_matches

from llm_do_temporal.policy.models import ModelDoubt

_PROVIDERS = {
    "anthropic": "anthropic",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "google": "google",
    "google-cloud": "google",
    "mistral": "mistral",
    "openai": "openai",
    "openai-chat": "openai",
    "openai-responses": "openai",
}
"""Providers whose models the list has, by their name in Pydantic AI."""
_CLOSE = 0.8


def listed_models(provider: str) -> list[str]:
    """Return the models of a provider that the list has, as `provider:name`; none of a provider that it lacks."""
    if provider not in _PROVIDERS:
        return []
    from genai_prices.data import providers

    listed = next(one for one in providers if one.id == _PROVIDERS[provider])
    return [f"{provider}:{one.id}" for one in listed.models]


def spelling_doubt(model: str) -> ModelDoubt | None:
    """Return the doubt about a model `provider:name` that is one letter or two beside one of the price list."""
    provider, _, name = model.partition(":")
    if provider not in _PROVIDERS:
        return None
    # A third of a second, for those who name such a model only.
    from genai_prices.data import providers

    listed = next(one for one in providers if one.id == _PROVIDERS[provider])
    if listed.find_model(name.lower()) is not None:
        return None
    close = get_close_matches(name.lower(), [one.id for one in listed.models], n=1, cutoff=_CLOSE)
    if not close:
        return None
    message = f"no price list knows the model '{model[:80]}'"
    return ModelDoubt(message, f"Did you mean '{provider}:{close[0]}'?", certain=False)
