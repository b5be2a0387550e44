"""The environment variables that a workshop needs in its worker service: keys of models, secrets of notifications."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llm_do_temporal.definitions.workers.places import SHIPPED, known_names, places_of
from llm_do_temporal.definitions.workers.worker_file import read_worker
from llm_do_temporal.definitions.workshop.workshop import Workshop, model_aliases
from llm_do_temporal.policy.models import Aliases, alias_of, chain_of, full_name

_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "google-gla": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}
"""Variables in which a provider's key is looked for; a single one is enough. Other providers are not judged."""


def needed_variables(workshop: Workshop, *also: str) -> dict[tuple[str, ...], list[str]]:
    """Return the uses of each group of variables, of which a single one must be set; `also` are further models."""
    found: dict[tuple[str, ...], list[str]] = {}
    for variables, whose in (*_for_models(workshop, also), *_for_targets(workshop)):
        names = found.setdefault(variables, [])
        if whose not in names:
            names.append(whose)
    return found


def missing_variables(aliases: Aliases, model: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of which one must hold a key for the model, and none does; empty where none is missing.

    Of several models, one that can be asked is enough.
    """
    missing: tuple[str, ...] = ()
    for one in chain_of(aliases, model):
        needed = _variables_of(aliases, one)
        provider = full_name(aliases, one).partition(":")[0]
        if any(environment.get(name) for name in needed) or not needed:
            return ()
        if provider.startswith("openai") and environment.get("OPENAI_BASE_URL"):
            return ()  # a server of one's own may need no key
        missing = missing or needed
    return missing


def _variables_of(aliases: Aliases, model: str) -> tuple[str, ...]:
    alias = alias_of(aliases, model)
    if alias is not None and alias.api_key_env is not None:
        return (alias.api_key_env,)
    if alias is not None and alias.base_url is not None:
        return ()
    return _KEYS.get(full_name(aliases, model).partition(":")[0], ())


def _for_models(workshop: Workshop, also: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    aliases = model_aliases(workshop.config)
    for named in (*_named_models(workshop), *also):
        for model in chain_of(aliases, named):
            variables = _variables_of(aliases, model)
            if variables:
                yield variables, model


def _named_models(workshop: Workshop) -> Iterator[str]:
    """The models that the workshop and its own workers name, and its aliases."""
    if workshop.config.model is not None:
        yield workshop.config.model
    yield from workshop.config.models
    for name in known_names(root=workshop.root, shipped=SHIPPED):
        for place in places_of(name, root=workshop.root, shipped=SHIPPED)[:1]:
            model = None if place.shipped else read_worker(place).definition.model
            if model is not None:
                yield model


def _for_targets(workshop: Workshop) -> Iterator[tuple[tuple[str, ...], str]]:
    for target in workshop.config.notify:
        for variable in (target.url_env, target.secret_env):
            if variable is not None:
                yield (variable,), "notify"
