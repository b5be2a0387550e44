"""Runs begin by themselves, by the clock: planned, paused, triggered, filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llm_do_temporal.extension import Command, CommandGroup, Extension, NavigationEntry


class SchedulesExtension(Extension):
    """See the module."""

    name = "schedules"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.schedules.command import (
            backfill_schedule,
            create_schedule,
            delete_schedule,
            list_schedules,
            pause_schedule,
            resume_schedule,
            show_schedule,
            trigger_schedule,
        )

        examples = (
            "schedule create nightly notes 'tidy up' --cron '0 7 * * 1-5' --timezone Europe/Berlin",
            "schedule create pulse checker --every 15m",
            "schedule create files notes --every 1d --each 'files/*.md'",
            "schedule trigger nightly",
        )
        below = {
            "create": create_schedule,
            "show": show_schedule,
            "pause": pause_schedule,
            "resume": resume_schedule,
            "trigger": trigger_schedule,
            "backfill": backfill_schedule,
            "delete": delete_schedule,
        }
        return (Command("schedule", list_schedules, CommandGroup.RUNS, "[FLAGS]", examples, below),)

    def routes(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.schedules.page import routes

        return routes

    def navigation(self) -> Sequence[NavigationEntry]:
        """See Extension."""
        return (NavigationEntry("Schedules", "/schedules", place="a schedule"),)

    def addresses(self) -> Mapping[str, Callable[[str], str]]:
        """See Extension."""
        from llm_do_temporal.extensions.schedules.page import schedule_address

        return {"schedule": schedule_address}


EXTENSION = SchedulesExtension()
