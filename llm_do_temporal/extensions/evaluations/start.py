"""Start of an experiment: its plan, made of the evaluation file and the workshop, and what it takes over from others.

Owns the choice between an experiment that goes on, one that is finished, and one that has to be started. The command
line only says which file is meant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.start import LocalWorker, load_local_worker
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.tools.authors_code import digest_with_imports, imported_files
from llm_do_temporal.definitions.tools.plays import read_play
from llm_do_temporal.definitions.workshop import Workshop, load_workshop, run_settings
from llm_do_temporal.errors import DefinitionError, EffectFailed, KeyMismatch, ModelRefusal, UnknownHere, UsageError
from llm_do_temporal.extensions.evaluations.client import (
    ExperimentListing,
    find_experiment,
    list_experiments,
    named,
    read_listed,
    read_listing,
    read_remains,
)
from llm_do_temporal.extensions.evaluations.files import evaluation_files, evaluator_source, load_evaluation
from llm_do_temporal.extensions.evaluations.messages import (
    EVALUATION_MEMO,
    EVALUATION_WORKFLOW,
    ContinuedEvaluation,
    EvaluationPlan,
    ExperimentRecord,
    RunEvaluationInput,
    StartedExperiment,
    units_of,
)
from llm_do_temporal.extensions.evaluations.policy import EVALUATION_SUFFIX
from llm_do_temporal.extensions.evaluations.policy.experiment import (
    case_key,
    differences,
    experiment_id,
    experiment_identity,
)
from llm_do_temporal.extensions.evaluations.policy.scores import (
    EXPECTED,
    MAX_REPEATS,
    CaseResult,
    EvaluationSpec,
    Python,
)
from llm_do_temporal.messages.base import TASK_TIMEOUT
from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.messages.sizes import SUMMARY_CHARS
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.models import ModelSources, chain_of, full_name, play_of, resolve_model
from llm_do_temporal.policy.queues import BATCH_PRIORITY, fairness_key
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of

LOOKED_AT = 20
"""Newest experiments of the same name whose results may be taken over."""
_BESIDE = {"models", "queues", "search_attributes", "live_text", "aside", "scripted", "mode", "review"}
"""Settings of a run on which results do not depend, or that are in the identity by themselves."""
_ANY_WORKER = "*"


def evaluation_names(folder: Path) -> list[str]:
    """Return the names of the workshop's evaluations, of files of one name one."""
    return list(dict.fromkeys(path.name.removesuffix(EVALUATION_SUFFIX) for path in evaluation_files(folder)))


def evaluation_named(name: str, folder: Path, worker: str | None) -> EvaluationSpec:
    """Return the evaluation of this name, of no other place than the workshop. Raises DefinitionError, UnknownHere."""
    found = [path for path in evaluation_files(folder) if path.name == f"{name}{EVALUATION_SUFFIX}"]
    if len(found) == 1:
        return load_evaluation(found[0], folder, worker=worker)
    known = ", ".join(evaluation_names(folder)[:10])
    what = f"{len(found)} evaluations are called" if found else "there is no evaluation"
    raise UnknownHere(f"{what} '{name[:80]}'", next_step=f"This workshop has: {known}." if known else None)


def find_evaluation(file: Path, folder: Path, worker: str | None) -> EvaluationSpec:
    """Return the evaluation in the file, or of this name. Raises DefinitionError, and UsageError for what is none."""
    if not file.name.endswith(EVALUATION_SUFFIX):
        if len(file.parts) == 1:
            with suppress(UnknownHere):
                return evaluation_named(file.name, folder, worker)
        known = ", ".join(one.relative_to(folder).as_posix() for one in evaluation_files(folder)[:10])
        raise UsageError(
            f"'{file}' is no evaluation file: its name does not end with '{EVALUATION_SUFFIX}'",
            next_step=f"This workshop has: {known}." if known else "See docs/how-to/evaluate.md for how to write one.",
        )
    if not file.is_file():
        raise UsageError(f"there is no evaluation file '{file}'")
    path = file.absolute()
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"'{file}' is not in the workshop '{folder}'",
            next_step="Put it there, or name its workshop with --workshop DIR.",
        )
    return load_evaluation(path.parent.resolve() / path.name, folder.resolve(), worker=worker)


