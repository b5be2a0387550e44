"""Schedules on the page as people use it: headless Chromium, wide and narrow, a run that is begun by a button."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import expect

from llm_do_temporal.extensions.schedules.schedules import SchedulePlan, Schedules
from llm_do_temporal.messages.runs import InputFiles, StartRunInput
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.accessibility import assert_accessible
from tests.support.people.office import Office, write

expect.set_options(timeout=PATIENCE_SECONDS * 1000)
SIZES = {"wide": {"width": 1200, "height": 900}, "narrow": {"width": 360, "height": 700}}
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES)
async def test_a_run_is_begun_by_a_button_asks_and_is_seen_to_end(office: Office, size: str) -> None:
    schedules, name = Schedules(office.client), f"nightly {size} " + "and a name that is long" * 3
    (office.desk.workshop / "news.txt").write_text("news")
    files, turns = InputFiles(attach=("news.txt",)), [[write(f"/{size}.txt", "by the clock")]]
    start = StartRunInput(worker="clerk", prompt=json.dumps(turns), started_by="bob", reads=files)
    await schedules.create(name, start, SchedulePlan(cron=("0 7 1 1 *",), timezone="Europe/Berlin"))
    ada = await office.person(viewport=SIZES[size])
    await ada.get_by_role("link", name="Schedules").click()
    await expect(ada).to_have_title("Schedules · llm-do-temporal")
    while await ada.get_by_role("link", name=name).count() == 0:
        await ada.reload()
    await assert_accessible(ada)
    assert await ada.evaluate(FITS)
    await ada.get_by_role("link", name=name).click()
    await ada.get_by_role("button", name="Begin a run now").click()
    await expect(ada.get_by_role("status")).to_have_text("A run begins. It is below in a moment.")
    # The list of runs renews itself.
    await expect(ada.locator("#runs")).to_contain_text("1 question")
    await assert_accessible(ada)
    assert await ada.evaluate(FITS)
    await ada.locator("#runs").get_by_role("link").first.click()
    await expect(ada.get_by_role("link", name=name)).to_be_visible()
    await ada.get_by_role("link", name=f"write_file /{size}.txt").first.click()
    await ada.get_by_role("button", name="Approve", exact=True).click()
    await expect(ada.locator(".done")).to_contain_text("approved")
    (run,) = (await schedules.one(name)).recent
    assert (await office.client.result(run)).output == "Done."
    assert office.read(f"{size}.txt") == "by the clock"
    await ada.goto(f"{office.link}/schedules")
    await ada.get_by_role("link", name=name).first.click()
    await expect(ada.locator("#runs")).to_contain_text("completed")
    await ada.get_by_label("Reason for the pause").fill("holidays")
    await ada.get_by_role("button", name="Pause").click()
    await expect(ada.locator("main")).to_contain_text("holidays (by ada)")
    await ada.get_by_role("button", name="Resume").click()
    await ada.get_by_role("link", name="Delete…").click()
    await expect(ada.get_by_role("heading", level=1)).to_have_text("Delete the schedule?")
    await assert_accessible(ada)
    await ada.get_by_role("button", name="Delete the schedule").click()
    await expect(ada.get_by_role("status")).to_have_text("Deleted. Its runs stay as they are.")
