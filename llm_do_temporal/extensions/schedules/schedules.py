"""Schedules of a server, on Temporal's own: planned, made, listed, paused, triggered, filled in and deleted."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ValidationError
from temporalio.client import (
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    WorkflowExecutionStatus,
)
from temporalio.common import TypedSearchAttributes
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.client import LlmDoClient, start_options
from llm_do_temporal.client.connections import is_missing, refuses_attributes, translated
from llm_do_temporal.client.history.events import NOT_AT_HAND
from llm_do_temporal.client.start import check_request_size
from llm_do_temporal.client.views.run_list import RunSummary, every_run
from llm_do_temporal.errors import AttachmentRefusal, KeyMismatch, UnknownHere, UsageError
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.messages.runs import DEFAULT_CONCURRENCY, InputFiles, RunMemo, StartRunInput
from llm_do_temporal.messages.sizes import MAX_RUN_ID_CHARS
from llm_do_temporal.policy.files.sandbox import check_input_path
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.redaction.hidden_characters import hidden_marks

OVERLAPS = {
    "skip": ScheduleOverlapPolicy.SKIP,
    "buffer-one": ScheduleOverlapPolicy.BUFFER_ONE,
    "buffer-all": ScheduleOverlapPolicy.BUFFER_ALL,
    "cancel-other": ScheduleOverlapPolicy.CANCEL_OTHER,
    "terminate-other": ScheduleOverlapPolicy.TERMINATE_OTHER,
    "allow-all": ScheduleOverlapPolicy.ALLOW_ALL,
}
"""Names of Temporal's policies for a run that is due while the last one goes on."""
DEFAULT_CATCH_UP = timedelta(minutes=10)
"""Time after which a run that could not begin, since no server was up, is left out; Temporal's own is a year."""
LEAST_EVERY = timedelta(seconds=1)
LONGEST = timedelta(days=3_660)
"""Longest time of any kind: ten years, leap days included."""
LEAST_CATCH_UP = timedelta(seconds=10)
"""Shortest time that the server takes as `catch_up`; it would take a shorter one for this."""
CRON_NAMES = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
"""Names that stand for five fields."""
_FIELDS = 5
_FIELDS_ARE = (
    f"Five fields are minute, hour, day, month and weekday: --cron '0 7 * * 1-5'; or take {', '.join(CRON_NAMES)}."
)


@dataclass(frozen=True)
class SchedulePlan:
    """Times of a schedule, as they were given. Raises UsageError for a plan that can never be."""

    cron: tuple[str, ...] = ()
    """Times like `0 7 * * 1-5`."""
    every: timedelta | None = None
    """Time from one run to the next; None: there are only the times of `cron`."""
    timezone: str = ""
    """Time zone of `cron`, like `Europe/Berlin`; empty: UTC."""
    overlap: str = "skip"
    jitter: timedelta | None = None
    """Longest random delay of a run; None: there is none."""
    catch_up: timedelta = DEFAULT_CATCH_UP

    def __post_init__(self) -> None:
        if not self.cron and self.every is None:
            raise UsageError(
                "nothing says when", next_step="Give --cron '0 7 * * 1-5', or --every 1h; both may be given."
            )
        for cron in self.cron:
            fields, shown = cron.split(), cron[:40]
            if fields and fields[0].startswith("@every"):
                raise UsageError(
                    f"--cron '{shown}' is a length of time, for which no time zone counts",
                    next_step="Give it as --every, like --every 90s.",
                )
            if "#" in cron:
                raise UsageError(f"--cron '{shown}' has a '#', and takes no comment", next_step=_FIELDS_ARE)
            if fields not in [[name] for name in CRON_NAMES] and len(fields) != _FIELDS:
                raise UsageError(f"--cron '{shown}' has not five fields but {len(fields)}", next_step=_FIELDS_ARE)
        if self.timezone and not self.cron:
            raise UsageError("--timezone says nothing without --cron: --every counts in UTC")
        self._check_lengths()
        if self.overlap not in OVERLAPS:
            raise UsageError(f"there is no overlap policy '{self.overlap[:40]}'; there are {', '.join(OVERLAPS)}")
        try:
            ZoneInfo(self.timezone or "UTC")
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UsageError(
                f"there is no time zone '{self.timezone[:40]}'", next_step="Names are like Europe/Berlin or UTC."
            ) from error

    def _check_lengths(self) -> None:
        if self.every is not None and self.every < LEAST_EVERY:
            raise UsageError("--every is at least a second, like 90s, 15m or 1d")
        if self.catch_up < LEAST_CATCH_UP:
            raise UsageError("--catch-up is at least 10s: the server knows no shorter time")
        if self.jitter is not None and self.every is not None and self.jitter >= self.every:
            raise UsageError("--jitter is shorter than --every, or runs would change their order")
        for flag, time in (("--every", self.every), ("--jitter", self.jitter), ("--catch-up", self.catch_up)):
            if time is not None and time > LONGEST:
                raise UsageError(f"{flag} is at most {LONGEST.days} days")

    @property
    def spec(self) -> ScheduleSpec:
        """The times, as Temporal has them."""
        return ScheduleSpec(
            # The server keeps what they mean, and beside that only a comment.
            cron_expressions=[f"{one} # {one}" for one in (" ".join(cron.split()) for cron in self.cron)],
            intervals=[] if self.every is None else [ScheduleIntervalSpec(every=self.every)],
            jitter=self.jitter,
            time_zone_name=self.timezone or None,
        )

    @property
    def policy(self) -> SchedulePolicy:
        """The treatment of runs that overlap or were missed, as Temporal has it."""
        return SchedulePolicy(overlap=OVERLAPS[self.overlap], catchup_window=self.catch_up)


