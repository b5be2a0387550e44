"""Flags of `schedule create`: when runs begin, and which files they are given.

Owns what goes together. Must not connect to anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from llm_do_temporal.cli.commands.batch import BatchFlags
from llm_do_temporal.cli.options import read_duration_flag
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from llm_do_temporal.client.schedules.plan import SchedulePlan
    from llm_do_temporal.messages.batches import InputFiles

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
        from llm_do_temporal.client.schedules.plan import SchedulePlan

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
        from llm_do_temporal.client.schedules.inputs import input_files

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
