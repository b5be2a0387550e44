"""Decisions that are held for a moment, taken back with a key: in a browser and on a terminal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe  # pyright: ignore[reportMissingTypeStubs]
from playwright.async_api import expect

from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.office import Office, office_in, write
from tests.support.people.tmux import at_terminal

expect.set_options(timeout=PATIENCE_SECONDS * 1000)
SECONDS = 60


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """An office whose page and terminal hold decisions."""
    async with office_in(tmp_path_factory.mktemp("office"), undo_seconds=SECONDS) as office:
        yield office


@pytest.mark.thorough
async def test_a_key_takes_the_last_answer_back_on_the_page(office: Office) -> None:
    await office.asking("page", [write("/page-1.md", "one"), write("/page-2.md", "two")])
    await office.asks("page", "a2")
    ada = await office.person(viewport={"width": 390, "height": 844})
    async with asyncio.timeout(PATIENCE_SECONDS):
        # The server lists a question a moment late.
        while "1 of 2" not in await ada.content():
            await ada.goto(f"{office.approval('page')}?run=page")
    await ada.get_by_role("button", name="Approve a1").click()
    await expect(ada).to_have_url(f"{office.link}/runs/page/approvals/a2?run=page&tally=1.0.0&did=page%2Fa1")
    held = ada.locator("form.held")
    await expect(held.locator("time")).to_have_text(re.compile(r"in \d+ s"))
    found = await Axe().run(ada)
    assert found.violations_count == 0, found.generate_report()
    await ada.keyboard.press("u")
    await expect(ada).to_have_url(f"{office.link}/runs/page/approvals/a1?run=page&tally=0.0.0")
    await expect(ada.get_by_role("button", name="Approve a1")).to_be_visible()
    await office.client.cancel("page")
    assert office.complaints == []


@pytest.mark.thorough
async def test_a_letter_takes_the_last_answer_back_on_the_terminal(office: Office) -> None:
    await office.asking("term", [write("/term-1.md", "one"), write("/term-2.md", "two")])
    await office.asks("term", "a2")
    with at_terminal(office.desk) as terminal:
        terminal.command("approvals", "watch", "term")
        terminal.see("2  term a2")
        terminal.press("1")
        terminal.see("a1> ")
        terminal.type("a")
        terminal.see("a1 approved: takes effect in", "[u]ndo a1", "a2> ")
        terminal.type("u")
        terminal.see("a1 of term waits again")
        terminal.type("b")
        terminal.see("q: leave", "term a1")
        terminal.press("1")
        eventually(lambda: terminal.screen.count("a1> ") == 2, "the question is asked again")
        terminal.type("a")
        eventually(lambda: terminal.screen.count("a2> ") == 2, "the next question follows")
        terminal.type("b")
        terminal.see("q: leave")
        terminal.press("q")
        terminal.see("exit 0")
        terminal.command("undo", "term", "a1")
        terminal.see("taken back: a1 waits again", "exit 0")
        terminal.command("undo", "term", "a1")
        terminal.see("approval 'a1' is not decided; there is nothing to take back")
    assert [one.id for one in await office.client.approvals("term")] == ["a1", "a2"]
    await office.client.cancel("term")
