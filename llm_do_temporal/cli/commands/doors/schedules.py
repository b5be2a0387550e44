"""`schedule`: runs that begin by themselves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.commands.start import LimitFlags, Overrides, TypedStart, prepare_start, read_params
from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.output import print_json
from llm_do_temporal.cli.tables import ahead, print_table
from llm_do_temporal.cli.text import say
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from datetime import timedelta

    from llm_do_temporal.client.schedules.plan import SchedulePlan
    from llm_do_temporal.client.schedules.schedules import Schedules
    from llm_do_temporal.messages.runs import StartRunInput

Json = Annotated[bool, Parameter(name="--json", negative="")]


async def create_schedule(
    name: str,
    worker: str,
    prompt: str | None = None,
    /,
    *,
    cron: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    every: str | None = None,
    timezone: str = "",
    overlap: str = "skip",
    jitter: str | None = None,
    catch_up: str = "10m",
    input_json: Annotated[str | None, Parameter(name="--input")] = None,
    param: Annotated[tuple[str, ...], Parameter(name=["--param", "-p"], negative=())] = (),
    overrides: Overrides = Overrides(),  # noqa: B008 - frozen
    limits: LimitFlags = LimitFlags(),  # noqa: B008 - frozen
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Have a worker run at times, with the checks of `start` now; its runs are called NAME-TIME.

    Parameters
    ----------
    name
        Name of the schedule.
    worker
        The worker to run, or a template of the workshop.
    prompt
        What to tell it; `-` reads it from stdin.
    cron
        Times as minute, hour, day, month and weekday, like '0 7 * * 1-5'; may be repeated.
    every
        Time from one run to the next, like 90s, 15m or 1d.
    timezone
        Time zone of --cron, like Europe/Berlin; UTC by default.
    overlap
        What becomes of a run that is due while the last one goes on: skip (by default), buffer-one, buffer-all,
        cancel-other, terminate-other or allow-all.
    jitter
        Longest random delay, like 5m.
    catch_up
        How late a run may begin that no server could begin in time; 10m by default.
    input_json
        Structured input, as JSON or @FILE.
    param
        A value for a parameter of a template, NAME=VALUE; may be repeated.
    """
    from llm_do_temporal.client.schedules.plan import SchedulePlan

    every_time, delay, late = (
        _duration(every, "--every"),
        _duration(jitter, "--jitter"),
        _duration(catch_up, "--catch-up"),
    )
    plan = SchedulePlan(cron, every_time, timezone, overlap, delay, late or SchedulePlan.catch_up)
    typed = TypedStart(worker, prompt, (), input_json, read_params(param), overrides, limits)
    request = prepare_start(typed, worker, location)
    return await _made(name, request, plan, location)


async def _made(name: str, request: StartRunInput, plan: SchedulePlan, location: Location) -> int:
    """Make the schedule, and say when its first run begins."""
    async with _schedules(location) as schedules:
        await schedules.create(name, request, plan)
        made = await schedules.one(name)
    first = f"; the first {ahead(made.upcoming[0])}" if made.upcoming else ""
    say(f"schedule {name}: {made.worker} at {', '.join(made.times)}{first}")
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
                one.worker,
                ", ".join(one.times),
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
    name: str,
    /,
    *,
    note: str = "",
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Let no more runs begin; those that go on, go on.

    Parameters
    ----------
    name
        Name of the schedule.
    note
        Why, for whoever looks at it.
    """
    async with _schedules(location) as schedules:
        await schedules.pause(name, note)
    say(f"schedule {name} is paused")
    return 0


async def resume_schedule(
    name: str,
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Let the runs of a paused schedule begin again.

    Parameters
    ----------
    name
        Name of the schedule.
    """
    async with _schedules(location) as schedules:
        await schedules.resume(name)
    say(f"schedule {name} goes on")
    return 0


async def trigger_schedule(
    name: str,
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Begin a run of a schedule now, whatever its times say.

    Parameters
    ----------
    name
        Name of the schedule.
    """
    async with _schedules(location) as schedules:
        await schedules.trigger(name)
    say(f"schedule {name} begins a run; `{location.command('list')}` shows it")
    return 0


async def backfill_schedule(
    name: str,
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
    name
        Name of the schedule.
    from_
        Beginning of that time, like 2026-11-01 or 2026-11-01T08:30; in UTC where it says nothing else.
    to
        End of that time.
    overlap
        What becomes of runs that meet; buffer-all by default, one after the other.
    """
    start, end = _moment(from_, "--from"), _moment(to, "--to")
    async with _schedules(location) as schedules:
        await schedules.backfill(name, start, end, overlap=overlap)
    say(f"schedule {name} begins the runs from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC")
    return 0


async def delete_schedule(
    name: str,
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """End a schedule; its runs stay as they are.

    Parameters
    ----------
    name
        Name of the schedule.
    """
    async with _schedules(location) as schedules:
        await schedules.delete(name)
    say(f"schedule {name} is deleted")
    return 0


@asynccontextmanager
async def _schedules(location: Location) -> AsyncGenerator[Schedules]:
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.schedules.schedules import Schedules

    async with opened(location) as session:
        yield Schedules(session.client)


def _duration(text: str | None, flag: str) -> timedelta | None:
    from datetime import timedelta

    from llm_do_temporal.policy.budget.limits import read_duration

    if text is None:
        return None
    try:
        return timedelta(seconds=read_duration(text))
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{flag} {text[:40]}: {error}") from error


def _moment(text: str, flag: str) -> datetime:
    from llm_do_temporal.policy.run_filter import moment_of

    try:
        found = moment_of(text, now=datetime.now(UTC))
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
    if found is None:
        raise UsageError(f"{flag} is empty")
    return found
