"""Schedules of a server, on Temporal's own: made, listed, paused, triggered, filled in and deleted."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from temporalio.client import (
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleState,
)
from temporalio.common import TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connection.errors import is_missing, refuses_attributes, translated
from llm_do_temporal.client.schedules.plan import OVERLAPS, SchedulePlan
from llm_do_temporal.client.start import check_request_size
from llm_do_temporal.client.start_options import start_options
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.messages.runs import RunMemo, StartRunInput
from llm_do_temporal.messages.sizes import MAX_RUN_ID_CHARS

_TIME_CHARS = len("-2026-11-24T07:00:00Z")
"""Characters that Temporal adds to a schedule's name for the id of a run."""
_SHOWN = 5
"""Runs of a schedule that are told of, and times to come."""


@dataclass(frozen=True)
class ListedSchedule:
    """Schedule as a list shows it."""

    name: str
    worker: str
    task: str
    started_by: str
    """Name of the person who made it: its runs are started in that name."""
    times: tuple[str, ...]
    """Times in words, like `0 7 * * 1-5 Europe/Berlin` or `every 1:00:00`."""
    overlap: str
    paused: bool
    note: str
    upcoming: tuple[datetime, ...]
    recent: tuple[str, ...]
    """Ids of the last runs, the newest first."""
    missed: int
    skipped: int
    """Runs that did not begin since the one before went on."""

    def as_json(self) -> dict[str, Any]:
        """Return the object of `--json`."""
        return {**self.__dict__, "upcoming": [one.isoformat() for one in self.upcoming]}


class Schedules:
    """Schedules that start runs. Methods raise UsageError for a name that is not there, and ConnectionFailed."""

    def __init__(self, client: LlmDoClient) -> None:
        self._client = client
        self._temporal = client.temporal

    async def create(self, name: str, request: StartRunInput, plan: SchedulePlan) -> None:
        """Make a schedule whose runs all begin with this request. Raises UsageError for a name that is taken."""
        if "/" in name or not name.strip() or len(name) + _TIME_CHARS > MAX_RUN_ID_CHARS:
            raise UsageError(f"'{name[:60]}' is no name of a schedule: its runs are called NAME-TIME, without '/'")
        check_request_size(request)
        try:
            async with translated():
                try:
                    await self._create(name, request, plan, sets_attributes=True)
                except RPCError as error:
                    if not refuses_attributes(error):
                        raise
                    await self._create(name, request, plan, sets_attributes=False)
        except ScheduleAlreadyRunningError as error:
            raise UsageError(
                f"there is already a schedule '{name}'", next_step=f"`llm-do-temporal schedule delete {name}` ends it."
            ) from error

    async def _create(self, name: str, request: StartRunInput, plan: SchedulePlan, *, sets_attributes: bool) -> None:
        options = start_options(request, name, sets_attributes=sets_attributes)
        action = ScheduleActionStartWorkflow(
            RUN_WORKFLOW,
            request,
            id=name,
            task_queue=self._client.task_queue,
            task_timeout=options["task_timeout"],
            memo=options["memo"],
            typed_search_attributes=options["search_attributes"] or TypedSearchAttributes.empty,
            static_summary=options["static_summary"],
            priority=options["priority"],
        )
        schedule = Schedule(action=action, spec=plan.spec, policy=plan.policy, state=ScheduleState())
        try:
            await self._temporal.create_schedule(name, schedule)
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT or refuses_attributes(error):
                raise
            raise UsageError(
                f"the server does not take this schedule: {error.message}",
                next_step="Five fields are minute, hour, day, month and weekday: --cron '0 7 * * 1-5'.",
            ) from error

    async def all(self) -> list[ListedSchedule]:
        """Return the schedules that start runs, by name. A new one is in the list a moment later."""
        async with translated():
            names = [
                one.id
                async for one in await self._temporal.list_schedules()
                if one.schedule is not None and getattr(one.schedule.action, "workflow", "") == RUN_WORKFLOW
            ]
        found: list[ListedSchedule] = []
        for name in sorted(names):
            try:
                found.append(await self.one(name))
            except UsageError:
                continue  # deleted meanwhile
        return found

    async def one(self, name: str) -> ListedSchedule:
        """Return one schedule as it is now."""
        async with self._known(name) as handle:
            return await _listed(await handle.describe())

    async def pause(self, name: str, note: str = "") -> None:
        """Let no more runs begin; those that go on, go on."""
        async with self._known(name) as handle:
            await handle.pause(note=note or None)

    async def resume(self, name: str, note: str = "") -> None:
        """Let runs begin again."""
        async with self._known(name) as handle:
            await handle.unpause(note=note or None)

    async def trigger(self, name: str) -> None:
        """Begin a run now, also where the schedule is paused."""
        async with self._known(name) as handle:
            await handle.trigger()

    async def backfill(self, name: str, start: datetime, end: datetime, *, overlap: str = "buffer-all") -> None:
        """Begin the runs of a time that has passed, one after the other unless `overlap` says otherwise."""
        if overlap not in OVERLAPS:
            raise UsageError(f"there is no overlap policy '{overlap[:40]}'; there are {', '.join(OVERLAPS)}")
        if end <= start:
            raise UsageError("--from is not before --to")
        async with self._known(name) as handle:
            await handle.backfill(ScheduleBackfill(start_at=start, end_at=end, overlap=OVERLAPS[overlap]))

    async def delete(self, name: str) -> None:
        """End the schedule; its runs stay as they are."""
        async with self._known(name) as handle:
            await handle.delete()

    @asynccontextmanager
    async def _known(self, name: str) -> AsyncGenerator[ScheduleHandle]:
        """Yield the handle of a schedule that starts runs. Raises UsageError where there is none."""
        unknown = UsageError(f"there is no schedule '{name[:80]}'", next_step="`llm-do-temporal schedule` lists them.")
        handle = self._temporal.get_schedule_handle(name)
        async with translated():
            try:
                described = await handle.describe()
                action = described.schedule.action
                if not isinstance(action, ScheduleActionStartWorkflow) or action.workflow != RUN_WORKFLOW:
                    raise unknown
                yield handle
            except RPCError as error:
                if is_missing(error):
                    raise unknown from error
                raise


async def _listed(described: ScheduleDescription) -> ListedSchedule:
    action, spec = described.schedule.action, described.schedule.spec
    assert isinstance(action, ScheduleActionStartWorkflow)
    (request,) = await described.data_converter.decode(list(action.args), [StartRunInput])  # pyright: ignore[reportArgumentType]
    zone = f" {spec.time_zone_name}" if spec.time_zone_name else ""
    times = [f"{one.comment.strip() if one.comment else 'a calendar'}{zone}" for one in spec.calendars]
    overlaps = {policy: name for name, policy in OVERLAPS.items()}
    ran = [one.action for one in described.info.recent_actions]
    memo = RunMemo.of(request)
    return ListedSchedule(
        name=described.id,
        worker=request.worker,
        task=memo.task,
        started_by=request.started_by,
        times=(*times, *(f"every {one.every}" for one in spec.intervals)),
        overlap=overlaps.get(described.schedule.policy.overlap, "skip"),
        paused=described.schedule.state.paused,
        note=described.schedule.state.note or "",
        upcoming=tuple(described.info.next_action_times[:_SHOWN]),
        recent=tuple(
            one.workflow_id for one in reversed(ran[-_SHOWN:]) if isinstance(one, ScheduleActionExecutionStartWorkflow)
        ),
        missed=described.info.num_actions_missed_catchup_window,
        skipped=described.info.num_actions_skipped_overlap,
    )
