"""Experiments for `certify`, which does one again for each event of its history and compares what is left."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowFailureError

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connections import translated
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.evaluations.client import read_failure, read_record
from llm_do_temporal.extensions.evaluations.messages import JUDGE_CASE, SCORE_CASE, CollectedResults, ExperimentRecord
from llm_do_temporal.extensions.evaluations.policy.scores import EXPECTED, CaseResult, EvaluationSpec, MaxSeconds
from llm_do_temporal.extensions.evaluations.start import (
    begin_experiment,
    draft_evaluation,
    find_evaluation,
    involved_in,
)
from llm_do_temporal.login import login_name
from llm_do_temporal.policy.models import Aliases
from llm_do_temporal.storage.places import workshop_blobs

__all__ = [
    "COUNTED",
    "begin",
    "check_evaluation",
    "compared_parts",
    "compared_whole",
    "find_evaluation",
    "owners_of",
    "record_at_end",
]
COUNTED = (SCORE_CASE.name, JUDGE_CASE.name)
"""Activities that must have been run as often."""
_NAMES = {"name", "workflow", "started_at", "ended_at"}


def check_evaluation(spec: EvaluationSpec, folder: Path) -> tuple[Sequence[str], Aliases]:
    """Return the models that an experiment asks, and the workshop's aliases.

    Raises UsageError for an evaluation that cannot be done again elsewhere, and DefinitionError.
    """
    against = None if spec.judge is None else spec.judge.against
    if against not in (None, EXPECTED):
        raise UsageError(
            f"the judge compares with experiment '{against}', which the server of a proof does not have",
            next_step=f"Take a judge of single answers, or `against: {EXPECTED}`.",
        )
    settings, entry, judge = involved_in(spec, load_workshop(folder), os.environ.get("LLM_DO_MODEL") or None)
    models = {*entry.models.values(), *({} if judge is None else judge.models).values()}
    return sorted(models), settings.models.aliases


async def begin(client: LlmDoClient, spec: EvaluationSpec, folder: Path) -> tuple[str, set[str]]:
    """Begin the experiment, and return its workflow id with the models that it asks."""
    model = os.environ.get("LLM_DO_MODEL") or None
    draft = await draft_evaluation(client, spec, folder, environment_model=model, started_by=login_name())
    judge = draft.identity.judge
    models = {*draft.identity.models.values(), *({} if judge is None else judge.models).values()}
    return (await begin_experiment(client, draft, retry_errors=False)).experiment, models


async def record_at_end(client: LlmDoClient, workflow: str, folder: Path) -> ExperimentRecord:
    """Wait for the end of an experiment, and return its record. Raises RunFailed where it has failed."""
    handle = client.temporal.get_workflow_handle(workflow, result_type=CollectedResults)
    try:
        async with translated(workflow):
            end = await handle.result()
    except WorkflowFailureError:
        raise await read_failure(client.temporal, workflow) from None
    return read_record(workshop_blobs(folder), end.record)


def owners_of(record: ExperimentRecord) -> dict[str, str]:
    """Return the names of the repeats of cases, by the paths of the runs that each of them needed."""
    before = f"{record.workflow}-"
    return {
        run.removeprefix(before): result.name
        for result in record.results
        for run in (result.run, *(judge.run for judge in result.judges))
    }


def compared_whole(record: ExperimentRecord) -> dict[str, Any]:
    """Return what must be the same of an experiment beside its results."""
    return record.model_dump(mode="json", exclude={*_NAMES, "spec", "results"})


def compared_parts(record: ExperimentRecord) -> dict[str, dict[str, Any]]:
    """Return the results by the names of repeats of cases, without what differs each time: ids of runs, and times."""
    return {one.name: _comparable(one, record.spec) for one in record.results}


def _comparable(result: CaseResult, spec: EvaluationSpec) -> dict[str, Any]:
    left = result.model_dump(
        mode="json", exclude={"run": True, "facts": {"seconds"}, "judges": {"__all__": {"run", "seconds"}}}
    )
    case = spec.case(result.case)
    timed = {one.metric for one in (spec.evaluators_of(case) if case else ()) if isinstance(one, MaxSeconds)}
    left["scores"]["scores"] = [one for one in left["scores"]["scores"] if one["name"] not in timed]
    return left
