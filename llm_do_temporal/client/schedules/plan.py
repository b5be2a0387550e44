"""Plan of a schedule: when its runs begin, and what becomes of those that meet or were missed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from temporalio.client import (
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
)

from llm_do_temporal.errors import UsageError

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
            _check_cron(cron)
        if self.timezone and not self.cron:
            raise UsageError("--timezone says nothing without --cron: --every counts in UTC")
        if self.every is not None and self.every < LEAST_EVERY:
            raise UsageError("--every is at least a second, like 90s, 15m or 1d")
        if self.catch_up < LEAST_CATCH_UP:
            raise UsageError("--catch-up is at least 10s: the server knows no shorter time")
        if self.jitter is not None and self.every is not None and self.jitter >= self.every:
            raise UsageError("--jitter is shorter than --every, or runs would change their order")
        for flag, time in (("--every", self.every), ("--jitter", self.jitter), ("--catch-up", self.catch_up)):
            if time is not None and time > LONGEST:
                raise UsageError(f"{flag} is at most {LONGEST.days} days")
        if self.overlap not in OVERLAPS:
            raise UsageError(f"there is no overlap policy '{self.overlap[:40]}'; there are {', '.join(OVERLAPS)}")
        try:
            ZoneInfo(self.timezone or "UTC")
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UsageError(
                f"there is no time zone '{self.timezone[:40]}'", next_step="Names are like Europe/Berlin or UTC."
            ) from error

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


def _check_cron(cron: str) -> None:
    """Raise UsageError for more than five fields, a comment, and lengths of time: the server takes them, too."""
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
