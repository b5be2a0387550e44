"""`schedule`: runs that begin by themselves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from llm_do_temporal.cli.commands.batch import NO_BATCH, BatchFlags
from llm_do_temporal.cli.commands.start import LimitFlags, Overrides, TypedStart, prepare_start, read_params
from llm_do_temporal.cli.options import Json, Location, read_duration_flag
from llm_do_temporal.cli.output import print_json
from llm_do_temporal.cli.tables import ahead, print_table
from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.errors import UsageError
from llm_do_temporal.login import login_name

if TYPE_CHECKING:
    from llm_do_temporal.extensions.schedules.schedules import ListedSchedule, Meeting, SchedulePlan, Schedules
    from llm_do_temporal.messages.runs import InputFiles


_TIMES = Group("When", sort_key=3)
_FILES = Group("Files", sort_key=4)


@Parameter(name="*", group=_TIMES)
@dataclass(frozen=True, kw_only=True)
class ScheduleTimes:
    """Times at which runs begin, and what becomes of those that overlap or are late."""

    cron: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Minute, hour, day, month and weekday, like '0 7 * * 1-5'; may be repeated."),
    ] = ()
    every: Annotated[
        str | None, Parameter(help="Time from one run to the next, like 90s, 15m or 1d; counted from 1970 in UTC.")
    ] = None
    timezone: Annotated[str, Parameter(help="Time zone of --cron, like Europe/Berlin; UTC by default.")] = ""
    overlap: Annotated[
        str,
        Parameter(
            help="What becomes of a run that is due while the last one goes on: skip (by default), buffer-one, "
            "buffer-all, cancel-other, terminate-other or allow-all."
        ),
    ] = "skip"
    jitter: Annotated[str | None, Parameter(help="Longest random delay, like 5m.")] = None
    catch_up: Annotated[
        str,
        Parameter(
            help="How late a run that was missed while no server ran still begins (Temporal's catchup window); "
            "10m by default."
        ),
    ] = "10m"

    def plan(self) -> SchedulePlan:
        """Return the plan. Raises UsageError."""
        from llm_do_temporal.extensions.schedules.schedules import SchedulePlan

        every, jitter = (
            None if text is None else read_duration_flag(text, flag)
            for text, flag in ((self.every, "--every"), (self.jitter, "--jitter"))
        )
        late = read_duration_flag(self.catch_up, "--catch-up")
        return SchedulePlan(self.cron, every, self.timezone, self.overlap, jitter, late)


@Parameter(name="*", group=_FILES)
@dataclass(frozen=True, kw_only=True)
class ScheduleFiles:
    """Files that runs are given: read anew by each of them, or kept as they are now."""

    attach: Annotated[
        tuple[Path, ...],
        Parameter(name=["--attach", "-a"], negative=(), help="A file of the workshop to attach; may be repeated."),
    ] = ()
    each: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Run the worker once for each file that matches then, like 'files/*.md', quoted."),
    ] = ()
    each_line: Annotated[
        Path | None, Parameter(help="Run it once for each line that a file has then; JSON where it ends in .jsonl.")
    ] = None
    concurrency: Annotated[int | None, Parameter(help="How many are worked on at once; 8 by default.")] = None
    pin: Annotated[
        bool,
        Parameter(negative="", help="Keep the bytes as they are now, from anywhere, instead of reading them anew."),
    ] = False

    def check(self, worker: str) -> None:
        """Raise UsageError for flags that do not go together."""
        self.as_batch().check(worker, others=())
        if self.pin and not (self.attach or self.each or self.each_line):
            raise UsageError("--pin says nothing without files: -a, --each or --each-line")

    def as_batch(self) -> BatchFlags:
        """Return the flags of a batch whose items are taken now."""
        return BatchFlags(each=self.each, each_line=self.each_line, concurrency=self.concurrency)

    def read_later(self, workshop: Path | None) -> InputFiles | None:
        """Return what each run reads; None where nothing is left to it. Raises UsageError."""
        if self.pin or not (self.attach or self.each or self.each_line):
            return None
        if workshop is None:
            raise UsageError(
                "files of a schedule lie in its workshop, and no workshop is known here",
                next_step="Go to the workshop's folder, or name it with --workshop DIR; or keep their bytes: --pin.",
            )
        from llm_do_temporal.extensions.schedules.schedules import input_files

        return input_files(
            workshop, attach=self.attach, each=self.each, each_line=self.each_line, concurrency=self.concurrency
        )


def moment(text: str, flag: str, now: datetime) -> datetime:
    """Return the moment that a flag says. Raises UsageError."""
    from llm_do_temporal.policy.run_filter import moment_of

    try:
        found = moment_of(text, now=now)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
    if found is None:
        raise UsageError(f"{flag} is empty")
    return found


_Name = Annotated[str, Parameter(help="Name of the schedule.")]


async def create_schedule(
    name: _Name,
    worker: str,
    prompt: str | None = None,
    /,
    *,
    times: ScheduleTimes = ScheduleTimes(),
    files: ScheduleFiles = ScheduleFiles(),
    input_json: Annotated[str | None, Parameter(name="--input")] = None,
    param: Annotated[tuple[str, ...], Parameter(name=["--param", "-p"], negative=())] = (),
    overrides: Overrides = Overrides(),  # noqa: B008 - frozen
    limits: LimitFlags = LimitFlags(),  # noqa: B008 - frozen
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Run a worker on a schedule. What `start` checks is checked now; runs are called NAME-TIME.

    Parameters
    ----------
    worker
        The worker to run, or a template of the workshop.
    prompt
        What to tell it; `-` reads it from stdin.
    input_json
        Structured input, as JSON or @FILE.
    param
        A value for a parameter of a template, NAME=VALUE; may be repeated.
    """
    plan = times.plan()
    files.check(worker)
    later = files.read_later(location.local_workshop())
    attach, batch = (files.attach, files.as_batch()) if files.pin else ((), NO_BATCH)
    typed = TypedStart(worker, prompt, attach, input_json, read_params(param), overrides, limits, batch, reads=later)
    request = prepare_start(typed, worker, location)
    async with _schedules(location) as schedules:
        await schedules.create(name, request, plan)
        made = await schedules.one(name)
    first = f"; the first {ahead(made.upcoming[0])}" if made.upcoming else "; none of these times comes any more"
    say(f"schedule {name}: {made.worker} {made.in_words}{first}")
    for line in _file_lines(made):
        say(f"  {line}")
    return 0


