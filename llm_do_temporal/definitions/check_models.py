"""Check of models: aliases that stand for no model, and settings that no provider is known to have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from llm_do_temporal.definitions.keys.models import unknown_settings
from llm_do_temporal.definitions.price_list import spelling_doubt
from llm_do_temporal.definitions.tools.plays import load_play, read_play
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker
from llm_do_temporal.definitions.workshop.keys import WorkshopConfig
from llm_do_temporal.definitions.workshop.workshop import Workshop, model_aliases, unknown_models
from llm_do_temporal.definitions.yaml.lines import Document, KeyPath
from llm_do_temporal.definitions.yaml.problems import Problem
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.policy.models import (
    PROVIDERS_WITH_BATCHES,
    full_name,
    has_batches,
    is_full_name,
    model_doubt,
    models_of,
    play_of,
)
from llm_do_temporal.workshop_search import WORKSHOP_FILE

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
        close = get_close_matches(name, list(config.models), n=1)
        yield Problem(file, line, message, next_step=f"Did you mean '{close[0]}'?" if close else _MODEL_STEP)
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
            play = play_of(model)
            if play is None or model_doubt(model) is not None:
                continue
            try:
                (load_play if run_python else read_play)(play, root=workshop.root)
            except DefinitionError as error:
                message = f"the model '{model}' cannot be used: {error.problem}"
                where = (place, line) if error.file is None else (error.file, error.line)
                yield Problem(*where, message, next_step=error.next_step)


def batch_problems(parsed: ParsedWorker, config: WorkshopConfig) -> Iterator[Problem]:
    """Yield a problem for each model of a worker that `turns: batch` asks, and that has no batch API."""
    definition = parsed.definition
    if (definition.turns or config.turns) != "batch":
        return
    named = definition.model or config.model or ""
    full = [full_name(model_aliases(config), name) for name in _spelled_out(named, config)]
    for model in full:
        if is_full_name(model) and not has_batches(model):
            key: KeyPath = ("turns",) if definition.turns is not None else ("model",)
            step = f"Set `turns: now`, or name a model of {', '.join(PROVIDERS_WITH_BATCHES)}."
            message = f"the provider of '{model}' has no batch API for `turns: batch`"
            yield Problem(parsed.place.label, parsed.document.line_of(key), message, next_step=step)


def _spelled_out(named: str, config: WorkshopConfig) -> Iterator[str]:
    """Yield the models in a text, with those of an alias that stands for several in its place."""
    for name in models_of(named):
        alias = config.models.get(name)
        yield from models_of(alias.model) if alias is not None and "," in alias.model else (name,)


def _doubts(file: str, line: int | None, model: str) -> Iterator[Problem]:
    doubt = model_doubt(model) or spelling_doubt(model)
    if doubt is not None:
        yield Problem(file, line, doubt.message, "error" if doubt.certain else "warning", doubt.hint)


def _settings(file: str, document: Document, path: KeyPath, settings: Mapping[str, Any]) -> Iterator[Problem]:
    for name, meant in unknown_settings(settings):
        message = f"no provider is known to have the model setting '{name}'; it may be refused or ignored"
        hint = None if meant is None else f"Did you mean '{meant}'?"
        yield Problem(file, document.line_of((*path, name)), message, "warning", hint)
