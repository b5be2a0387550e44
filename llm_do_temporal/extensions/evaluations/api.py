"""Evaluations for doors: experiments begun, listed, compared, and read once they have results.

For people alone: an evaluation runs workers that nobody exported, in modes that its file says, and decides by itself.
"""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Response
from pydantic import AwareDatetime, ConfigDict, Field

from llm_do_temporal.doors.http.requests import PREFIX, After, Caller, Service, TokenFirst
from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import RequestBody, ResponseValue
from llm_do_temporal.errors import UnknownHere, UsageError
from llm_do_temporal.extensions.evaluations.client import (
    ExperimentListing,
    compare_records,
    find_experiment,
    list_experiments,
    read_listed,
    read_listing,
    read_pair,
)
from llm_do_temporal.extensions.evaluations.messages import ExperimentFigures, StartedExperiment
from llm_do_temporal.extensions.evaluations.policy.figures import Comparison, ThresholdVerdict
from llm_do_temporal.extensions.evaluations.policy.scores import MAX_REPEATS, CaseError, CaseResult, CaseUsage
from llm_do_temporal.extensions.evaluations.start import (
    begin_experiment,
    chosen_cases,
    draft_evaluation,
    evaluation_named,
    evaluation_names,
)
from llm_do_temporal.messages.base import Json
from llm_do_temporal.policy.models import CutReason
from llm_do_temporal.redaction.configured_keys import without_keys
from llm_do_temporal.remote import RemoteClient

_Name = Annotated[str, Field(min_length=1, max_length=200)]


class ExperimentStart(RequestBody):
    """Evaluation to be run, or gone on with."""

    evaluation: _Name
    """Name of an evaluation file of the workshop, without `.eval.yaml`."""
    repeats: int | None = Field(default=None, ge=1, le=MAX_REPEATS)
    """Times that each case is run; null: as the file says."""
    cases: Annotated[tuple[_Name, ...], Field(max_length=10_000)] = ()
    """Ids of the cases that are run; none: all."""
    worker: str | None = Field(default=None, min_length=1, max_length=500)
    """Worker to evaluate; null: the file's."""
    retry_errors: bool = False
    """Whether cases are run again that ended in an error."""


class ExperimentFacts(ExperimentFigures):
    """Experiment as it is now."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)
    experiment: str
    """Id of the experiment."""
    evaluation: str
    state: str
    """`running`, `completed`, `failed`, `cancelled`, `terminated` or `timed out`."""
    started_at: AwareDatetime
    ended_at: AwareDatetime | None
    total: int
    """Number of repeats of cases."""
    has_results: bool
    """Whether results of cases can be read already."""

    @classmethod
    def of(cls, listed: ExperimentListing) -> ExperimentFacts:
        """Return the experiment as the server lists it."""
        # Fields that are called the same in the memo are that.
        others: dict[str, Any] = {
            "experiment": listed.workflow,
            "evaluation": listed.facts.name,
            "state": listed.state,
            "started_at": listed.started_at,
            "ended_at": listed.ended_at,
            "total": listed.total,
            "has_results": bool(listed.facts.record),
        }
        return cls.model_validate(dict(listed.facts) | others)


class ExperimentCaseResult(ResponseValue):
    """Result of one repeat of a case."""

    case: str
    repeat: int
    run: str
    """Id of its run."""
    origin: str
    """Experiment that it was taken over from; empty: it was run for this one."""
    output: Json
    truncated: CutReason | None = None
    """Reason why the answer was cut; null: it was not."""
    error: CaseError | None
    scores: dict[str, bool | float | str]
    reasons: dict[str, str]
    """Reasons of scores, by their metrics."""
    failures: dict[str, str]
    """Evaluators that could not judge it, with the reasons."""
    usage: CaseUsage
    seconds: float | None

    @classmethod
    def of(cls, result: CaseResult) -> ExperimentCaseResult:
        """Return the result without configured keys."""
        told = {**result.told(), "truncated": result.facts.truncated}
        told |= {name: without_keys(told[name]) for name in ("output", "error", "reasons", "failures")}
        return cls.model_validate(told)


class ExperimentResults(ResponseValue):
    """Part of the results of an experiment, in the order of its cases."""

    experiment: str
    thresholds: tuple[ThresholdVerdict, ...]
    """Thresholds, each kept or not, over all results so far."""
    results: tuple[ExperimentCaseResult, ...]
    following: int | None
    """`after` of the next part; null: there is no more."""


class ExperimentComparison(ResponseValue):
    """Comparison of two experiments, of which the second is judged."""

    one: ExperimentFacts
    other: ExperimentFacts
    is_worse: bool
    """Whether the second is worse by any metric."""
    differences: tuple[str, ...]
    """Differences of what they depend on, in words."""
    comparison: Comparison


MOST_RESULTS = 500
"""Most results in one part."""
_MEANT = "Id of an experiment, the name of its evaluation, `NAME@-1`, or the beginning of its digest."
ExperimentId = Annotated[str, Path(description=_MEANT, min_length=1, max_length=300)]
ExperimentName = Annotated[str, Query(description=_MEANT, min_length=1, max_length=300)]
router = APIRouter(prefix=PREFIX, tags=["evaluations"], route_class=TokenFirst)


@router.get("/evaluations")
async def list_evaluations(service: Service, caller: Caller) -> list[str]:
    """List the names of the workshop's evaluations."""
    _check(caller, TokenScope.START)
    return await asyncio.to_thread(evaluation_names, service.folder())


