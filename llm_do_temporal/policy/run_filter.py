"""Filters of the list of runs: as an address, flags or an entry of `views:` says them, and whether a run passes.

Pure. The server judges states, workers, ids and times; who started a run, and its task, stand in its memo alone.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator

from llm_do_temporal.policy.budget import LONGEST_AGE, read_duration
from llm_do_temporal.policy.values import Value

STATES = (
    "open",
    "running",
    "waiting",
    "completed",
    "partly failed",
    "failed",
    "cancelled",
    "terminated",
    "timed out",
)
"""States by which runs are listed. `open` is running or waiting; `partly failed` has completed, and items of its batch
have failed."""
_DAY = timedelta(days=1)
_AGE = re.compile(r"\d+[smhd]", re.ASCII)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""Moment before which all are that can be told in every time zone, with a day added."""
_HOW = "write it like 7d, 12h, 2026-11-01 or 2026-11-01T08:30"


def _as_text(value: object) -> object:
    """Return the text of a date that YAML has read as one."""
    return value.isoformat() if isinstance(value, date) else value


Moment = Annotated[str, BeforeValidator(_as_text)]
"""Moment as people write it: an age like `7d`, a day like `2026-11-01`, or a time like `2026-11-01T08:30`."""


class RunFilter(Value):
    """Filter of the list of runs; an empty field of text lets every run through."""

    state: str = ""
    """State out of STATES."""
    worker: str = ""
    """Name of the entry worker."""
    who: str = ""
    """Name of the person who started the run."""
    since: Moment = ""
    """Moment since which the run has begun."""
    until: Moment = ""
    """Moment until which the run has begun; a day counts whole."""
    text: str = Field(default="", max_length=200)
    """Words in the task or in the id, in capitals or not."""
    begins: str = ""
    """Beginning of the id."""
    schedule: str = Field(default="", max_length=200)
    """Name of the schedule that has started the run."""
    evaluations: bool = False
    """Whether runs that evaluations have started, of their cases and judges, are let through, too."""

    @field_validator("state")
    @classmethod
    def _known_state(cls, state: str) -> str:
        if not state or state in STATES:
            return state
        close = get_close_matches(state, STATES, n=1)
        meant = f"; did you mean '{close[0]}'?" if close else ""
        raise ValueError(f"there is no state '{state[:40]}'; there are {', '.join(STATES)}{meant}")

    @field_validator("worker", "who", "text", "begins", "schedule")
    @classmethod
    def _without_controls(cls, text: str) -> str:
        if any(character < " " or character == "\x7f" for character in text):
            raise ValueError("it has control characters, which no name or task of a run is found by")
        return text

    @field_validator("since", "until")
    @classmethod
    def _readable_moment(cls, moment: str) -> str:
        moment_of(moment, now=datetime(2000, 1, 1, tzinfo=UTC))
        return moment

    @property
    def given(self) -> dict[str, str]:
        """The fields that are set, as an address or a view has them."""
        return {name: "yes" if value is True else value for name, value in self.model_dump().items() if value}

    @property
    def needs_memo(self) -> bool:
        """Whether the server alone cannot judge."""
        return (
            bool(self.who or self.text) or "'" in self.begins or self.state in ("running", "waiting", "partly failed")
        )

    def began_between(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return the moments between which a run has begun, the second excluded; None for no bound."""
        since, until = moment_of(self.since, now=now), moment_of(self.until, now=now)
        is_day = len(self.until) == len("2026-11-01") and self.until[4] == "-"
        return since, until + _DAY if until is not None and is_day else until

    def finds(self, *, run: str, task: str, started_by: str) -> bool:
        """Return whether a run with this id and memo was started by who is wanted, and has the words."""
        if self.who and started_by.casefold() != self.who.casefold():
            return False
        # A server may read a quotation mark in a query as nothing.
        if not run.startswith(self.begins):
            return False
        words = self.text.casefold()
        return words in task.casefold() or words in run.casefold()


def moment_of(text: str, *, now: datetime) -> datetime | None:
    """Return the moment, in UTC unless it says otherwise; None for no text.

    Raises ValueError, also for an age of more than LONGEST_AGE, and for a moment outside the years 1970 to 9998.
    """
    if not text:
        return None
    if _AGE.fullmatch(text):
        return now - timedelta(seconds=read_duration(text, longest=LONGEST_AGE))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text[:40]}' is no time; {_HOW}") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if not _EARLIEST <= moment < _LATEST:
        raise ValueError(f"'{text[:40]}' is not in the years 1970 to 9998; {_HOW}")
    return moment
