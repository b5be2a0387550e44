"""The pages of schedules: all of them, one with its last runs, and what people do to it."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.views.run_list import RunSummary
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.schedules.schedules import ListedSchedule, MeetingFate, Schedules
from llm_do_temporal.ui.content.questions import text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.requests import client_of, see_other

MOST_SHOWN = 100
"""Schedules of the list; of each the last runs are looked for."""
SHORT, LONG = 3, 20
"""Runs that are shown of a schedule in the list, and on its own page."""
_AT_ONCE = 8
_NOTE_CHARS = 200
_SAID: dict[str, str] = {
    "paused": "Paused: no more runs begin by themselves. Those that go on, go on.",
    "resumed": "Runs begin again.",
    MeetingFate.BEGINS: "A run begins. It is below in a moment.",
    MeetingFate.WAITS: "A run of this schedule still goes on. The new one waits, and begins when that has ended.",
    MeetingFate.REPLACES: "A run of this schedule still goes on. It is ended first, then the new one begins.",
    MeetingFate.SKIPPED: "No run begins: one of this schedule still goes on, and its overlap says so.",
}


def schedule_address(name: str) -> str:
    """Return the address of the page of a schedule."""
    return f"/schedules/{quote(name, safe='')}"


def _render(request: Request, page: str, **shown: Any) -> Response:
    return render(request, f"schedules/{page}", schedule_address=schedule_address, **shown)


async def show_schedules(request: Request) -> Response:
    """Show the schedules that start runs, by name."""
    schedules = _schedules(request)
    found, turn = await schedules.all(), asyncio.Semaphore(_AT_ONCE)

    async def with_runs(one: ListedSchedule) -> tuple[ListedSchedule, list[RunSummary]]:
        async with turn:
            return one, await schedules.runs(one.name, limit=SHORT)

    async with translated():
        shown = await asyncio.gather(*map(with_runs, found[:MOST_SHOWN]))
    deleted = request.query_params.get("deleted", "")
    return _render(request, "schedules.html", schedules=shown, total=len(found), deleted=deleted)


async def show_schedule(request: Request) -> Response:
    """Show a schedule with its times, what its runs are given, and the last of them."""
    schedules, name = _schedules(request), request.path_params["schedule"]
    one, runs = await asyncio.gather(schedules.one(name), schedules.runs(name, limit=LONG))
    said = _SAID.get(request.query_params.get("done", ""), "")
    return _render(request, "schedule.html", one=one, runs=runs, said=said, most=LONG)


async def pause_schedule(request: Request) -> Response:
    """Let no more runs begin by themselves."""
    note = text_of(request.state.form, "note").strip()[:_NOTE_CHARS]
    by = f"by {request.state.user}"
    await _schedules(request).pause(request.path_params["schedule"], f"{note} ({by})" if note else by)
    return _back(request, "paused")


async def resume_schedule(request: Request) -> Response:
    """Let runs begin by themselves again."""
    await _schedules(request).resume(request.path_params["schedule"], f"resumed by {request.state.user}")
    return _back(request, "resumed")


async def trigger_schedule(request: Request) -> Response:
    """Begin a run now."""
    meeting = await _schedules(request).trigger(request.path_params["schedule"])
    return _back(request, meeting.fate)


async def confirm_delete(request: Request) -> Response:
    """Ask whether the schedule is really to be deleted."""
    one = await _schedules(request).one(request.path_params["schedule"])
    return _render(request, "schedule_delete.html", one=one)


async def delete_schedule(request: Request) -> Response:
    """End the schedule, and go to the list. Sent twice, the second finds that it is done."""
    name = request.path_params["schedule"]
    try:
        await _schedules(request).delete(name)
    except UsageError:
        return see_other("/schedules")
    return see_other("/schedules?deleted=yes")


def _schedules(request: Request) -> Schedules:
    return Schedules(client_of(request))


def _back(request: Request, done: str) -> Response:
    return see_other(f"{schedule_address(request.path_params['schedule'])}?done={done}")


routes = [
    Route("/schedules", show_schedules, methods=["GET"]),
    Route("/schedules/{schedule}", show_schedule, methods=["GET"]),
    Route("/schedules/{schedule}/pause", pause_schedule, methods=["POST"]),
    Route("/schedules/{schedule}/resume", resume_schedule, methods=["POST"]),
    Route("/schedules/{schedule}/trigger", trigger_schedule, methods=["POST"]),
    Route("/schedules/{schedule}/delete", confirm_delete, methods=["GET"]),
    Route("/schedules/{schedule}/delete", delete_schedule, methods=["POST"]),
]
