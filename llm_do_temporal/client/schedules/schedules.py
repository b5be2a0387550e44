"""Schedules of a server, on Temporal's own: made, listed, paused, triggered, filled in and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleState,
    WorkflowExecutionStatus,
)
from temporalio.common import TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connection.errors import is_missing, refuses_attributes, translated
from llm_do_temporal.client.schedules.listed import ListedSchedule, listed_schedule
from llm_do_temporal.client.schedules.meetings import Meeting, MeetingFate
from llm_do_temporal.client.schedules.plan import OVERLAPS, SchedulePlan
from llm_do_temporal.client.start import check_request_size
from llm_do_temporal.client.start_options import start_options
from llm_do_temporal.client.views.run_list import ListedRun, every_run
from llm_do_temporal.errors import UnknownHere, UsageError
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.messages.sizes import MAX_RUN_ID_CHARS
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.redaction.hidden_characters import hidden_marks

_TIME_CHARS = len("-2026-11-24T07:00:00Z")
"""Characters that Temporal adds to a schedule's name for the id of a run."""
LAST_RUNS = 5
"""Runs of a schedule that are shown."""
_AT_ONCE = 16
"""Schedules that are asked about side by side."""


class Schedules:
    """Schedules that start runs. Methods raise UsageError for a name that is not there, and ConnectionFailed."""

    def __init__(self, client: LlmDoClient) -> None:
        self._client = client
        self._temporal = client.temporal

    async def create(self, name: str, request: StartRunInput, plan: SchedulePlan) -> None:
        """Make a schedule whose runs all begin with this request. Raises UsageError for a name that is taken."""
        _check_name(name)
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
            handle = await self._temporal.create_schedule(name, schedule)
            comes = (await handle.describe()).info.next_action_times
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT or refuses_attributes(error):
                raise
            raise UsageError(
                f"the server does not take this schedule: {error.message}",
                next_step="Five fields are minute, hour, day, month and weekday: --cron '0 7 * * 1-5'.",
            ) from error
        if not comes:
            await handle.delete()
            raise UsageError(
                "none of these times ever comes", next_step="Look at day and month of --cron, like 31 and 2."
            )

    async def all(self) -> list[ListedSchedule]:
        """Return the schedules that start runs, by name. A new one is in the list a moment later."""
        async with translated():
            names = [
                one.id
                async for one in await self._temporal.list_schedules()
                if one.schedule is not None and getattr(one.schedule.action, "workflow", "") == RUN_WORKFLOW
            ]
        turn = asyncio.Semaphore(_AT_ONCE)
        found = await asyncio.gather(*(self._or_nothing(name, turn) for name in sorted(names)))
        return [one for one in found if one is not None]

    async def _or_nothing(self, name: str, turn: asyncio.Semaphore) -> ListedSchedule | None:
        """Return the schedule; None where it was deleted meanwhile."""
        async with turn:
            try:
                return await self.one(name)
            except UsageError:
                return None

    async def one(self, name: str) -> ListedSchedule:
        """Return one schedule as it is now."""
        async with self._known(name) as (_, described):
            return await listed_schedule(described)

    async def runs(self, name: str, *, limit: int = LAST_RUNS) -> list[ListedRun]:
        """Return runs that the schedule has started: open ones first, then those that ended last."""
        return [run async for run in every_run(self._temporal, RunFilter(schedule=name), limit=limit)]

    async def pause(self, name: str, note: str = "") -> None:
        """Begin no more runs; those under way go on."""
        async with self._known(name) as (handle, _):
            await handle.pause(note=note or None)

    async def resume(self, name: str, note: str = "") -> None:
        """Let runs begin again."""
        async with self._known(name) as (handle, _):
            await handle.unpause(note=note or None)

    async def trigger(self, name: str) -> Meeting:
        """Begin a run now, also where the schedule is paused, and return what it meets; skipped: nothing was sent."""
        async with self._known(name) as (handle, described):
            meeting = await self._meeting(described)
            if meeting.fate is not MeetingFate.SKIPPED:
                await handle.trigger()
            return meeting

    async def backfill(self, name: str, start: datetime, end: datetime, *, overlap: str = "buffer-all") -> Meeting:
        """Begin the runs of a time that has passed, one after the other unless `overlap` says otherwise.

        Returns what they meet; where all would be skipped, nothing was sent.
        """
        if overlap not in OVERLAPS:
            raise UsageError(f"there is no overlap policy '{overlap[:40]}'; there are {', '.join(OVERLAPS)}")
        if end <= start:
            raise UsageError("--from is not before --to")
        if end > datetime.now(UTC):
            raise UsageError("--to is in the future; only a time that has passed can be filled in")
        async with self._known(name) as (handle, described):
            meeting = await self._meeting(described, overlap)
            if meeting.fate is not MeetingFate.SKIPPED:
                await handle.backfill(ScheduleBackfill(start_at=start, end_at=end, overlap=OVERLAPS[overlap]))
            return meeting

    async def _meeting(self, described: ScheduleDescription, overlap: str = "") -> Meeting:
        """Return what a run would meet now. What the server remembers as going on may have ended: it is looked at."""
        shown = await listed_schedule(described)
        looked = await asyncio.gather(*(self._goes_on(run) for run in shown.going_on))
        on = tuple(run for run, is_on in zip(shown.going_on, looked, strict=True) if is_on)
        return Meeting(overlap or shown.overlap, on, shown.waiting if on else 0)

    async def _goes_on(self, run: str) -> bool:
        try:
            found = await self._temporal.get_workflow_handle(run).describe()
        except RPCError as error:
            if is_missing(error):
                return False
            raise
        return found.status is WorkflowExecutionStatus.RUNNING

    async def delete(self, name: str) -> None:
        """End the schedule; its runs stay as they are."""
        async with self._known(name) as (handle, _):
            await handle.delete()

    @asynccontextmanager
    async def _known(self, name: str) -> AsyncGenerator[tuple[ScheduleHandle, ScheduleDescription]]:
        """Yield handle and description of a schedule that starts runs. Raises UsageError where there is none."""
        unknown = UnknownHere(f"there is no schedule '{name[:80]}'", next_step="`llm-do-temporal schedule` lists them.")
        if not _is_name(name):
            raise unknown
        handle = self._temporal.get_schedule_handle(name)
        async with translated():
            try:
                described = await handle.describe()
                action = described.schedule.action
                if not isinstance(action, ScheduleActionStartWorkflow) or action.workflow != RUN_WORKFLOW:
                    raise unknown
                yield handle, described
            except RPCError as error:
                if is_missing(error):
                    raise unknown from error
                raise


def _check_name(name: str) -> None:
    """Raise UsageError for a name of which no run can be called, or that does not look like what it is."""
    if _is_name(name):
        return
    raise UsageError(
        f"{name[:60]!r} is no name of a schedule: its runs are called NAME-TIME",
        next_step=f"Use at most {MAX_RUN_ID_CHARS - _TIME_CHARS} characters that can be seen, without '/', and no "
        "blank or '-' before them.",
    )


def _is_name(name: str) -> bool:
    if name != name.strip() or name.startswith("-") or "/" in name or name in ("", ".", ".."):
        return False
    is_seen = not any(hidden for _, hidden in hidden_marks(name))
    return is_seen and len(name) + _TIME_CHARS <= MAX_RUN_ID_CHARS
