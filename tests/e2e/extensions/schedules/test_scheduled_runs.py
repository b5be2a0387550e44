"""Schedules as people type them: what they print, what they refuse, and a death of everything in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from llm_do_temporal.extensions.schedules.schedules import SchedulePlan, Schedules
from llm_do_temporal.messages.runs import InputFiles, StartRunInput
from tests.support.doors.scenario import PROMPT, prepare
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.accessibility import assert_accessible
from tests.support.people.desk import Desk
from tests.support.people.office import Office, write
from tests.support.ports import unused_port


def shown(desk: Desk, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(desk.type("schedule", "show", name, "--json").stdout)
    return found


@pytest.mark.thorough
def test_a_schedule_and_its_run_survive_the_death_of_dev_with_its_server_and_service(desk: Desk) -> None:
    ports = ("--no-page", "--port", str(unused_port()))
    dev = desk.begin("dev", *ports)
    assert desk.host.kind == "dev"
    prepare(desk)
    for name in ("a.txt", "b.txt"):
        (desk.workshop / name).write_text(name)
    desk.type(
        "schedule", "create", "decks", "deck_keeper", PROMPT, "--every", "30d", "--each", str(desk.workshop / "*.txt")
    )
    desk.type("schedule", "trigger", "decks")
    run: str = eventually(lambda: shown(desk, "decks")["recent"], "a run has begun")[0]
    first = {one["id"] for one in desk.pending(run, 2)}
    skipped = desk.type("schedule", "trigger", "decks", code=2).stderr
    assert f"{run} still goes on, and overlap is skip: no run begins" in skipped
    assert "begins a run" not in skipped
    desk.kill_group(dev)
    desk.begin("dev", *ports)
    assert desk.host.kind == "dev"
    assert {one["id"] for one in desk.pending(run, 2)} == first
    desk.type("approve", run, "--all", "--yes")
    ended = json.loads(desk.type("result", run, "-o", "json").stdout)
    assert [(one["item"], one["status"]) for one in ended["items"]] == [("a.txt", "completed"), ("b.txt", "completed")]
    assert (desk.workshop / "files/said.txt").read_text() == "seven slides"
    found = shown(desk, "decks")
    assert (found["recent"], found["reads"]) == ([run], "each of *.txt")
    assert "schedule decks is deleted" in desk.type("schedule", "delete", "decks").stderr


@pytest.mark.thorough
def test_what_is_typed_wrong_is_refused_in_words_before_anything_is_made(shop: Desk) -> None:
    prepare(shop)
    when = ("--cron", "0 7 * * *")
    refused = [
        (("x", "deck_keeper"), "nothing says when"),
        (("x", "deck_keeper", "--cron", "99 * * * *"), "does not take this schedule"),
        (("x", "deck_keeper", "--cron", "0 7 * * * # x"), "has a '#', and takes no comment"),
        (("x", "deck_keeper", "--cron", "@every 1s", "--timezone", "Europe/Berlin"), "Give it as --every"),
        (("x", "deck_keeper", "--every", "99999999999999999999d"), "is too long; a time is at most 3660 days"),
        (("x", "deck_keeper", *when, "--jitter", "99999999999999999999d"), "is too long; a time is at most 3660 days"),
        (("x", "deck_keeper", *when, "--catch-up", "99999999999999999999d"), "is too long"),
        (("x", "deck_keeper", "--every", "0s"), "at least a second"),
        (("x", "deck_keeper", "--every", "soon"), "--every soon"),
        (("x", "deck_keeper", "--every", "99999999d"), "at most 3660 days"),
        (("x", "deck_keeper", *when, "--timezone", "Mars/Base"), "there is no time zone 'Mars/Base'"),
        (("x", "deck_keeper", *when, "--overlap", "twice"), "there is no overlap policy"),
        (("x", "deck_keeper", "--every", "1m", "--jitter", "1m"), "--jitter is shorter than --every"),
        (("x", "deck_keeper", *when, "--catch-up", "1s"), "--catch-up is at least 10s"),
        (("a/b", "deck_keeper", *when), "no name of a schedule"),
        (("x", "deck_keeper", *when, "-a", "/etc/hostname"), "outside of the workshop"),
        (("x", "deck_keeper", *when, "-a", str(shop.workshop / "nothing.txt")), "does not exist"),
        (("x", "deck_keeper", *when, "--each", str(shop.workshop / ".llm-do/*")), "its own state"),
        (("x", "deck_keeper", *when, "--pin"), "--pin says nothing"),
        (("x", "deck_keeper", *when, "--concurrency", "4"), "--concurrency says nothing"),
    ]
    for typed, words in refused:
        assert words in shop.type("schedule", "create", *typed, code=2).stderr
    assert "there is no schedule 'x'" in shop.type("schedule", "show", "x", code=2).stderr
    assert shop.type("schedule", "create", "x", "nobody", *when, code=8).stderr
    assert "--from is not before --to" in _backfilled(shop, "2026-01-02", "2026-01-01")
    assert "in the future" in _backfilled(shop, "2026-01-02", "2226-01-01")


def _backfilled(desk: Desk, begin: str, end: str) -> str:
    return desk.type("schedule", "backfill", "x", "--from", begin, "--to", end, code=2).stderr


@pytest.mark.thorough
def test_kept_files_may_lie_anywhere_and_a_name_is_taken_once(shop: Desk, tmp_path: Path) -> None:
    prepare(shop)
    file = tmp_path / "deck.txt"
    file.write_text("seven slides")
    typed = ("schedule", "create", "pinned", "deck_keeper", "hello", "--cron", "0 7 * * 1-5", "--pin", "-a", str(file))
    said = shop.type(*typed).stderr
    assert "schedule pinned: deck_keeper Monday to Friday at 07:00" in said
    assert "each run is given 1 file, as it was when this was made" in said
    file.unlink()
    assert "there is already a schedule 'pinned'" in shop.type(*typed[:-3], code=2).stderr
    assert shown(shop, "pinned")["pinned"] == ["deck.txt"]
    shop.type("schedule", "pause", "pinned")
    assert shown(shop, "pinned")["note"].startswith("by ")
    shop.type("schedule", "resume", "pinned")
    assert shown(shop, "pinned")["note"].startswith("resumed by ")
    shop.type("schedule", "trigger", "pinned")
    run: str = eventually(lambda: shown(shop, "pinned")["recent"], "a run has begun")[0]
    shop.type("result", run)
    # The server lists what has begun, or has ended, a moment late.
    listed = eventually(lambda: json.loads(shop.type("list", "--schedule", "pinned", "--json").stdout), "it is listed")
    assert [(one["run"], one["schedule"]) for one in listed] == [(run, "pinned")]
    assert "of schedule pinned" in shop.type("show", run).stdout
    eventually(lambda: "pinned" in shop.type("schedule").stdout, "the schedule is listed")
    shop.type("schedule", "delete", "pinned")


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