def _file_lines(schedule: ListedSchedule) -> list[str]:
    """Return lines about the files that the runs of a schedule are given."""
    lines = [f"each run reads anew: {schedule.reads}"] if schedule.reads else []
    count = len(schedule.pinned)
    if count:
        lines.append(
            f"each run is given {'1 file' if count == 1 else f'{count:,} files'}, as it was when this was made"
        )
    return lines


async def show_schedule(
    name: _Name,
    /,
    *,
    as_json: Json = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Show a schedule: its times, what its runs are given, the next ones and the last ones.

    Parameters
    ----------
    as_json
        Print a JSON object.
    """
    async with _schedules(location) as schedules:
        found, runs = await schedules.one(name), await schedules.runs(name)
    if as_json:
        states = [{"run": run.run, "state": run.state} for run in runs]
        print_json({**found.as_json(), "runs": states}, pretty=True)
        return 0
    by = f", made by {found.started_by}" if found.started_by else ""
    lines = [f"{found.name} \u00b7 {found.worker or found.unreadable} \u00b7 {found.in_words}{by}"]
    lines += [f"task      {found.task}"] if found.task else []
    lines += [f"paused    {found.note}".rstrip()] if found.paused else []
    lines += [f"next      {one:%Y-%m-%d %H:%M:%S} UTC, {ahead(one)}" for one in found.upcoming]
    lines += [f"files     {line}" for line in _file_lines(found)]
    lines += [f"run       {run.run}  {run.state}" for run in runs]
    lines += [f"waiting   {found.waiting} due, until the run before has ended"] if found.waiting else []
    lines.append(f"overlap   {found.overlap}; {found.skipped} skipped, {found.missed} missed")
    print("\n".join(visible_line(line, 400) for line in lines), flush=True)
    return 0


async def list_schedules(
    *,
    as_json: Json = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """List the schedules that start runs, each with its times, the next run and the last one.

    Parameters
    ----------
    as_json
        Print a JSON list.
    """
    async with _schedules(location) as schedules:
        found = await schedules.all()
    if as_json:
        print_json([one.as_json() for one in found], pretty=True)
    elif found:
        rows = [
            (
                one.name,
                one.worker or one.unreadable,
                one.in_words,
                "paused" if one.paused else ahead(one.upcoming[0]) if one.upcoming else "never",
                one.recent[0] if one.recent else "",
            )
            for one in found
        ]
        print_table(("NAME", "WORKER", "TIMES", "NEXT", "LAST RUN"), rows)
    else:
        say("there are no schedules; `llm-do-temporal schedule create NAME WORKER --cron …` makes one")
    return 0


async def pause_schedule(
    name: _Name,
    /,
    *,
    note: str = "",
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Begin no more runs; those under way go on.

    Parameters
    ----------
    note
        Why, for whoever looks at it.
    """
    async with _schedules(location) as schedules:
        by = f"by {login_name() or 'somebody'}"
        await schedules.pause(name, f"{note} ({by})" if note else by)
    say(f"schedule {name} is paused")
    return 0


async def resume_schedule(
    name: _Name,
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Let the runs of a paused schedule begin again."""
    async with _schedules(location) as schedules:
        await schedules.resume(name, f"resumed by {login_name() or 'somebody'}")
    say(f"schedule {name} goes on")
    return 0


async def trigger_schedule(
    name: _Name,
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Begin a run of a schedule now, whatever its times say."""
    async with _schedules(location) as schedules:
        meeting = await schedules.trigger(name)
    if _begins(meeting):
        say(f"schedule {name} begins a run; `{location.command(f'schedule show {quote(name)}')}` shows it")
    return 0


async def backfill_schedule(
    name: _Name,
    /,
    *,
    from_: Annotated[str, Parameter(name="--from")],
    to: str,
    overlap: str = "buffer-all",
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Begin the runs of a time that has passed.

    Parameters
    ----------
    from_
        Beginning of that time, like 2026-11-01 or 2026-11-01T08:30; in UTC where it says nothing else.
    to
        End of that time.
    overlap
        What becomes of runs that overlap; buffer-all by default, one after the other.
    """
    now = datetime.now(UTC)
    start, end = moment(from_, "--from", now), moment(to, "--to", now)
    async with _schedules(location) as schedules:
        meeting = await schedules.backfill(name, start, end, overlap=overlap)
    _begins(meeting)
    say(f"schedule {name} begins the runs from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC")
    return 0


def _begins(meeting: Meeting) -> bool:
    """Return whether a run begins at once, and say otherwise why not. Raises UsageError where it never does."""
    from llm_do_temporal.extensions.schedules.schedules import MeetingFate

    if meeting.fate is MeetingFate.SKIPPED:
        raise UsageError(meeting.words, next_step="Let that run end, answer what it asks, or cancel it.")
    if meeting.fate is not MeetingFate.BEGINS:
        say(meeting.words)
    return meeting.fate is MeetingFate.BEGINS


async def delete_schedule(
    name: _Name,
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """End a schedule; its runs stay as they are."""
    async with _schedules(location) as schedules:
        await schedules.delete(name)
    say(f"schedule {name} is deleted")
    return 0


@asynccontextmanager
async def _schedules(location: Location) -> AsyncGenerator[Schedules]:
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.extensions.schedules.schedules import Schedules

    async with opened(location) as session:
        yield Schedules(session.client)
