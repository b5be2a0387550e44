"""Meetings of runs: what becomes of one that somebody begins while others of its schedule go on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
