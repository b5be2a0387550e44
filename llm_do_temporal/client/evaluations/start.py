"""Start of an experiment: its plan, made of the evaluation file and the workshop, and what it takes over from others.

Owns the choice between an experiment that goes on, one that is finished, and one that has to be started. The command
line only says which file is meant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.evaluations.definitions import functions_of, involved_in
from llm_do_temporal.client.evaluations.listings import (
    ExperimentListing,
    find_experiment,
    list_experiments,
    named,
    read_listing,
)
from llm_do_temporal.client.evaluations.records import Experiment, read_listed
from llm_do_temporal.client.evaluations.remains import read_remains
from llm_do_temporal.client.start import LocalWorker, load_local_worker
from llm_do_temporal.definitions.workshop.workshop import load_workshop
from llm_do_temporal.errors import EffectFailed, KeyMismatch, UsageError
from llm_do_temporal.messages.base import TASK_TIMEOUT
from llm_do_temporal.messages.experiments.evaluations import ContinuedEvaluation, EvaluationPlan, RunEvaluationInput
from llm_do_temporal.messages.experiments.results import (
    EVALUATION_MEMO,
    EVALUATION_WORKFLOW,
    CaseResult,
    EvaluationMemo,
)
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.messages.sizes import SUMMARY_CHARS
from llm_do_temporal.policy.evaluations.experiment import (
    ExperimentIdentity,
    case_key,
    differences,
    experiment_identity,
)
from llm_do_temporal.policy.evaluations.run_ids import experiment_id
from llm_do_temporal.policy.evaluations.spec import EXPECTED, EvaluationSpec
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.queues import BATCH_PRIORITY, fairness_key
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of

LOOKED_AT = 20
"""Newest experiments of the same name whose results may be taken over."""
_BESIDE = frozenset({"models", "queues", "search_attributes", "live_text", "aside", "scripted", "mode", "review"})
"""Settings of a run on which results do not depend, or that are in the identity by themselves."""


@dataclass(frozen=True)
class EvaluationDraft:
    """Evaluation as its files are now, ready to be planned."""

    spec: EvaluationSpec
    identity: ExperimentIdentity
    attachments: dict[str, Attachment]
    others: dict[str, Any]
    """Other answers of a judge's pairs, by the names of units."""
    environment_model: str | None
    started_by: str

    @property
    def workflow(self) -> str:
        """Workflow id of the experiment."""
        return experiment_id(self.spec.name, self.identity.digest)


@dataclass(frozen=True)
class BegunExperiment:
    """Experiment that was started, or found."""

    workflow: str
    how: Literal["started", "resumed", "attached", "finished"]
    total: int
    """Number of repeats of cases."""
    taken: int = 0
    """Number of results that are taken over."""
    differs: tuple[str, ...] = ()
    """Differences to the newest other experiment of this name, in words."""
    differs_from: str = ""
    """Workflow id of that one; empty: there is none."""


@dataclass
class _TakenOver:
    """Results that an experiment takes over, by the names of units."""

    results: dict[str, CaseResult] = field(default_factory=dict[str, CaseResult])