@router.post("/experiments", status_code=202)
async def start_experiment(
    service: Service, caller: Caller, start: ExperimentStart, response: Response
) -> StartedExperiment:
    """Run an evaluation, go on with it, or find the finished one: the same files are the same experiment."""
    _check(caller, TokenScope.START)
    named = await asyncio.to_thread(evaluation_named, start.evaluation, service.folder(), start.worker)
    spec = chosen_cases(named, start.repeats, start.cases)
    draft = await draft_evaluation(
        service.client,
        spec,
        service.folder(),
        environment_model=os.environ.get("LLM_DO_MODEL") or None,
        started_by=caller.name,
    )
    begun = await begin_experiment(service.client, draft, retry_errors=start.retry_errors)
    response.headers["Location"] = f"{PREFIX}/experiments/{quote(begun.experiment, safe='')}"
    return begun


@router.get("/experiments")
async def list_of_experiments(service: Service, caller: Caller) -> list[ExperimentFacts]:
    """List the experiments that the server knows, the newest first."""
    _check(caller, TokenScope.READ)
    return [ExperimentFacts.of(one) for one in await list_experiments(service.client.temporal)]


@router.get("/experiments/{experiment}")
async def get_experiment(service: Service, caller: Caller, experiment: ExperimentId) -> ExperimentFacts:
    """Return an experiment with its progress and its figures so far."""
    _check(caller, TokenScope.READ)
    return ExperimentFacts.of(await _listed(service, experiment))


@router.get("/experiments/{experiment}/results")
async def list_results_of_experiment(
    service: Service,
    caller: Caller,
    experiment: ExperimentId,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_RESULTS)] = MOST_RESULTS,
) -> ExperimentResults:
    """List the results of an experiment in the order of its cases, and whether its thresholds are kept."""
    _check(caller, TokenScope.READ)
    record = (await read_listed(service.client.temporal, await _listed(service, experiment))).record
    part, more = record.results[after : after + limit], len(record.results) > after + limit
    return ExperimentResults(
        experiment=record.workflow,
        thresholds=record.gate.verdicts,
        results=tuple(map(ExperimentCaseResult.of, part)),
        following=after + limit if more else None,
    )


@router.get("/comparison")
async def compare_experiments(
    service: Service, caller: Caller, one: ExperimentName, other: ExperimentName
) -> ExperimentComparison:
    """Compare two experiments case by case; the second one is judged."""
    _check(caller, TokenScope.READ)
    first, second = await read_pair(service.client.temporal, one, other)
    compared = compare_records(first.record, second.record)
    return ExperimentComparison(
        one=ExperimentFacts.of(first.listing),
        other=ExperimentFacts.of(second.listing),
        is_worse=compared.is_worse,
        differences=compared.differences,
        comparison=compared.comparison,
    )


async def evaluations(client: RemoteClient) -> list[str]:
    """Return the names of the workshop's evaluations; only a person may, here and below."""
    return await client.requests.get(list[str], "/evaluations")


async def evaluate(client: RemoteClient, start: ExperimentStart) -> StartedExperiment:
    """Run an evaluation, go on with it, or find the finished experiment."""
    return await client.requests.post(StartedExperiment, "/experiments", start)


async def experiments(client: RemoteClient) -> list[ExperimentFacts]:
    """Return the experiments that the server knows, the newest first."""
    return await client.requests.get(list[ExperimentFacts], "/experiments")


async def experiment(client: RemoteClient, experiment: str) -> ExperimentFacts:
    """Return an experiment with its progress and its figures so far."""
    return await client.requests.get(ExperimentFacts, f"/experiments/{quote(experiment, safe='')}")


async def results(client: RemoteClient, experiment: str, *, after: int = 0) -> ExperimentResults:
    """Return a part of the results of an experiment, behind the first `after` of them."""
    path = f"/experiments/{quote(experiment, safe='')}/results"
    return await client.requests.get(ExperimentResults, path, after=after)


async def compare(client: RemoteClient, one: str, other: str) -> ExperimentComparison:
    """Compare two experiments case by case; the second one is judged."""
    return await client.requests.get(ExperimentComparison, "/comparison", one=one, other=other)


def _check(who: Principal, scope: TokenScope) -> None:
    who.check(scope)
    who.check_present("evaluates workers, or reads what came of it")


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
