"""Forks as doors take them: a run once more, with changes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from llm_do_temporal.doors.values.base import RequestBody, ResponseValue
from llm_do_temporal.policy.reuse.estimate import ForkEstimate

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