async def draft_evaluation(
    client: LlmDoClient,
    spec: EvaluationSpec,
    workshop: Path,
    *,
    environment_model: str | None,
    started_by: str,
) -> EvaluationDraft:
    """Return the evaluation with everything that its results depend on; attached files are in the blob store then.

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
    missing = [case.id for case in spec.cases if f"{case.id}#1" not in answers]
    if missing:
        raise UsageError(
            f"the judge compares with experiment '{found.workflow}', which has no answer for case '{missing[0]}'"
        )
    for case in spec.cases:
        for repeat in range(2, spec.repeats + 1):
            answers.setdefault(f"{case.id}#{repeat}", answers[f"{case.id}#1"])
    return answers, {f"experiment {found.workflow}": digest_of(answers)}


def _draft(
    spec: EvaluationSpec,
    folder: Path,
    others: dict[str, Any],
    baseline: dict[str, str],
    environment_model: str | None,
    started_by: str,
) -> EvaluationDraft:
    workshop, worker = load_workshop(folder), load_local_worker(folder, spec.worker)
    attachments = _attach(spec, worker, workshop.root)
    if spec.judge is not None:
        load_local_worker(folder, spec.judge.worker)
    found = involved_in(spec, workshop, environment_model)
    settings, entry, judge = found.settings, found.entry, found.judge
    for case in spec.cases:
        worker.check_input(StartRunInput(worker=spec.worker, prompt=case.prompt, input=case.input))
    identity = experiment_identity(
        spec,
        definitions=entry.definitions,
        models=entry.models,
        attachments={path: one.sha256 for path, one in attachments.items()},
        judge_definitions=None if judge is None else {**judge.definitions, **baseline},
        judge_models=None if judge is None else judge.models,
        settings=_settings(settings.model_dump(mode="json", exclude=set(_BESIDE))),
        functions=functions_of(workshop, spec),
    )
    return EvaluationDraft(spec, identity, attachments, others, environment_model, started_by)


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of the workshop for the identity: short values as they are, of others the digest."""
    return {
        f"workshop.{name}": value if isinstance(value, str | int | float | bool) else digest_of(value)[:32]
        for name, value in values.items()
        if value not in (None, {}, [], "")
    }


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


async def begin_experiment(client: LlmDoClient, draft: EvaluationDraft, *, retry_errors: bool) -> BegunExperiment:
    """Start the experiment, or find it where it is under way or finished.

    One that was interrupted goes on with the results that it has. The thresholds of a finished one are judged again
    where the file now has others: nothing runs for that. Results of other experiments of the same name are
    taken over where everything is the same that they depend on. Raises UsageError and errors of the connection.
    """
    listed = await list_experiments(client.temporal)
    units = len(draft.spec.cases) * draft.spec.repeats
    same = await read_listing(client.temporal, draft.workflow)
    if same is not None and same.facts.digest not in ("", draft.identity.digest):
        raise EffectFailed(f"'{draft.workflow}' is the id of another experiment, with the digest {same.facts.digest}")
    if same is not None and same.state == "running":
        if retry_errors:
            raise UsageError(
                f"experiment '{same.workflow}' is still running; errors are retried once it has ended",
                next_step="Run the same command without --retry-errors to watch it.",
            )
        return BegunExperiment(same.workflow, "attached", units)
    if same is not None and same.state == "completed" and not (retry_errors and same.facts.errors):
        return await _judged_again(client, draft, same)
    blobs = _blobs(client)
    taken = _TakenOver()
    if same is not None:
        _take(taken, draft, await read_remains(client.temporal, same, blobs), origin="")
    others = [one for one in named(listed, draft.spec.name) if one.workflow != draft.workflow and one.facts.record]
    read = [found for one in others[:LOOKED_AT] if (found := await _read_other(client, one)) is not None]
    for experiment in read:
        _take(taken, draft, experiment.record.results, origin=experiment.record.workflow)
    plan = await asyncio.to_thread(_plan, draft, same, taken, blobs, retry_errors)
    begun = await _start(client, draft, plan, await asyncio.to_thread(_keep, blobs, plan))
    return BegunExperiment(
        draft.workflow,
        "attached" if not begun else "started" if same is None else "resumed",
        units,
        len(taken.results),
        differences(read[0].record.identity, draft.identity) if read and same is None else (),
        read[0].record.workflow if read and same is None else "",
    )