def chosen_cases(spec: EvaluationSpec, repeats: int | None, cases: Collection[str]) -> EvaluationSpec:
    """Return the evaluation with these repeats and cases alone; None and no cases: as it is. Raises UsageError."""
    changes: dict[str, Any] = {}
    if repeats is not None:
        if not 1 <= repeats <= MAX_REPEATS:
            raise UsageError(f"--repeats {repeats}: it is a number from 1 to {MAX_REPEATS}")
        changes["repeats"] = repeats
    unknown = [one for one in cases if spec.case(one) is None]
    if unknown:
        known = ", ".join(f"'{one.id}'" for one in spec.cases[:10])
        raise UsageError(f"the evaluation has no case '{unknown[0]}'", next_step=f"It has: {known}.")
    if cases:
        changes["cases"] = tuple(one for one in spec.cases if one.id in cases)
    return spec.model_copy(update=changes)


@dataclass(frozen=True)
class Involved:
    """Files and models of workers."""

    definitions: dict[str, str] = field(default_factory=dict[str, str])
    """Digests of the files of workers, of their Python tools and of plays, by path."""
    models: dict[str, str] = field(default_factory=dict[str, str])
    """Models by the names of workers."""


def involved_in(
    spec: EvaluationSpec, workshop: Workshop, environment_model: str | None
) -> tuple[RunSettings, Involved, Involved | None]:
    """Return the settings under which an evaluation runs, the worker with all that it may call, and so the judge.

    None: there is no judge. Raises DefinitionError, and UsageError without a model for one.
    """
    start = StartRunInput(worker=spec.worker, force_model=spec.settings.model, limits=spec.settings.limits)
    start = start.model_copy(update={"environment_model": environment_model, "turns": spec.settings.turns})
    settings = run_settings(workshop.config, start)
    entry, judge = involved(workshop, spec.worker, settings.models), None
    if spec.judge is not None:
        judge_start = start.model_copy(update={"worker": spec.judge.worker, "force_model": spec.judge.model})
        judge = involved(workshop, spec.judge.worker, run_settings(workshop.config, judge_start).models)
    return settings, entry, judge


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
        yield from (registry.names() if name == _ANY_WORKER else (name,))


def functions_of(workshop: Workshop, spec: EvaluationSpec) -> dict[str, str]:
    """Return the digests of the files of Python evaluators, with the modules of the workshop that they import.

    They go by the references of the evaluators. Raises DefinitionError.
    """
    named = [one for case in spec.cases for one in spec.evaluators_of(case)] or list(spec.evaluators)
    references = sorted({one.function for one in named if isinstance(one, Python)})
    files = {reference: evaluator_source(reference, root=workshop.root.resolve()) for reference in references}
    return {reference: digest_with_imports(file, imported_files(file)) for reference, file in files.items()}


async def draft_evaluation(
    client: LlmDoClient,
    spec: EvaluationSpec,
    workshop: Path,
    *,
    environment_model: str | None,
    started_by: str,
) -> EvaluationPlan:
    """Return the plan of a first start, with everything that results depend on; attached files are in the blob store.

    Raises DefinitionError and UsageError for what can be known to be wrong, and errors of the connection.
    """
    others, baseline = await _others(client, spec)
    return await asyncio.to_thread(_draft, spec, workshop, others, baseline, environment_model, started_by)


async def _others(client: LlmDoClient, spec: EvaluationSpec) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the answers of another experiment for a judge's pairs, and what names them in the identity."""
    against = None if spec.judge is None else spec.judge.against
    if against is None or against == EXPECTED:
        return {}, {}
    found = find_experiment(await list_experiments(client.temporal), against)
    record = (await read_listed(client.temporal, found)).record
    answers = {f"{one.case}#{one.repeat}": one.facts.output for one in record.results if one.facts.error is None}
    for unit in units_of(spec):
        first = f"{unit.case}#1"
        if first not in answers:
            raise UsageError(
                f"the judge compares with experiment '{found.workflow}', which has no answer for case '{unit.case}'"
            )
        answers.setdefault(unit.name, answers[first])
    return answers, {f"experiment {found.workflow}": digest_of(answers)}


