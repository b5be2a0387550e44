"""The pages of schedules, without a browser and without JavaScript: the list, one of them, and what people do to it."""

from __future__ import annotations

from temporalio.client import Schedule, ScheduleActionStartWorkflow

from llm_do_temporal.extensions.schedules.schedules import Schedules
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.testing import scripted
from tests.support.extensions.schedules.scheduled import YEARLY, made, put, ran, reads, triggered
from tests.support.people.browser import Browser, Page
from tests.support.people.signed_in import SCRIPT, page_with, signed_in_browser
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place


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
