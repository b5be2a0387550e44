"""Runs once more, for doors: forks with changes, and batches whose items have failed.

Forks are for people: what they reuse was decided for another run. Changed workers, decisions and results stay with the
command line, whose user has the workshop's files anyway.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from llm_do_temporal.client.forks.attempt import prepare_attempt
from llm_do_temporal.client.forks.fork import ForkPlan, ForkRequest, plan_fork
from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.doors.service import DoorService, run_id
from llm_do_temporal.doors.values import RequestBody, ResponseValue, Run
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.reuse.estimate import ForkEstimate
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


async def forecast(service: DoorService, who: Principal, run: str, changes: Fork) -> ForkForecast:
    """Return what a fork would reuse, what would run, and what that may cost; nothing is started."""
    plan = await _planned(service, who, run, changes)
    return ForkForecast(fork_of=plan.run, is_free=plan.estimate.is_free, estimate=plan.estimate, warnings=plan.warnings)


async def fork(service: DoorService, who: Principal, run: str, changes: Fork, *, key: str | None) -> Run:
    """Do a run once more with changes, and return the fork; the same key is the same fork. Its files stay aside."""
    await _check_fork(service, who, run)
    worker = (await service.client.status(run)).worker

    async def prepared(warnings: list[str]) -> StartRunInput:
        plan = await _planned(service, who, run, changes)
        warnings.extend(plan.warnings)
        return plan.prepared(workshop_blobs(service.folder()))

    name = None if key is None else run_id(who, worker, f"fork of {run}\0{key}")
    return (await service.begin(who, worker, name, changes, prepared))[0]


async def retry(service: DoorService, who: Principal, run: str, *, key: str | None) -> Run:
    """Start a run for the items of a batch that failed or were never done, and return it; the same key, the same run.

    What models have answered, and calls have done, is taken over where that is the same.
    """
    who.check(TokenScope.START)
    summary = await service.visible(who, run)
    who.check_own(summary.started_by, "does again")
    if not who.is_present:
        await service.check_exported(summary.worker)

    async def prepared(_warnings: list[str]) -> StartRunInput:
        left = await service.client.unfinished(run)
        attempt = await prepare_attempt(service.client.temporal, run, left)
        who.check_mode(attempt.start.mode, has_limits=attempt.start.limits != Limits())
        return attempt.start.model_copy(update={"started_by": who.name})

    name = None if key is None else run_id(who, summary.worker, f"rest of {run}\0{key}")
    return (await service.begin(who, summary.worker, name, None, prepared))[0]


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
