"""Routes of evaluations, which are for people: experiments begun, watched, read and compared."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Response

from llm_do_temporal.doors import experiments
from llm_do_temporal.doors.http.requests import PREFIX, After, Caller, Service, TokenFirst
from llm_do_temporal.doors.values.experiments import (
    ExperimentComparison,
    ExperimentFacts,
    ExperimentResults,
    ExperimentStart,
    StartedExperiment,
)

router = APIRouter(prefix=PREFIX, tags=["evaluations"], route_class=TokenFirst)
_MEANT = "Id of an experiment, the name of its evaluation, `NAME@-1`, or the beginning of its digest."
ExperimentId = Annotated[str, Path(description=_MEANT, min_length=1, max_length=300)]
ExperimentName = Annotated[str, Query(description=_MEANT, min_length=1, max_length=300)]


@router.get("/evaluations")
async def list_evaluations(service: Service, caller: Caller) -> list[str]:
    """List the names of the workshop's evaluations."""
    return await experiments.list_evaluations(service, caller)


@router.post("/experiments", status_code=202)
async def start_experiment(
    service: Service, caller: Caller, start: ExperimentStart, response: Response
) -> StartedExperiment:
    """Run an evaluation, go on with it, or find the finished one: the same files are the same experiment."""
    begun = await experiments.start_experiment(service, caller, start)
    response.headers["Location"] = f"{PREFIX}/experiments/{quote(begun.experiment, safe='')}"
    return begun


@router.get("/experiments")
async def list_of_experiments(service: Service, caller: Caller) -> list[ExperimentFacts]:
    """List the experiments that the server knows, the newest first."""
    return await experiments.experiments(service, caller)


@router.get("/experiments/{experiment}")
async def get_experiment(service: Service, caller: Caller, experiment: ExperimentId) -> ExperimentFacts:
    """Return an experiment with its progress and its figures so far."""
    return await experiments.experiment(service, caller, experiment)


@router.get("/experiments/{experiment}/results")
async def list_results_of_experiment(
    service: Service,
    caller: Caller,
    experiment: ExperimentId,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=experiments.MOST_RESULTS)] = experiments.MOST_RESULTS,
) -> ExperimentResults:
    """List the results of an experiment in the order of its cases, and whether its thresholds are kept."""
    return await experiments.results(service, caller, experiment, after=after, limit=limit)


@router.get("/comparison")
async def compare_experiments(
    service: Service, caller: Caller, one: ExperimentName, other: ExperimentName
) -> ExperimentComparison:
    """Compare two experiments case by case; the second one is judged."""
    return await experiments.compare(service, caller, one, other)
