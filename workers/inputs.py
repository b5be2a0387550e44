"""What the recursive workers are given: by people with `--input`, by models as the arguments of a tool."""

from __future__ import annotations

from pydantic import Field

from llm_do_temporal.tools import WorkerArgs


class TaskInput(WorkerArgs):
    """What `task_decomposer` is given, also by itself."""

    task: str = Field(min_length=1, description="What is to be done, complete enough to be understood by itself.")
    part_of: str = Field(default="", description="The larger task that it is a part of; empty for the whole.")
    levels: int = Field(default=2, ge=0, le=3, description="How often it may still be divided: one less than yours.")


class SummaryInput(WorkerArgs):
    """What `summarizer` is given, also by itself: a stretch of a text file, in characters."""

    path: str = Field(min_length=1, description="The text file, like /texts/report.txt.")
    start: int = Field(default=0, ge=0, description="Where the stretch begins.")
    end: int | None = Field(default=None, ge=1, description="Where it ends; null for the end of the file.")
    at_once: int = Field(
        default=4000, ge=200, le=100_000, description="The longest stretch that is read at once: the same as yours."
    )
