"""Schedules as lists and pages show them, read from the server's description and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError
from temporalio.client import ScheduleActionExecutionStartWorkflow, ScheduleActionStartWorkflow, ScheduleDescription
from temporalio.exceptions import TemporalError

from llm_do_temporal.client.history.events import NOT_AT_HAND
from llm_do_temporal.client.schedules.plan import OVERLAPS
from llm_do_temporal.client.schedules.times import cron_words, every_words
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.runs import RunMemo, StartRunInput

_SHOWN = 5
"""Runs of a schedule that are told of, and times to come."""
_OVERLAPS = {policy: name for name, policy in OVERLAPS.items()}


@dataclass(frozen=True)
class ListedSchedule:
    """Schedule as a list shows it."""

    name: str
    worker: str
    """Worker of its runs; empty where what it starts cannot be read here."""
    task: str
    started_by: str
    """Name of the person who made it: its runs are started in that name."""
    times: tuple[str, ...]
    """Times as they were given, like `0 7 * * 1-5 Europe/Berlin` or `every 1 h`."""
    in_words: str
    """Times in words, like `Monday to Friday at 07:00 Europe/Berlin`."""
    overlap: str
    jitter_seconds: float
    catch_up_seconds: float
    paused: bool
    note: str
    upcoming: tuple[datetime, ...]
    recent: tuple[str, ...]
    """Ids of the last runs, the newest first."""
    going_on: tuple[str, ...]
    """Ids of the runs that go on, as far as the server remembers them."""
    waiting: int
    """Runs that are due, and begin once those before them have ended."""
    missed: int
    skipped: int
    """Runs that did not begin since the one before went on."""
    reads: str = ""
    """Files that each run reads anew, in words; empty: none."""
    pinned: tuple[str, ...] = ()
    """Names of the files whose bytes were kept when it was made, items included."""
    unreadable: str = ""
    """Reason why what it starts cannot be read here; empty: it can."""

    def as_json(self) -> dict[str, Any]:
        """Return the object of `--json`."""
        return {**self.__dict__, "upcoming": [one.isoformat() for one in self.upcoming]}


async def listed_schedule(described: ScheduleDescription) -> ListedSchedule:
    """Return what the server's description of a schedule tells."""
    action, spec = described.schedule.action, described.schedule.spec
    assert isinstance(action, ScheduleActionStartWorkflow)
    request, unreadable = await _request(described, action)
    zone = f" {spec.time_zone_name}" if spec.time_zone_name else ""
    crons = [one.comment.strip() if one.comment else "a calendar" for one in spec.calendars] + list(
        spec.cron_expressions
    )
    every = [every_words(one.every) for one in spec.intervals]
    words = [f"{cron_words(one)}{zone}" for one in crons] + every
    ran = [one.action for one in described.info.recent_actions]
    policy, state = described.schedule.policy, described.schedule.state
    return ListedSchedule(
        name=described.id,
        worker=request.worker,
        task=RunMemo.of(request).task,
        started_by=request.started_by,
        times=(*(f"{one}{zone}" for one in crons), *every),
        in_words=", ".join(words),
        overlap=_OVERLAPS.get(policy.overlap, "skip"),
        jitter_seconds=(spec.jitter or timedelta()).total_seconds(),
        catch_up_seconds=(policy.catchup_window or timedelta()).total_seconds(),
        paused=state.paused,
        note=state.note or "",
        upcoming=() if state.paused else tuple(described.info.next_action_times[:_SHOWN]),
        recent=tuple(
            one.workflow_id for one in reversed(ran[-_SHOWN:]) if isinstance(one, ScheduleActionExecutionStartWorkflow)
        ),
        going_on=tuple(
            one.workflow_id
            for one in described.info.running_actions
            if isinstance(one, ScheduleActionExecutionStartWorkflow)
        ),
        waiting=described.raw_description.info.buffer_size,
        missed=described.info.num_actions_missed_catchup_window,
        skipped=described.info.num_actions_skipped_overlap,
        reads="" if request.reads is None else request.reads.words,
        pinned=_pinned(request),
        unreadable=unreadable,
    )


async def _request(described: ScheduleDescription, action: ScheduleActionStartWorkflow) -> tuple[StartRunInput, str]:
    """Return what the schedule starts, and the reason why that cannot be read: anybody may have written it."""
    try:
        (given,) = await described.data_converter.decode(list(action.args))  # pyright: ignore[reportArgumentType]
        return StartRunInput.model_validate(given), ""
    except KeyMismatch as error:
        return StartRunInput(worker=""), error.message
    except ValidationError:
        return StartRunInput(worker=""), "what it starts is no start of a run"
    except (*NOT_AT_HAND, TemporalError):
        return StartRunInput(worker=""), "what it starts is kept elsewhere, or is no start of a run"


def _pinned(request: StartRunInput) -> tuple[str, ...]:
    items = () if request.batch is None else request.batch.items
    return tuple(one.path for one in (*request.attachments, *(file for item in items for file in item.attachments)))
