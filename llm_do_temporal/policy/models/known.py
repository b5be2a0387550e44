"""Providers and offline models that are known, for hints where a name of one is misspelt.

Which exist is decided where a model is built; a newer Pydantic AI may know more providers than this list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.models.ids import Aliases, chain_of, full_name

OFFLINE = "offline"
OFFLINE_MODELS = ("by-hand", "echo", "greeter", "notes")
"""Names of the package's models that are scripts, without `offline:`."""
PROVIDERS = frozenset(
    {
        "alibaba",
        "anthropic",
        "azure",
        "azure-responses",
        "bedrock",
        "bedrock-mantle",
        "cerebras",
        "cohere",
        "crusoe",
        "deepseek",
        "elevenlabs",
        "fireworks",
        "github",
        "github-copilot",
        "google",
        "google-cloud",
        "google-decisions",
        "groq",
        "heroku",
        "huggingface",
        "litellm",
        "meta",
        "mistral",
        "moonshotai",
        "nebius",
        "ollama",
        "openai",
        "openai-chat",
        "openai-chatgpt",
        "openai-codex",
        "openai-decisions",
        "openai-responses",
        "openrouter",
        "ovhcloud",
        "sambanova",
        "sentence-transformers",
        "snowflake",
        "system-one",
        "together",
        "typesafe",
        "vercel",
        "vllm",
        "voyageai",
        "xai",
        "zai",
    }
)
"""Providers of Pydantic AI, as the part of a model's name before the colon."""
_FURTHER = frozenset({OFFLINE, "test"})
_GATEWAY = "gateway/"
_PYTHON = ".py"
_FORM = "A model is an alias, or provider:name like anthropic:claude-sonnet-5-5."


@dataclass(frozen=True)
class ModelDoubt:
    """Doubt that a model exists."""

    message: str
    hint: str
    certain: bool
    """Whether a run with it is sure to fail, or the name is all but one that is known."""


def model_doubt(model: str) -> ModelDoubt | None:
    """Return the doubt about `provider:name`; None for a model that may exist."""
    provider, _, name = model.partition(":")
    if provider == OFFLINE:
        return _offline_doubt(name)
    if provider in PROVIDERS or provider in _FURTHER or provider.startswith(_GATEWAY):
        return None
    close = get_close_matches(provider.lower(), sorted(PROVIDERS | {OFFLINE}), n=1, cutoff=0.75)
    return ModelDoubt(
        f"no provider '{provider[:80]}' is known, of the model '{model[:80]}'",
        f"Did you mean '{close[0]}:{name[:80]}'?"
        if close
        else "Known are anthropic, google, openai and the others of Pydantic AI; offline:NAME needs no key.",
        certain=bool(close),
    )


def check_models(aliases: Aliases | None, named: Iterable[str | None]) -> list[str]:
    """Return warnings about models that are not known. Raises UsageError where the name of one is surely misspelt.

    What is only not known the worker service may know: it may have a newer list, or other aliases. `aliases` are those
    of the workshop, None where it is not known; a text in `named` may name several models, and None names none.
    """
    names = [one for text in named if text for one in chain_of(aliases or {}, text)]
    doubts: list[ModelDoubt] = []
    for model in dict.fromkeys(full_name(aliases or {}, one) for one in names):
        if ":" in model:
            doubts += filter(None, [model_doubt(model)])
        elif aliases is not None:
            doubts.append(ModelDoubt(f"the workshop has no alias '{model[:80]}'", _FORM, certain=False))
    for doubt in doubts:
        if doubt.certain:
            raise UsageError(doubt.message, next_step=doubt.hint)
    return [f"{doubt.message}: a run may fail for that. {doubt.hint}" for doubt in doubts]


def _offline_doubt(name: str) -> ModelDoubt | None:
    file, colon, function = name.rpartition(":")
    if name in OFFLINE_MODELS or (file.endswith(_PYTHON) and function.isidentifier()):
        return None
    if colon or name.endswith(_PYTHON):
        message = f"'{OFFLINE}:{name[:80]}' names no function of a Python file"
        return ModelDoubt(message, "Write it like 'offline:plays.py:pitch'.", certain=True)
    close = get_close_matches(name.lower(), OFFLINE_MODELS, n=1)
    known = ", ".join(f"{OFFLINE}:{one}" for one in OFFLINE_MODELS)
    hint = f"Did you mean '{OFFLINE}:{close[0]}'?" if close else f"There are {known}, and {OFFLINE}:FILE.py:FUNCTION."
    return ModelDoubt(f"there is no offline model '{OFFLINE}:{name[:80]}'", hint, certain=True)