def _draft(
    spec: EvaluationSpec,
    folder: Path,
    others: dict[str, Any],
    baseline: dict[str, str],
    environment_model: str | None,
    started_by: str,
) -> EvaluationPlan:
    workshop, worker = load_workshop(folder), load_local_worker(folder, spec.worker)
    attachments = _attach(spec, worker, workshop.root)
    if spec.judge is not None:
        load_local_worker(folder, spec.judge.worker)
    settings, entry, judge = involved_in(spec, workshop, environment_model)
    # Short values are in the identity as they are, of others the digest.
    values = settings.model_dump(mode="json", exclude=_BESIDE)
    told = {
        f"workshop.{name}": value if isinstance(value, str | int | float | bool) else digest_of(value)[:32]
        for name, value in values.items()
        if value not in (None, {}, [], "")
    }
    for case in spec.cases:
        worker.check_input(StartRunInput(worker=spec.worker, prompt=case.prompt, input=case.input))
    identity = experiment_identity(
        spec,
        definitions=entry.definitions,
        models=entry.models,
        attachments={path: one.sha256 for path, one in attachments.items()},
        judge_definitions=None if judge is None else {**judge.definitions, **baseline},
        judge_models=None if judge is None else judge.models,
        settings=told,
        functions=functions_of(workshop, spec),
    )
    return EvaluationPlan(
        workflow=experiment_id(spec.name, identity.digest),
        spec=spec,
        identity=identity,
        started_by=started_by,
        started_at=datetime.now(UTC),
        attachments=attachments,
        environment_model=environment_model,
        others=others,
    )


def _attach(spec: EvaluationSpec, worker: LocalWorker, root: Path) -> dict[str, Attachment]:
    """Copy the files of all cases to the blob store, and return them by the paths that cases have."""
    found: dict[str, Attachment] = {}
    for case in spec.cases:
        paths = [root / path for path in case.attachments]
        for name, path in zip(case.attachments, paths, strict=True):
            if not path.resolve().is_relative_to(root.resolve()):
                raise UsageError(f"the file '{name}' of case '{case.id}' leads out of the workshop")
        try:
            found |= dict(zip(case.attachments, worker.attach(paths), strict=True))
        except UsageError as error:
            why = error.message.replace(f"{root}/", "")
            raise UsageError(f"case '{case.id}': {why}", next_step=error.next_step) from error
    return found


async def begin_experiment(client: LlmDoClient, plan: EvaluationPlan, *, retry_errors: bool) -> StartedExperiment:
    """Start the experiment, or find it where it is under way or finished.

    One that was interrupted goes on with the results that it has. The thresholds of a finished one are judged again
    where the file now has others: nothing runs for that. Results of other experiments of the same name are
    taken over where everything is the same that they depend on. Raises UsageError and errors of the connection.
    """
    listed = await list_experiments(client.temporal)
    units = len(plan.units)
    same = await read_listing(client.temporal, plan.workflow)
    if same is not None and same.facts.digest not in ("", plan.identity.digest):
        raise EffectFailed(f"'{plan.workflow}' is the id of another experiment, with the digest {same.facts.digest}")
    if same is not None and same.state == "running":
        if retry_errors:
            raise UsageError(
                f"experiment '{same.workflow}' is still running; errors are retried once it has ended",
                next_step="Run the same command without --retry-errors to watch it.",
            )
        return StartedExperiment(experiment=same.workflow, how="attached", total=units)
    if same is not None and same.state == "completed" and not (retry_errors and same.facts.errors):
        return await _judged_again(client, plan, same)
    blobs = _blobs(client)
    taken: dict[str, CaseResult] = {}
    if same is not None:
        _take(taken, plan, await read_remains(client.temporal, same, blobs), origin="")
    others = [one for one in named(listed, plan.spec.name) if one.workflow != plan.workflow and one.facts.record]
    read: list[ExperimentRecord] = []
    for one in others[:LOOKED_AT]:
        with suppress(EffectFailed, KeyMismatch, UsageError):  # it may be of a workshop with blobs of its own
            read.append((await read_listed(client.temporal, one)).record)
    for record in read:
        _take(taken, plan, record.results, origin=record.workflow)
    plan = plan if same is None else _next_round(plan, same)
    kept = {name: await asyncio.to_thread(_keep, blobs, result) for name, result in taken.items()}
    begun = await _start_workflow(client, blobs, plan.model_copy(update={"retry_errors": retry_errors, "taken": kept}))
    return StartedExperiment(
        experiment=plan.workflow,
        how="attached" if not begun else "started" if same is None else "resumed",
        total=units,
        taken=len(taken),
        differs=differences(read[0].identity, plan.identity) if read and same is None else (),
        differs_from=read[0].workflow if read and same is None else "",
    )


