"""Evaluations for doors: experiments begun, listed, and read once they have results.

For people alone: an evaluation runs workers that nobody exported, in modes that its file says, and decides by itself.
"""

from __future__ import annotations

import asyncio
import os

from llm_do_temporal.client.evaluations.experiments import (
    ExperimentListing,
    compare_records,
    find_experiment,
    list_experiments,
    read_listed,
    read_listing,
    read_pair,
)
from llm_do_temporal.client.evaluations.start import (
    begin_experiment,
    chosen_cases,
    draft_evaluation,
    evaluation_named,
    evaluation_names,
)
from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values.experiments import (
    ExperimentCaseResult,
    ExperimentComparison,
    ExperimentFacts,
    ExperimentResults,
    ExperimentStart,
    StartedExperiment,
)
from llm_do_temporal.errors import UnknownHere, UsageError
from llm_do_temporal.policy.evaluations.spec import EvaluationSpec

MOST_RESULTS = 500
"""Most results in one part."""


async def list_evaluations(service: DoorService, who: Principal) -> list[str]:
    """Return the names of the workshop's evaluations."""
    _check(who, TokenScope.START)
    return await asyncio.to_thread(evaluation_names, service.folder())


async def start_experiment(service: DoorService, who: Principal, start: ExperimentStart) -> StartedExperiment:
    """Start an experiment, or go on with it, or find the finished one. Raises DefinitionError, UsageError."""
    _check(who, TokenScope.START)
    spec = await asyncio.to_thread(_spec, service, start)
    draft = await draft_evaluation(
        service.client,
        spec,
        service.folder(),
        environment_model=os.environ.get("LLM_DO_MODEL") or None,
        started_by=who.name,
    )
    return StartedExperiment.of(await begin_experiment(service.client, draft, retry_errors=start.retry_errors))


async def experiments(service: DoorService, who: Principal) -> list[ExperimentFacts]:
    """Return the experiments that the server knows, the newest first."""
    _check(who, TokenScope.READ)
    return [ExperimentFacts.of(one) for one in await list_experiments(service.client.temporal)]


async def experiment(service: DoorService, who: Principal, reference: str) -> ExperimentFacts:
    """Return an experiment with its progress. Raises UnknownHere."""
    _check(who, TokenScope.READ)
    return ExperimentFacts.of(await _listed(service, reference))


async def results(
    service: DoorService, who: Principal, reference: str, *, after: int = 0, limit: int = MOST_RESULTS
) -> ExperimentResults:
    """Return the results of an experiment behind the first `after` of them. Raises UnknownHere, UsageError."""
    _check(who, TokenScope.READ)
    record = (await read_listed(service.client.temporal, await _listed(service, reference))).record
    part, more = record.results[after : after + limit], len(record.results) > after + limit
    return ExperimentResults(
        experiment=record.workflow,
        thresholds=record.gate.verdicts,
        results=tuple(map(ExperimentCaseResult.of, part)),
        following=after + limit if more else None,
    )


async def compare(service: DoorService, who: Principal, one: str, other: str) -> ExperimentComparison:
    """Compare two experiments case by case. Raises UsageError where they cannot be compared."""
    _check(who, TokenScope.READ)
    first, second = await read_pair(service.client.temporal, one, other)
    compared = compare_records(first.record, second.record)
    return ExperimentComparison(
        one=ExperimentFacts.of(first.listing),
        other=ExperimentFacts.of(second.listing),
        is_worse=compared.is_worse,
        differences=compared.differences,
        comparison=compared.comparison,
    )


def _check(who: Principal, scope: TokenScope) -> None:
    who.check(scope)
    who.check_present("evaluates workers, or reads what came of it")


def _spec(service: DoorService, start: ExperimentStart) -> EvaluationSpec:
    return chosen_cases(evaluation_named(start.evaluation, service.folder(), start.worker), start.repeats, start.cases)


async def _listed(service: DoorService, reference: str) -> ExperimentListing:
    """Return the experiment that is meant, as the server itself has it: lists are moments behind."""
    client = service.client.temporal
    try:
        listed = find_experiment(await list_experiments(client), reference)
    except UsageError as error:
        found = await read_listing(client, reference)
        if found is None or not found.facts.digest:
            raise UnknownHere(error.message, next_step=error.next_step) from None
        return found
    return await read_listing(client, listed.workflow) or listed