async def _judged_again(client: LlmDoClient, draft: EvaluationDraft, same: ExperimentListing) -> BegunExperiment:
    """Return the finished experiment. Where the thresholds are others now, its record is written again with them."""
    units = len(draft.spec.cases) * draft.spec.repeats
    record = (await read_listed(client.temporal, same)).record
    if record.spec.thresholds == draft.spec.thresholds:
        return BegunExperiment(same.workflow, "finished", units)
    blobs = _blobs(client)
    plan = await asyncio.to_thread(_plan, draft, same, _TakenOver(), blobs, retry_errors=False)
    memo = same.facts.model_copy(update={"round": plan.round, "passed": None})
    done = ContinuedEvaluation(next=units, record=same.facts.record, recorded=len(record.results), memo=memo)
    begun = await _start(client, draft, plan, await asyncio.to_thread(_keep, blobs, plan), done)
    return BegunExperiment(same.workflow, "resumed" if begun else "attached", units, len(record.results))


async def _read_other(client: LlmDoClient, listed: ExperimentListing) -> Experiment | None:
    """Return another experiment; None where it cannot be read: it may be of a workshop with blobs of its own."""
    try:
        return await read_listed(client.temporal, listed)
    except (EffectFailed, KeyMismatch, UsageError):
        return None


def _take(taken: _TakenOver, draft: EvaluationDraft, found: Sequence[CaseResult], *, origin: str) -> None:
    """Take over the results with the keys of this experiment that no newer one has given.

    `origin` is the experiment that has them, by its workflow id; empty: it is this one.
    """
    by_key = {one.key: one for one in found if one.key}
    for case in draft.spec.cases:
        for repeat in range(1, draft.spec.repeats + 1):
            name = f"{case.id}#{repeat}"
            result = by_key.get(case_key(draft.identity, case.id, repeat))
            if result is None or name in taken.results:
                continue
            taken.results[name] = result.model_copy(update={"origin": result.origin or origin})


def _plan(
    draft: EvaluationDraft,
    same: ExperimentListing | None,
    taken: _TakenOver,
    blobs: BlobStore,
    retry_errors: bool,
) -> EvaluationPlan:
    return EvaluationPlan(
        workflow=draft.workflow,
        spec=draft.spec,
        identity=draft.identity,
        started_by=draft.started_by,
        started_at=(same.facts.started_at if same is not None else None) or datetime.now(UTC),
        round=1 if same is None else same.facts.round + 1,
        attachments=draft.attachments,
        environment_model=draft.environment_model,
        retry_errors=retry_errors,
        taken={name: _keep(blobs, result) for name, result in taken.results.items()},
        others=draft.others,
    )


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


async def _start(
    client: LlmDoClient,
    draft: EvaluationDraft,
    plan: EvaluationPlan,
    digest: str,
    done: ContinuedEvaluation | None = None,
) -> bool:
    """Start the workflow, and return whether it was this start that did; not where somebody else was quicker.

    `done` is what the workflow goes on from; None: it begins with the first case.
    """
    spec = draft.spec
    memo = done.memo if done is not None else _memo(draft, plan)
    start = RunEvaluationInput(plan=digest, units=len(plan.units), concurrency=spec.concurrency, continued=done)
    try:
        async with translated():
            await client.temporal.start_workflow(
                EVALUATION_WORKFLOW,
                start,
                id=draft.workflow,
                task_queue=client.task_queue,
                task_timeout=TASK_TIMEOUT,
                memo={EVALUATION_MEMO: memo},
                static_summary=f"{spec.name}: {len(plan.units)} runs of {spec.worker}"[:SUMMARY_CHARS],
                priority=Priority(priority_key=BATCH_PRIORITY, fairness_key=fairness_key(draft.workflow)),
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            )
    except WorkflowAlreadyStartedError:
        return False
    return True


def _memo(draft: EvaluationDraft, plan: EvaluationPlan) -> EvaluationMemo:
    """Return the facts about an experiment that has no results yet."""
    spec = draft.spec
    return EvaluationMemo(
        name=spec.name,
        digest=draft.identity.digest,
        worker=spec.worker,
        worker_version=digest_of(dict(draft.identity.definitions)),
        model=draft.identity.models.get(spec.worker, ""),
        judge="" if spec.judge is None else spec.judge.worker,
        cases=len(spec.cases),
        repeats=spec.repeats,
        round=plan.round,
        started_at=plan.started_at,
    )
