"""Workers that an experiment involves: the entry worker with everything that it may call, as their files are now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.tools.plays import read_play
from llm_do_temporal.definitions.tools.python_sources import digest_with_imports, imported_files
from llm_do_temporal.definitions.tools.python_tools import evaluator_source
from llm_do_temporal.definitions.workshop.workshop import Workshop, run_settings
from llm_do_temporal.errors import DefinitionError, ModelRefusal, UsageError
from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.evaluations.evaluators import Python
from llm_do_temporal.policy.evaluations.spec import EvaluationSpec
from llm_do_temporal.policy.models import ModelSources, chain_of, full_name, play_of, resolve_model

ANYBODY = "*"


@dataclass(frozen=True)
class Involved:
    """Files and models of workers."""

    definitions: dict[str, str] = field(default_factory=dict[str, str])
    """Digests of the files of workers, of their Python tools and of plays, by path."""
    models: dict[str, str] = field(default_factory=dict[str, str])
    """Models by the names of workers."""


@dataclass(frozen=True)
class InvolvedWorkers:
    """Workers that an evaluation involves, and the settings under which they run."""

    settings: RunSettings
    entry: Involved
    """Worker that is evaluated, with all that it may call."""
    judge: Involved | None
    """Judge, with all that it may call; None: there is none."""


def involved_in(spec: EvaluationSpec, workshop: Workshop, environment_model: str | None) -> InvolvedWorkers:
    """Return what an evaluation involves. Raises DefinitionError, and UsageError without a model for one."""
    start = StartRunInput(worker=spec.worker, force_model=spec.settings.model, limits=spec.settings.limits)
    start = start.model_copy(update={"environment_model": environment_model, "turns": spec.settings.turns})
    settings = run_settings(workshop.config, start)
    entry, judge = involved(workshop, spec.worker, settings.models), None
    if spec.judge is not None:
        judge_start = start.model_copy(update={"worker": spec.judge.worker, "force_model": spec.judge.model})
        judge = involved(workshop, spec.judge.worker, run_settings(workshop.config, judge_start).models)
    return InvolvedWorkers(settings, entry, judge)


def involved(workshop: Workshop, entry: str, models: ModelSources) -> Involved:
    """Return all that the worker `entry` may run with. Raises DefinitionError, and UsageError without a model for it.

    Of workers that it may call by any name, those that cannot be loaded are left out: a call of them fails.
    """
    registry, found = Registry(workshop), Involved()
    worker = registry.load(entry)
    try:
        _involve(registry, worker, models, None, found)
    except ModelRefusal as refusal:
        raise UsageError(refusal.message, next_step=refusal.next_step) from refusal
    named = [one for model in found.models.values() for one in chain_of(models.aliases, model)]
    for play in dict.fromkeys(play_of(full_name(models.aliases, one)) for one in named):
        if play is not None:
            file = read_play(play, root=workshop.root.resolve())
            found.definitions[file.label] = digest_with_imports(file, imported_files(file))
    return found


def _involve(
    registry: Registry, worker: PinnedWorker, sources: ModelSources, caller: str | None, found: Involved
) -> None:
    found.definitions[worker.source] = worker.sha256
    for tool in () if worker.python is None else worker.python.tools:
        found.definitions[tool.source] = tool.sha256
    model = resolve_model(
        sources,
        worker=worker.name,
        worker_model=worker.model,
        caller_model=caller,
        compatible=worker.compatible_models,
    )
    found.models[worker.name] = model
    for name in _callees(registry, worker):
        if name in found.models:
            continue
        try:
            _involve(registry, registry.load(name), sources, model, found)
        except (DefinitionError, ModelRefusal):
            continue


def _callees(registry: Registry, worker: PinnedWorker) -> Iterator[str]:
    if worker.delegation is None:
        return
    yield from (tool.name for tool in worker.delegation.tools)
    for name in worker.delegation.allow_workers or ():
        yield from (registry.names() if name == ANYBODY else (name,))


def functions_of(workshop: Workshop, spec: EvaluationSpec) -> dict[str, str]:
    """Return the digests of the files of Python evaluators, with the modules of the workshop that they import.

    They go by the references of the evaluators. Raises DefinitionError.
    """
    named = [one for case in spec.cases for one in spec.evaluators_of(case)] or list(spec.evaluators)
    references = sorted({one.function for one in named if isinstance(one, Python)})
    files = {reference: evaluator_source(reference, root=workshop.root.resolve()) for reference in references}
    return {reference: digest_with_imports(file, imported_files(file)) for reference, file in files.items()}
