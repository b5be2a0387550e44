"""Schedules of a place, and the runs that they have started."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from llm_do_temporal.extensions.schedules.schedules import ListedSchedule, SchedulePlan, Schedules, input_files
from llm_do_temporal.messages.runs import InputFiles, StartRunInput
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.place import Place

YEARLY = SchedulePlan(cron=("0 7 1 1 *",), timezone="Europe/Berlin")


async def made(place: Place, plan: SchedulePlan = YEARLY, **more: object) -> str:
    """Make a schedule with a name of its own, and return the name."""
    name = f"nightly-{uuid4().hex[:8]}"
    request = StartRunInput.model_validate({"worker": "writer", "prompt": "go\non", "started_by": "ada", **more})
    await Schedules(place.client).create(name, request, plan)
    return name


async def ran(place: Place, name: str, count: int = 1) -> ListedSchedule:
    """Wait until the schedule has started so many runs."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await Schedules(place.client).one(name)
            if len(found.recent) >= count:
                place.started.extend(one for one in found.recent if one not in place.started)
                return found
            await asyncio.sleep(0.05)


async def triggered(place: Place, name: str) -> str:
    """Begin a run of the schedule, and return the run."""
    before = set((await Schedules(place.client).one(name)).recent)
    await Schedules(place.client).trigger(name)
    found = await ran(place, name, len(before) + 1)
    (run,) = set(found.recent) - before
    return run


def reads(place: Place, *attach: str, each: tuple[str, ...] = (), each_line: str = "") -> InputFiles | None:
    """Return files of the workshop, named by their paths below it, as somebody in its folder names them."""
    folder = place.folder
    return input_files(
        folder,
        attach=[folder / one for one in attach],
        each=[str(folder / one) for one in each],
        each_line=folder / each_line if each_line else None,
    )


def put(place: Place, name: str, data: str = "x") -> None:
    """Put a file into the workshop."""
    path = place.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data, encoding="utf-8")
