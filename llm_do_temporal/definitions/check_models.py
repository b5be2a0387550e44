"""What `check` says about models: aliases that stand for nothing, and settings that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llm_do_temporal.definitions.workers.places import WORKSHOP_FILE
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker
from llm_do_temporal.definitions.workshop.model_keys import unknown_settings
from llm_do_temporal.definitions.workshop.workshop import Workshop
from llm_do_temporal.definitions.yaml.lines import Document, KeyPath
from llm_do_temporal.definitions.yaml.problems import Problem
from llm_do_temporal.policy.models.ids import ALIAS_ID, full_name, models_of

_MODEL_STEP = "Write it like 'anthropic:claude-sonnet-4-5', or add an alias under `models:` in workshop.yaml."


def workshop_models(workshop: Workshop, document: Document) -> Iterator[Problem]:
    """The workshop's model, its aliases and its settings."""
    config = workshop.config
    if config.model is not None:
        yield from unknown_models(WORKSHOP_FILE, document.line_of(("model",)), config.model, workshop)
    for name, alias in config.models.items():
        here: KeyPath = ("models", name)
        for model in models_of(alias.model):
            stands_for = full_name(config.models, model) if "," in alias.model else model
            if not _has_form(stands_for):
                message = f"alias '{name}' stands for '{model}', which is not provider:name"
                yield Problem(WORKSHOP_FILE, document.line_of(here), message, next_step=_MODEL_STEP)
        yield from _settings(WORKSHOP_FILE, document, (*here, "settings"), alias.settings)
    yield from _settings(WORKSHOP_FILE, document, ("model_settings",), config.model_settings)


def setting_problems(parsed: ParsedWorker) -> Iterator[Problem]:
    """Settings of a worker that nobody knows."""
    settings = parsed.definition.model_settings
    yield from _settings(parsed.place.label, parsed.document, ("model_settings",), settings)


def is_known_model(model: str, workshop: Workshop) -> bool:
    """Whether it is an alias of the workshop, or has the form of a model's name; of several, whether each is."""
    return not _unknown(model, workshop)


def unknown_models(file: str, line: int | None, model: str, workshop: Workshop) -> Iterator[Problem]:
    """A problem for each of the models in a text that is not known."""
    for name in _unknown(model, workshop):
        message = f"model '{name}' is neither an alias of workshop.yaml nor provider:name"
        yield Problem(file, line, message, next_step=_MODEL_STEP)


def _unknown(model: str, workshop: Workshop) -> list[str]:
    names = models_of(model) or (model,)
    return [name for name in names if name not in workshop.config.models and not _has_form(name)]


def _has_form(model: str) -> bool:
    return ":" in model and "," not in model and not model.startswith(ALIAS_ID)


def _settings(file: str, document: Document, path: KeyPath, settings: Mapping[str, Any]) -> Iterator[Problem]:
    for name, meant in unknown_settings(settings):
        message = f"no provider is known to have the model setting '{name}'; it may be refused or ignored"
        hint = None if meant is None else f"Did you mean '{meant}'?"
        yield Problem(file, document.line_of((*path, name)), message, "warning", hint)
