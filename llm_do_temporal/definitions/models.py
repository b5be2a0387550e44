"""Models of a workshop: checks of names and settings, the price list they are spelt by, the variables they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from llm_do_temporal.definitions.keys.files import SETTING_NAMES, WorkshopConfig, unknown_settings
from llm_do_temporal.definitions.tools.plays import load_play, read_play
from llm_do_temporal.definitions.workers.places import SHIPPED, known_names, places_of
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, read_worker
from llm_do_temporal.definitions.workshop import Workshop, model_aliases, unknown_models
from llm_do_temporal.definitions.yaml.documents import Document, KeyPath, Problem, did_you_mean
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.policy.models import (
    PROVIDERS_WITH_BATCHES,
    Aliases,
    ModelDoubt,
    alias_of,
    chain_of,
    full_name,
    has_batches,
    is_full_name,
    model_doubt,
    models_of,
    play_of,
)
from llm_do_temporal.workshop_search import WORKSHOP_FILE

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


def _spelling_doubt(model: str) -> ModelDoubt | None:
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


_MODEL_STEP = "Write it like 'anthropic:claude-sonnet-5-5', or add an alias under `models:` in workshop.yaml."


def workshop_models(workshop: Workshop, document: Document) -> Iterator[Problem]:
    """Yield the problems of the workshop's model, of its aliases and of its settings."""
    config = workshop.config
    if config.model is not None:
        yield from name_problems(WORKSHOP_FILE, document.line_of(("model",)), config.model, config)
    for name, alias in config.models.items():
        here: KeyPath = ("models", name)
        for model in models_of(alias.model):
            stands_for = full_name(config.models, model) if "," in alias.model else model
            if not is_full_name(stands_for):
                message = f"alias '{name}' stands for '{model}', which is not provider:name"
                yield Problem(WORKSHOP_FILE, document.line_of(here), message, next_step=_MODEL_STEP)
            elif alias.base_url is None:
                yield from _doubts(WORKSHOP_FILE, document.line_of(here), stands_for)
        yield from _settings(WORKSHOP_FILE, document, (*here, "settings"), alias.settings)
    yield from _settings(WORKSHOP_FILE, document, ("model_settings",), config.model_settings)


def setting_problems(parsed: ParsedWorker) -> Iterator[Problem]:
    """Yield a warning for each model setting of a worker that no provider is known to have."""
    settings = parsed.definition.model_settings
    yield from _settings(parsed.place.label, parsed.document, ("model_settings",), settings)


def name_problems(file: str, line: int | None, model: str, config: WorkshopConfig) -> Iterator[Problem]:
    """Yield a problem for each model in a text that is no alias and not `provider:name`, or no model that is known."""
    unknown = unknown_models(model, config)
    for name in unknown:
        message = f"model '{name}' is neither an alias of workshop.yaml nor provider:name"
        yield Problem(file, line, message, next_step=did_you_mean(name, config.models, _MODEL_STEP))
    for name in models_of(model):
        if name not in unknown and name not in config.models:
            yield from _doubts(file, line, name)


def play_problems(
    workshop: Workshop, document: Document, workers: Iterable[ParsedWorker], *, run_python: bool
) -> Iterator[Problem]:
    """Yield a problem for each model `offline:FILE.py:FUNCTION` whose file or function cannot be used.

    Without `run_python` the file is read, and not run.
    """
    config = workshop.config
    named = [(WORKSHOP_FILE, document.line_of(("models", name)), one.model) for name, one in config.models.items()]
    named.append((WORKSHOP_FILE, document.line_of(("model",)), config.model or ""))
    named += [(one.place.label, one.document.line_of(("model",)), one.definition.model or "") for one in workers]
    for place, line, models in named:
        for model in models_of(models):
            try:
                _try_play(model, workshop.root, load_play if run_python else read_play)
            except DefinitionError as error:
                where = (place, line) if error.file is None else (error.file, error.line)
                yield Problem(*where, error.problem, next_step=error.next_step)


def check_plays(workshop: Workshop, named: Iterable[str | None]) -> None:
    """Raise DefinitionError where the file or function of a named scripted model cannot be used; nothing of it is run.

    A text in `named` may name several models, and None names none.
    """
    aliases = model_aliases(workshop.config)
    for model in [full_name(aliases, one) for text in named if text for one in chain_of(aliases, text)]:
        _try_play(model, workshop.root, read_play)


def _try_play(model: str, root: Path, read: Callable[..., object]) -> None:
    play = play_of(model)
    if play is None or model_doubt(model) is not None:
        return
    try:
        read(play, root=root)
    except DefinitionError as error:
        message = f"the model '{model}' cannot be used: {error.problem}"
        raise DefinitionError(message, file=error.file, line=error.line, next_step=error.next_step) from error


def batch_problems(parsed: ParsedWorker, config: WorkshopConfig) -> Iterator[Problem]:
    """Yield a problem for each model of a worker that `turns: batch` asks, and that has no batch API."""
    definition = parsed.definition
    if (definition.turns or config.turns) != "batch":
        return
    named = definition.model or config.model or ""
    spelled_out: list[str] = []
    for name in models_of(named):
        alias = config.models.get(name)
        spelled_out += models_of(alias.model) if alias is not None and "," in alias.model else (name,)
    for model in (full_name(model_aliases(config), name) for name in spelled_out):
        if is_full_name(model) and not has_batches(model):
            key: KeyPath = ("turns",) if definition.turns is not None else ("model",)
            step = f"Set `turns: now`, or name a model of {', '.join(PROVIDERS_WITH_BATCHES)}."
            message = f"the provider of '{model}' has no batch API for `turns: batch`"
            yield parsed.problem_at(key, message, next_step=step)


def _doubts(file: str, line: int | None, model: str) -> Iterator[Problem]:
    doubt = model_doubt(model) or _spelling_doubt(model)
    if doubt is not None:
        yield Problem(file, line, doubt.message, "error" if doubt.certain else "warning", doubt.hint)


def _settings(file: str, document: Document, path: KeyPath, settings: Mapping[str, Any]) -> Iterator[Problem]:
    for name in unknown_settings(settings):
        message = f"no provider is known to have the model setting '{name}'; it may be refused or ignored"
        hint = did_you_mean(name, sorted(SETTING_NAMES))
        yield Problem(file, document.line_of((*path, name)), message, "warning", hint)


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
    config, aliases = workshop.config, model_aliases(workshop.config)
    named = [*([] if config.model is None else [config.model]), *config.models]
    for name in known_names(root=workshop.root, shipped=SHIPPED):
        for place in places_of(name, root=workshop.root, shipped=SHIPPED)[:1]:
            model = None if place.shipped else read_worker(place).definition.model
            named += [] if model is None else [model]
    uses = [(_variables_of(aliases, one), one) for text in (*named, *also) for one in chain_of(aliases, text)]
    secrets = [variable for target in config.notify for variable in (target.url_env, target.secret_env)]
    uses += [((variable,), "notify") for variable in secrets if variable is not None]
    found: dict[tuple[str, ...], list[str]] = {}
    for variables, whose in uses:
        if variables and whose not in found.setdefault(variables, []):
            found[variables].append(whose)
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