_SIMPLE = re.compile(r"(\d{1,2}) (\d{1,2}) (\*|\d{1,2}) \* (\*|\?|[0-7]|1-5)", re.ASCII)
"""Minute and hour, a day of the month or none, no month, and a weekday, the days from Monday to Friday, or none."""
_HOURLY = re.compile(r"(\d{1,2}) \* \* \* \*", re.ASCII)
_STEP = re.compile(r"\*/(\d{1,2}) \* \* \* \*", re.ASCII)
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def cron_words(cron: str) -> str:
    """Return a cron expression in words, like `Monday to Friday at 07:00`; as it is where that takes more words."""
    plain = " ".join(cron.split())
    if (hourly := _HOURLY.fullmatch(plain)) is not None:
        return f"every hour at :{int(hourly[1]):02d}"
    if (step := _STEP.fullmatch(plain)) is not None and int(step[1]) and 60 % int(step[1]) == 0:
        return f"every {step[1]} min"
    simple = _SIMPLE.fullmatch(plain)
    if simple is None or (simple[3] != "*" and simple[4] not in "*?"):
        return plain
    minute, hour, day, weekday = simple.groups()
    at = f"at {int(hour):02d}:{int(minute):02d}"
    if day != "*":
        return f"on day {day} of each month {at}"
    if weekday == "1-5":
        return f"Monday to Friday {at}"
    return f"every day {at}" if weekday in "*?" else f"every {_DAYS[int(weekday)]} {at}"


def every_words(every: timedelta) -> str:
    """Return the time from one run to the next in words, like `every 15 min` or `every 1 h 30 min`."""
    left, parts = int(every.total_seconds()), list[str]()
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return f"every {' '.join(parts)}"


def input_files(
    workshop: Path,
    *,
    attach: Sequence[Path] = (),
    each: Sequence[str] = (),
    each_line: Path | None = None,
    concurrency: int | None = None,
) -> InputFiles | None:
    """Return files and patterns, which count from here, by their paths below the workshop; None without any.

    Raises UsageError for those that lie elsewhere, or are hidden.
    """
    if not attach and not each and each_line is None:
        return None
    return InputFiles(
        attach=tuple(_below(workshop, str(path)) for path in attach),
        each=tuple(_below(workshop, pattern) for pattern in each),
        each_line="" if each_line is None else _below(workshop, str(each_line)),
        concurrency=concurrency or DEFAULT_CONCURRENCY,
    )


def _below(workshop: Path, given: str) -> str:
    """Return what was typed as a path below the workshop, by its text alone."""
    whole = Path(os.path.normpath(Path.cwd() / given))
    # A link on the way to the workshop is not one of its own.
    for root in (workshop.absolute(), workshop.resolve()):
        if whole.is_relative_to(root) and whole != root:
            relative = whole.relative_to(root).as_posix()
            try:
                check_input_path(relative)
            except AttachmentRefusal as refusal:
                raise UsageError(refusal.message, next_step=refusal.next_step) from refusal
            return relative
    raise UsageError(
        f"'{given[:200]}' lies outside of the workshop: runs that begin by themselves read files of its folder alone",
        next_step="Put the file there, or have its bytes kept as they are now: --pin.",
    )


_SHOWN = 5
"""Runs of a schedule that are told of, and times to come."""
_OVERLAPS = {policy: name for name, policy in OVERLAPS.items()}


@dataclass(frozen=True)
class ListedSchedule:
    """Schedule as a list shows it."""

    name: str
    worker: str
    """Worker of its runs; empty where what it starts cannot be read here."""
    task: str
    started_by: str
    """Name of the person who made it: its runs are started in that name."""
    times: tuple[str, ...]
    """Times as they were given, like `0 7 * * 1-5 Europe/Berlin` or `every 1 h`."""
    in_words: str
    """Times in words, like `Monday to Friday at 07:00 Europe/Berlin`."""
    overlap: str
    jitter_seconds: float
    catch_up_seconds: float
    paused: bool
    note: str
    upcoming: tuple[datetime, ...]
    recent: tuple[str, ...]
    """Ids of the last runs, the newest first."""
    going_on: tuple[str, ...]
    """Ids of the runs that go on, as far as the server remembers them."""
    waiting: int
    """Runs that are due, and begin once those before them have ended."""
    missed: int
    skipped: int
    """Runs that did not begin since the one before went on."""
    reads: str = ""
    """Files that each run reads anew, in words; empty: none."""
    pinned: tuple[str, ...] = ()
    """Names of the files whose bytes were kept when it was made, items included."""
    unreadable: str = ""
    """Reason why what it starts cannot be read here; empty: it can."""

    def as_json(self) -> dict[str, Any]:
        """Return the object of `--json`."""
        return {**self.__dict__, "upcoming": [one.isoformat() for one in self.upcoming]}