def _next_round(plan: EvaluationPlan, same: ExperimentListing) -> EvaluationPlan:
    """Return the plan of one more start of the same experiment."""
    facts = same.facts
    return plan.model_copy(update={"started_at": facts.started_at or plan.started_at, "round": facts.round + 1})


async def _judged_again(client: LlmDoClient, plan: EvaluationPlan, same: ExperimentListing) -> StartedExperiment:
    """Return the finished experiment. Where the thresholds are others now, its record is written again with them."""
    units = len(plan.units)
    record = (await read_listed(client.temporal, same)).record
    if record.spec.thresholds == plan.spec.thresholds:
        return StartedExperiment(experiment=same.workflow, how="finished", total=units)
    plan = _next_round(plan, same)
    memo = same.facts.model_copy(update={"round": plan.round, "passed": None})
    done = ContinuedEvaluation(next=units, record=same.facts.record, recorded=len(record.results), memo=memo)
    begun = await _start_workflow(client, _blobs(client), plan, done)
    how = "resumed" if begun else "attached"
    return StartedExperiment(experiment=same.workflow, how=how, total=units, taken=len(record.results))


def _take(taken: dict[str, CaseResult], plan: EvaluationPlan, found: Sequence[CaseResult], *, origin: str) -> None:
    """Take over the results with the keys of this experiment that no newer one has given, by the names of units.

    `origin` is the experiment that has them, by its workflow id; empty: it is this one.
    """
    by_key = {one.key: one for one in found if one.key}
    for unit in plan.units:
        result = by_key.get(case_key(plan.identity, unit.case, unit.repeat))
        if result is not None and unit.name not in taken:
            taken[unit.name] = result.model_copy(update={"origin": result.origin or origin})


def _keep(blobs: BlobStore, value: EvaluationPlan | CaseResult) -> str:
    return blobs.put_bytes(value.model_dump_json().encode())


def _blobs(client: LlmDoClient) -> BlobStore:
    blobs = blobs_of(client.temporal.data_converter)
    if blobs is None:
        raise UsageError(
            "an evaluation needs the workshop's blobs, in which its results are kept",
            next_step="Go to the workshop's folder, or name it with --workshop DIR.",
        )
    return blobs


async def _start_workflow(
    client: LlmDoClient, blobs: BlobStore, plan: EvaluationPlan, done: ContinuedEvaluation | None = None
) -> bool:
    """Start the workflow, and return whether it was this start that did; not where somebody else was quicker.

    `done` is what the workflow goes on from; None: it begins with the first case.
    """
    spec, units = plan.spec, len(plan.units)
    digest = await asyncio.to_thread(_keep, blobs, plan)
    start = RunEvaluationInput(plan=digest, units=units, concurrency=spec.concurrency, continued=done)
    try:
        async with translated():
            await client.temporal.start_workflow(
                EVALUATION_WORKFLOW,
                start,
                id=plan.workflow,
                task_queue=client.task_queue,
                task_timeout=TASK_TIMEOUT,
                memo={EVALUATION_MEMO: plan.memo if done is None else done.memo},
                static_summary=f"{spec.name}: {units} runs of {spec.worker}"[:SUMMARY_CHARS],
                priority=Priority(priority_key=BATCH_PRIORITY, fairness_key=fairness_key(plan.workflow)),
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            )
    except WorkflowAlreadyStartedError:
        return False
    return True
