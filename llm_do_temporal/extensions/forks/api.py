"""Forks over the HTTP API: their values, their routes, and the methods of `RemoteClient` that call these.

Forks are for people: what they reuse was decided for another run. Changed workers, decisions and results stay with the
command line, whose user has the workshop's files anyway.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import Field

from llm_do_temporal.doors.http.requests import PREFIX, Caller, Key, RunId, Service, TokenFirst, located
from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.doors.service import DoorService, run_id
from llm_do_temporal.doors.values import RequestBody, ResponseValue, Run
from llm_do_temporal.extensions.forks.client_forks import ForkPlan, ForkRequest, plan_fork
from llm_do_temporal.extensions.forks.policy.changes import ForkEstimate
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.remote import RemoteClient, run_path
from llm_do_temporal.storage.places import workshop_blobs

_Places = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=1_000)], ...], Field(max_length=100)]


class Fork(RequestBody):
    """Changes of a run that is done once more. Without any, all is reused, and the result is the same."""

    at: _Places = ()
    """Turns from which an invocation is done anew, like `main@2`."""
    no_reuse: _Places = ()
    """Paths of invocations that are done anew, with all below them."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Model of workers that name none; null: as it was."""
    files: Literal["then", "now"] = "then"
    """Whether what was read of files and workers counts as it was then, or is read now."""


class ForkForecast(ResponseValue):
    """Plan of a fork: what it reuses, what runs, and what that may cost."""

    fork_of: str
    """Id of the run that is forked."""
    is_free: bool
    """Whether no model is asked anything."""
    estimate: ForkEstimate
    warnings: tuple[str, ...]


router = APIRouter(prefix=PREFIX, tags=["runs"], route_class=TokenFirst)


@router.post("/runs/{run}/forks", status_code=202)
async def fork_run(
    service: Service, caller: Caller, run: RunId, changes: Fork, response: Response, key: Key = None
) -> Run:
    """Do a run once more with changes, for a person; what they leave as it was is reused, and files stay aside."""
    await _check_fork(service, caller, run)
    worker = (await service.client.status(run)).worker

    async def prepared(warnings: list[str]) -> StartRunInput:
        plan = await _planned(service, caller, run, changes)
        warnings.extend(plan.warnings)
        return plan.prepared(workshop_blobs(service.folder()))

    name = None if key is None else run_id(caller, worker, f"fork of {run}\0{key}")
    return located((await service.begin(caller, worker, name, changes, prepared))[0], response)


@router.post("/runs/{run}/forks/forecast")
async def forecast_fork(service: Service, caller: Caller, run: RunId, changes: Fork) -> ForkForecast:
    """Return what a fork would reuse, what would run and what that may cost, and start nothing."""
    plan = await _planned(service, caller, run, changes)
    return ForkForecast(fork_of=plan.run, is_free=plan.estimate.is_free, estimate=plan.estimate, warnings=plan.warnings)


async def fork(client: RemoteClient, run: str, changes: Fork, *, key: str | None = None) -> Run:
    """Do the run once more with changes, once for each `key`; only a person may."""
    return await client.requests.begin(run_path(run, "forks"), key, changes)


async def forecast(client: RemoteClient, run: str, changes: Fork) -> ForkForecast:
    """Return what a fork would reuse, what would run and what that may cost, and start nothing."""
    return await client.requests.post(ForkForecast, run_path(run, "forks", "forecast"), changes)


async def _check_fork(service: DoorService, who: Principal, run: str) -> None:
    who.check(TokenScope.START)
    who.check_present("forks runs")
    await service.readable(who, run)


async def _planned(service: DoorService, who: Principal, run: str, changes: Fork) -> ForkPlan:
    await _check_fork(service, who, run)
    request = ForkRequest(
        at=changes.at,
        no_reuse=changes.no_reuse,
        model=changes.model,
        then=changes.files == "then",
        by=who.name,
    )
    return await plan_fork(service.client.temporal, run, request, service.folder())