async def listed_schedule(described: ScheduleDescription) -> ListedSchedule:
    """Return what the server's description of a schedule tells."""
    action, spec = described.schedule.action, described.schedule.spec
    assert isinstance(action, ScheduleActionStartWorkflow)
    request, unreadable = await _request(described, action)
    zone = f" {spec.time_zone_name}" if spec.time_zone_name else ""
    crons = [one.comment.strip() if one.comment else "a calendar" for one in spec.calendars] + list(
        spec.cron_expressions
    )
    every = [every_words(one.every) for one in spec.intervals]
    words = [f"{cron_words(one)}{zone}" for one in crons] + every
    ran = [one.action for one in described.info.recent_actions]
    policy, state = described.schedule.policy, described.schedule.state
    items = () if request.batch is None else request.batch.items
    files = (*request.attachments, *(file for item in items for file in item.attachments))
    return ListedSchedule(
        name=described.id,
        worker=request.worker,
        task=RunMemo.of(request).task,
        started_by=request.started_by,
        times=(*(f"{one}{zone}" for one in crons), *every),
        in_words=", ".join(words),
        overlap=_OVERLAPS.get(policy.overlap, "skip"),
        jitter_seconds=(spec.jitter or timedelta()).total_seconds(),
        catch_up_seconds=(policy.catchup_window or timedelta()).total_seconds(),
        paused=state.paused,
        note=state.note or "",
        upcoming=() if state.paused else tuple(described.info.next_action_times[:_SHOWN]),
        recent=tuple(
            one.workflow_id for one in reversed(ran[-_SHOWN:]) if isinstance(one, ScheduleActionExecutionStartWorkflow)
        ),
        going_on=tuple(
            one.workflow_id
            for one in described.info.running_actions
            if isinstance(one, ScheduleActionExecutionStartWorkflow)
        ),
        waiting=described.raw_description.info.buffer_size,
        missed=described.info.num_actions_missed_catchup_window,
        skipped=described.info.num_actions_skipped_overlap,
        reads="" if request.reads is None else request.reads.words,
        pinned=tuple(one.path for one in files),
        unreadable=unreadable,
    )


async def _request(described: ScheduleDescription, action: ScheduleActionStartWorkflow) -> tuple[StartRunInput, str]:
    """Return what the schedule starts, and the reason why that cannot be read: anybody may have written it."""
    try:
        (given,) = await described.data_converter.decode(list(action.args))  # pyright: ignore[reportArgumentType]
        return StartRunInput.model_validate(given), ""
    except KeyMismatch as error:
        return StartRunInput(worker=""), error.message
    except ValidationError:
        return StartRunInput(worker=""), "what it starts is no start of a run"
    except (*NOT_AT_HAND, TemporalError):
        return StartRunInput(worker=""), "what it starts is kept elsewhere, or is no start of a run"


class MeetingFate(StrEnum):
    """Fate of runs that somebody wants to begin."""

    BEGINS = "begins"
    WAITS = "waits"
    REPLACES = "replaces"
    """The one before is told to end first."""
    SKIPPED = "skipped"
    """None begins."""


@dataclass(frozen=True)
class Meeting:
    """Runs of a schedule that go on or wait, and the policy for one more."""

    overlap: str
    going_on: tuple[str, ...]
    """Ids of the runs that go on."""
    waiting: int = 0
    """Runs that begin once those have ended."""

    @property
    def fate(self) -> MeetingFate:
        """Fate of one more, as the policy has it."""
        if self.overlap == "allow-all" or not (self.going_on or self.waiting):
            return MeetingFate.BEGINS
        if self.overlap == "skip" or (self.overlap == "buffer-one" and self.waiting):
            return MeetingFate.SKIPPED
        return MeetingFate.WAITS if self.overlap.startswith("buffer") else MeetingFate.REPLACES

    @property
    def words(self) -> str:
        """Runs that go on or wait, and what follows from them, like `nightly-… still goes on, …`."""
        first = self.going_on[0] if self.going_on else "a run before"
        parts = [f"{first} still goes on"]
        if self.waiting:
            parts.append(f"{self.waiting} {'waits' if self.waiting == 1 else 'wait'} for it")
        return f"{', '.join(parts)}, and overlap is {self.overlap}: {_FOLLOWS[self.fate]}"


_FOLLOWS = {
    MeetingFate.BEGINS: "a run begins beside it",
    MeetingFate.WAITS: "a run waits, and begins when that has ended",
    MeetingFate.REPLACES: "that is ended first",
    MeetingFate.SKIPPED: "no run begins",
}


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

    async def runs(self, name: str, *, limit: int = LAST_RUNS) -> list[RunSummary]:
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
