"""The page on phones of two sizes: measured in headless Chromium, by the boxes of what a person sees and touches."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from llm_do_temporal.client.open_questions import read_groups
from llm_do_temporal.messages.runs import StartRunInput
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.office import Office, write

expect.set_options(timeout=PATIENCE_SECONDS * 1000)
WORD = "w" * 200
HEBREW = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd"
SIZES = [(390, 844), (360, 640)]
LEAST_FINGER_PIXELS = 36

GLUED = """
root => {
  const found = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  let before = null;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim() || node.parentElement.closest('.sr, pre, [hidden]')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter(box => box.width > 0);
    if (!boxes.length) continue;
    if (before && before.parent !== node.parentElement && !/[\\s(.,:;"'\u2039\u201c]$/.test(before.text)
        && !/^[\\s).,:;"'\u201d\u2026]/.test(node.data)) {
      const one = before.last, other = boxes[0];
      const line = one.top < other.bottom - 2 && other.top < one.bottom - 2;
      if (line && Math.abs(other.left - one.right) < 3) found.push(before.text + '|' + node.data);
    }
    before = {text: node.data, last: boxes[boxes.length - 1], parent: node.parentElement};
  }
  return found;
}
"""
"""Texts of two elements that touch each other, so that they read as one word."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def group(house: Office) -> str:
    """Key of a group of five questions with three contents, among other ones."""
    texts = ["buy bread"] * 3 + ["sell the house " * 10, HEBREW]
    for number, text in enumerate(texts):
        await house.start(f"shop-{number}", [write(f"/shop/{number}.txt", text)])
    await house.asking("bread", [write(f"/{WORD}.md", WORD)], [write("/shop/again.md", "x")])
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for found in (await read_groups(house.client)).groups:
                if found.title == "write_file *.txt in /shop" and len(found.entries) == len(texts):
                    return found.key
            await asyncio.sleep(0.05)


async def phone(office: Office, size: tuple[int, int], **more: Any) -> Page:
    viewport = {"width": size[0], "height": size[1]}
    return await office.person(viewport=viewport, has_touch=True, is_mobile=True, **more)


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_first_question_is_in_the_upper_part_of_the_inbox(
    office: Office, group: str, size: tuple[int, int]
) -> None:
    ada = await phone(office, size)
    await ada.goto(office.link)
    first = ada.locator(".card-title").first
    box = await first.bounding_box()
    assert box is not None
    assert box["y"] < size[1] * 0.4
    await expect(ada.get_by_label("Tool")).to_be_hidden()
    await ada.get_by_text("Filter", exact=True).first.click()
    await ada.get_by_label("Text").fill("again")
    await ada.get_by_role("button", name="Filter").click()
    await expect(ada.get_by_label("Text")).to_have_value("again")  # a filter that is in use is shown


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_no_page_is_wider_than_the_screen_and_no_two_texts_touch(
    office: Office, group: str, size: tuple[int, int], scheme: str
) -> None:
    ada = await phone(office, size, color_scheme=scheme)
    run = "/runs/bread"
    places = ["/", "/?view=each", "/?text=x", f"/groups/{group}", "/runs/shop-3/approvals", "/runs/shop-4/approvals/a1"]
    places += [run, f"{run}/approvals/a1", f"{run}/approvals/a1/edit", f"{run}/invocations/main", f"{run}/grants"]
    places += [f"{run}/cancel", "/runs", "/start", "/rules", "/schedules", "/evaluations", "/nothing", "/runs/none"]
    for place in places:
        await ada.goto(office.link + place)
        wide = await ada.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide[0] <= wide[1] == size[0], place
        assert await ada.locator("body").evaluate(GLUED) == [], place


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_a_thumb_reaches_the_buttons_that_decide(office: Office, group: str, size: tuple[int, int]) -> None:
    ada = await phone(office, size)
    for place, names in (
        (f"/groups/{group}", ("Approve all 5 …", "Reject all 5 …")),
        ("/runs/bread/approvals/a1", ("Approve a1", "Reject…", "Edit…")),
    ):
        await ada.goto(office.link + place)
        for name in names:
            button = ada.get_by_role("button", name=name).or_(ada.get_by_role("link", name=name, exact=True)).first
            box = await button.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= LEAST_FINGER_PIXELS, name
            assert box["y"] > size[1] / 2, name
            assert box["y"] + box["height"] <= size[1], name
            assert box["x"] >= 0, name
            assert box["x"] + box["width"] <= size[0], name


@pytest.mark.thorough
async def test_words_from_right_to_left_do_not_change_the_order_around_them(office: Office, group: str) -> None:
    """The id of a run is behind its task, and what is said of a request is behind its title."""
    prompt = json.dumps([[write(f"/{HEBREW * 9}.txt", HEBREW)]], ensure_ascii=False)
    await office.client.start(StartRunInput(worker="clerk", prompt=prompt), run="2026")
    await office.asks("2026", "a1")
    await office.listed("2026", 1)
    ada = await office.person(viewport={"width": 1280, "height": 800})
    await ada.goto(f"{office.link}/?run=2026")
    card = ada.locator(".card")
    task, run = await card.locator("q").bounding_box(), await card.get_by_role("link", name="2026").bounding_box()
    assert task is not None
    assert run is not None
    assert task["y"] < run["y"] + run["height"]
    assert run["y"] < task["y"] + task["height"]
    assert task["x"] + task["width"] <= run["x"]
