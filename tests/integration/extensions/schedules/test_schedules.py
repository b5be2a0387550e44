"""Schedules on the real server: runs that begin by themselves, and what people do to them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from temporalio.client import Schedule, ScheduleActionStartWorkflow

from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.schedules.schedules import OVERLAPS, MeetingFate, SchedulePlan, Schedules
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.messages.sizes import MAX_INLINE_BYTES, MAX_RUN_ID_CHARS
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.testing import scripted
from tests.support.doors.http_client import person
from tests.support.extensions.schedules.scheduled import YEARLY, made, put, ran, reads, triggered
from tests.support.people.browser import Browser, Page
from tests.support.people.signed_in import SCRIPT, page_with, signed_in_browser
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place


def writer(place: Place, *turns: object) -> None:
    place.worker("writer", scripted(*(turns or ("Done.",))), toolsets={"filesystem": {}})  # pyright: ignore[reportArgumentType]


async def test_a_triggered_run_is_an_ordinary_run_that_is_called_like_its_schedule(place: Place) -> None:
    writer(place, write_call("/a.txt"), "Done.")
    name = await made(place)
    shown = await Schedules(place.client).one(name)
    assert (shown.worker, shown.task, shown.started_by, shown.overlap) == ("writer", "go", "ada", "skip")
    assert shown.times == ("0 7 1 1 * Europe/Berlin",)
    assert [(one.month, one.day, one.hour) for one in shown.upcoming[:1]] == [(1, 1, 6)]
    await Schedules(place.client).trigger(name)
    (run,) = (await ran(place, name)).recent
    assert run.startswith(f"{name}-")
    await place.pending(run)
    summary = await place.client.status(run)
    assert (summary.started_by, summary.task) == ("ada", "go")
    while [one.run for one in await place.client.runs(RunFilter(begins=f"{name}-", state="waiting"))] != [run]:
        pass
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."
    await Schedules(place.client).delete(name)
    assert (await place.client.result(run)).output == "Done."


@pytest.mark.thorough
async def test_runs_begin_by_themselves_until_the_schedule_is_paused(place: Place) -> None:
    writer(place)
    name = await made(place, SchedulePlan(every=timedelta(seconds=1), overlap="allow-all"))
    schedules = Schedules(place.client)
    for run in (await ran(place, name, 2)).recent:
        assert (await place.client.result(run)).output == "Done."
    await schedules.pause(name, "holidays")
    paused = await schedules.one(name)
    assert (paused.paused, paused.note) == (True, "holidays")
    for run in paused.recent:  # one that goes on may be called like the next: by the second
        await place.client.result(run)
    await schedules.trigger(name)
    await ran(place, name, len(paused.recent) + 1 if len(paused.recent) < 5 else 5)
    await schedules.resume(name)
    assert not (await schedules.one(name)).paused
    await schedules.delete(name)
    for run in [one.run for one in await place.client.runs(RunFilter(begins=f"{name}-"), limit=100)]:
        await place.client.result(run)
        place.started.append(run) if run not in place.started else None


async def test_a_run_that_is_due_while_the_last_one_goes_on_is_skipped(place: Place) -> None:
    writer(place, write_call("/a.txt"), "Done.")
    name = await made(place, SchedulePlan(every=timedelta(seconds=1)))
    schedules = Schedules(place.client)
    (first,) = (await ran(place, name)).recent
    await place.pending(first)
    while (await schedules.one(name)).skipped == 0:
        pass
    assert (await schedules.one(name)).recent == (first,)
    await schedules.delete(name)
    await place.decide(first)
    await place.client.result(first)


async def test_a_run_that_is_triggered_while_another_goes_on_is_told_its_fate(place: Place) -> None:
    writer(place, write_call("/a.txt"), "Done.")
    name = await made(place)
    schedules = Schedules(place.client)
    assert (await schedules.trigger(name)).fate is MeetingFate.BEGINS
    (first,) = (await ran(place, name)).recent
    await place.pending(first)
    meeting = await schedules.trigger(name)
    assert (meeting.fate, meeting.going_on) == (MeetingFate.SKIPPED, (first,))
    assert meeting.words == f"{first} still goes on, and overlap is skip: no run begins"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    passed = start, start + timedelta(hours=12)
    assert (await schedules.backfill(name, *passed, overlap="skip")).fate is MeetingFate.SKIPPED
    shown = await schedules.one(name)
    assert (shown.recent, shown.skipped, shown.waiting) == ((first,), 0, 0)
    assert (await schedules.backfill(name, *passed)).fate is MeetingFate.WAITS
    while (await schedules.one(name)).waiting != 1:
        pass
    await schedules.delete(name)
    await place.decide(first)
    await place.client.result(first)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("overlap", "first_ends", "begun", "waiting"),
    [
        ("buffer-one", "waiting", 1, 1),
        ("buffer-all", "waiting", 1, 2),
        ("cancel-other", "cancelled", 2, 0),
        ("terminate-other", "terminated", 2, 0),
        ("allow-all", "waiting", 2, 0),
    ],
)
async def test_overlap_says_what_becomes_of_a_run_that_is_due_while_another_goes_on(
    place: Place, overlap: str, first_ends: str, begun: int, waiting: int
) -> None:
    writer(place, write_call("/a.txt"), "Done.", write_call("/a.txt"), "Done.")
    name = await made(place, SchedulePlan(cron=YEARLY.cron, overlap=overlap))
    schedules = Schedules(place.client)
    await schedules.trigger(name)
    (first,) = (await ran(place, name)).recent
    await place.pending(first)
    while datetime.now(UTC) < datetime.fromisoformat(first.removeprefix(f"{name}-")) + timedelta(seconds=1):
        pass  # runs are called by the second at which they were due
    for _ in range(2 if overlap.startswith("buffer") else 1):
        await schedules.trigger(name)
    await ran(place, name, begun)
    while (found := await schedules.one(name)).waiting != waiting:
        pass
    assert len(found.recent) == begun
    while (await place.client.status(first)).status != first_ends:
        pass
    await schedules.delete(name)
    for run in found.recent:
        await place.client.cancel(run) if (await place.client.status(run)).ended_at is None else None


async def test_triggers_within_a_second_begin_one_run(place: Place) -> None:
    writer(place)
    name = await made(place, SchedulePlan(cron=YEARLY.cron, overlap="allow-all"))
    schedules = Schedules(place.client)
    await asyncio.gather(*(schedules.trigger(name) for _ in range(4)))
    first = (await ran(place, name)).recent[0]
    while datetime.now(UTC) < datetime.fromisoformat(first.removeprefix(f"{name}-")) + timedelta(seconds=2):
        pass
    await triggered(place, name)  # once that is there, all before it were heard
    assert len((await schedules.one(name)).recent) < 1 + 4
    await schedules.delete(name)


@pytest.mark.parametrize("hours", [1, 6, 7])
async def test_a_time_from_one_run_to_the_next_is_counted_from_1970_and_not_from_now(place: Place, hours: int) -> None:
    name = await made(place, SchedulePlan(every=timedelta(hours=hours)))
    shown = await Schedules(place.client).one(name)
    await Schedules(place.client).delete(name)
    assert {one.timestamp() % (hours * 3600) for one in shown.upcoming} == {0}


async def test_a_time_that_has_passed_can_be_filled_in(place: Place) -> None:
    writer(place)
    name = await made(place, SchedulePlan(cron=("0 7 * * *",)))
    schedules = Schedules(place.client)
    start = datetime(2026, 3, 1, tzinfo=UTC)
    await schedules.backfill(name, start, start + timedelta(days=3), overlap="allow-all")
    found = await ran(place, name, 3)
    assert sorted(found.recent) == [f"{name}-2026-03-0{day}T07:00:00Z" for day in (1, 2, 3)]
    for run in found.recent:
        await place.client.result(run)
    with pytest.raises(UsageError, match="not before"):
        await schedules.backfill(name, start, start)
    with pytest.raises(UsageError, match="in the future"):
        await schedules.backfill(name, start, datetime.now(UTC) + timedelta(days=1))
    await schedules.delete(name)


@pytest.mark.parametrize(
    ("day", "begun"),
    [
        # 02:30 is not there on the 29th of March, and is there twice on the 25th of October.
        (datetime(2026, 3, 28, 12, tzinfo=UTC), ["03-30T00:30:00Z"]),
        (datetime(2026, 10, 24, 12, tzinfo=UTC), ["10-25T01:30:00Z", "10-26T01:30:00Z"]),
    ],
    ids=["summer time begins", "summer time ends"],
)
async def test_a_time_that_a_change_of_clocks_leaves_out_is_skipped_and_one_that_comes_twice_counts_once(
    place: Place, day: datetime, begun: list[str]
) -> None:
    writer(place, *["Done."] * 3)
    name = await made(place, SchedulePlan(cron=("30 2 * * *",), timezone="Europe/Berlin"))
    schedules = Schedules(place.client)
    await schedules.backfill(name, day, day + timedelta(days=2), overlap="allow-all")
    found = await ran(place, name, len(begun))
    assert sorted(found.recent) == [f"{name}-2026-{one}" for one in begun]
    for run in found.recent:
        await place.client.result(run)
    await schedules.delete(name)


async def test_schedules_of_others_are_not_ours(place: Place) -> None:
    from temporalio.client import Schedule, ScheduleActionStartWorkflow

    theirs = f"theirs-{uuid4().hex[:8]}"
    action = ScheduleActionStartWorkflow("Other", id=theirs, task_queue="nobody")
    handle = await place.client.temporal.create_schedule(theirs, Schedule(action=action, spec=YEARLY.spec))
    schedules = Schedules(place.client)
    name = await made(place)
    while name not in [one.name for one in await schedules.all()]:
        pass
    assert theirs not in [one.name for one in await schedules.all()]
    for action_of in (schedules.one, schedules.pause, schedules.resume, schedules.trigger, schedules.delete):
        for unknown in (theirs, "nothing"):
            with pytest.raises(UsageError, match="there is no schedule"):
                await action_of(unknown)
    await handle.delete()
    await schedules.delete(name)


@pytest.mark.parametrize("name", ["", " ", "a/b", "a" * (MAX_RUN_ID_CHARS - 20)])
async def test_a_name_of_which_no_run_can_be_called_is_refused(place: Place, name: str) -> None:
    with pytest.raises(UsageError, match="no name of a schedule"):
        await Schedules(place.client).create(name, StartRunInput(worker="writer"), YEARLY)


async def test_a_name_is_taken_once_and_a_giant_prompt_is_refused(place: Place) -> None:
    name = await made(place)
    schedules, request = Schedules(place.client), StartRunInput(worker="writer", prompt="x")
    with pytest.raises(UsageError, match="already a schedule"):
        await schedules.create(name, request, YEARLY)
    big = request.model_copy(update={"prompt": "x" * (MAX_INLINE_BYTES + 1)})
    with pytest.raises(UsageError, match="bytes"):
        await schedules.create(f"{name}-2", big, YEARLY)
    await schedules.delete(name)


async def test_a_day_that_no_month_has_is_refused_and_its_name_is_not_taken(place: Place) -> None:
    schedules, request = Schedules(place.client), StartRunInput(worker="writer", prompt="x")
    name = f"never-{uuid4().hex[:8]}"
    with pytest.raises(UsageError, match="none of these times ever comes"):
        await schedules.create(name, request, SchedulePlan(cron=("0 7 31 2 *",)))
    with pytest.raises(UsageError, match="there is no schedule"):
        await schedules.one(name)
    await schedules.create(name, request, SchedulePlan(cron=("0 7 31 2 *", "0 7 29 2 *")))
    assert (await schedules.one(name)).upcoming
    await schedules.delete(name)


@pytest.mark.parametrize("cron", ["99 99 * * *", "x y z * *", "CRON_TZ=Mars 7 * * *"])
async def test_a_time_that_never_comes_is_refused_in_words(place: Place, cron: str) -> None:
    with pytest.raises(UsageError, match="does not take this schedule"):
        await made(place, SchedulePlan(cron=(cron,)))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"every": timedelta(0)},
        {"every": timedelta(hours=1), "timezone": "Europe/Berlin"},
        {"cron": ("0 7 * * *",), "timezone": "Mars/Base"},
        {"cron": ("0 7 * * *",), "timezone": "../../etc/passwd"},
        {"every": timedelta(hours=1), "overlap": "twice"},
        {"every": timedelta(hours=1), "jitter": timedelta(hours=1)},
        {"every": timedelta(days=100_000)},
        {"every": timedelta(hours=1), "catch_up": timedelta(seconds=9)},
        {"cron": ("0 7 * * *",), "timezone": "Europe"},
        {"cron": ("0 7 * * *",), "timezone": "a\0b"},
    ],
)
def test_a_plan_that_cannot_be_is_refused_before_anything_is_sent(given: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        SchedulePlan(**given)  # pyright: ignore[reportArgumentType]


def test_every_policy_has_one_name() -> None:
    assert len(set(OVERLAPS.values())) == len(OVERLAPS) == 6


async def test_runs_of_a_schedule_are_listed_by_its_name(place: Place) -> None:
    place.worker("writer", scripted("Done."))
    ada, run = person(place), await triggered(place, name := await made(place))
    await ada.until(run, "completed")

    async def listed(**wanted: str) -> list[str]:
        return [one["run"] for one in (await ada.ask("GET", "/runs", params=wanted)).body["runs"]]

    while await listed(schedule=name) != [run]:
        pass
    assert await listed(schedule=f"{name}x", begins=run) == []
    assert await listed(begins=run) == [run]
    await Schedules(place.client).delete(name)


async def press(browser: Browser, page: Page, what: str, **fields: str) -> Page:
    """Send the one form of the page whose address ends so."""
    (form,) = [form for form in page.forms if form.action.endswith(f"/{what}")]
    return await browser.send(page, form, **fields)


async def test_a_schedule_is_listed_with_its_times_and_its_last_runs(place: Place) -> None:
    place.worker("writer", scripted("Done.", "Done."))
    put(place, "inbox/news.txt")
    name = await made(place, reads=reads(place, "inbox/news.txt"))
    ada = await signed_in_browser(place)
    page = await page_with(ada, "/schedules", name)
    assert "0 7 1 1 *" in page.text
    run = await triggered(place, name)
    await place.client.result(run)
    page = await page_with(ada, "/schedules", run, "completed")
    page = await page_with(ada, f"/schedules/{name}", run, "Each run reads anew: inbox/news.txt", "made by ada")
    assert f'href="/runs/{run.replace(":", "%3A")}"' in page.html
    assert f'href="/schedules/{name}"' in (await ada.open(f"/runs/{run}")).html
    assert run in (await page_with(ada, f"/runs?schedule={name}", run)).text
    assert run not in (await ada.open("/runs?schedule=another")).text
    await Schedules(place.client).delete(name)


async def test_people_pause_resume_trigger_and_delete_it_by_forms(place: Place) -> None:
    place.worker("writer", scripted("Done.", "Done."))
    name = await made(place)
    ada = await signed_in_browser(place)
    page = await ada.open(f"/schedules/{name}")
    page = await press(ada, page, "pause", note="holidays")
    assert "holidays (by ada)" in page.text
    assert (await Schedules(place.client).one(name)).paused
    page = await press(ada, page, "resume")
    assert "Runs begin again." in page.text
    assert not (await Schedules(place.client).one(name)).paused
    page = await press(ada, page, "trigger")
    assert "A run begins." in page.text
    (run,) = (await ran(place, name)).recent
    assert (await place.client.result(run)).output == "Done."
    page = await ada.open(f"/schedules/{name}/delete")
    assert "Delete the schedule?" in page.text
    page = await press(ada, page, "delete")
    assert "Deleted. Its runs stay as they are." in page.text
    assert name not in [one.name for one in await Schedules(place.client).all()]
    assert (await ada.open(f"/schedules/{name}")).status == 404
    assert (await place.client.result(run)).output == "Done."


async def test_the_button_says_that_no_run_begins_while_another_goes_on(place: Place) -> None:
    place.worker("writer", scripted(write_call("/a.txt"), "Done."), toolsets={"filesystem": {}})
    name = await made(place)
    run = await triggered(place, name)
    await place.pending(run)
    ada = await signed_in_browser(place)
    page = await press(ada, await ada.open(f"/schedules/{name}"), "trigger")
    assert "No run begins: one of this schedule still goes on" in page.text
    assert "A run begins." not in page.text
    await Schedules(place.client).delete(name)
    await place.decide(run)
    await place.client.result(run)


async def test_nothing_is_done_without_the_forms_secret_or_by_opening_an_address(place: Place) -> None:
    place.worker("writer", scripted("Done."))
    name = await made(place)
    ada = await signed_in_browser(place)
    page = await ada.open(f"/schedules/{name}")
    for what in ("pause", "trigger"):
        (form,) = [form for form in page.forms if form.action.endswith(f"/{what}")]
        assert (await ada.send(page, form, without="csrf")).status == 403
        assert (await ada.open(f"/schedules/{name}/{what}")).status == 405
    confirm = await ada.open(f"/schedules/{name}/delete")
    (form,) = [form for form in confirm.forms if form.action.endswith("/delete")]
    assert (await ada.send(confirm, form, without="csrf")).status == 403
    found = await Schedules(place.client).one(name)
    assert (found.paused, found.recent) == (False, ())
    await Schedules(place.client).delete(name)


async def test_words_of_schedules_are_text_and_what_cannot_be_read_says_so(place: Place) -> None:
    place.worker("writer", scripted("Done."))
    name = await made(place, prompt=f"{SCRIPT}\u202e", started_by=SCRIPT)
    odd = f"{name}-odd"
    action = ScheduleActionStartWorkflow(RUN_WORKFLOW, {"worker": 7}, id=odd, task_queue="nobody")
    handle = await place.client.temporal.create_schedule(odd, Schedule(action=action, spec=YEARLY.spec))
    await Schedules(place.client).pause(name, SCRIPT)
    ada = await signed_in_browser(place)
    page = await page_with(ada, "/schedules", name, odd, "what it starts is no start of a run")
    for shown in (page, await ada.open(f"/schedules/{name}"), await ada.open(f"/schedules/{odd}")):
        assert shown.status == 200
        assert SCRIPT not in shown.html
        assert "\u202e" not in shown.html
    for unknown in ("nothing", "%2e%2e", "a%0Ab", "x" * 400):
        assert (await ada.open(f"/schedules/{unknown}")).status == 404
    await handle.delete()
    await Schedules(place.client).delete(name)
