"""Person at a browser who answers the questions of the morning from the screen, keys first, and counts each of them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from benchmarks.approver.judgement import Opinion, opinion_on
from benchmarks.approver.sight import ALONE, Sight, page_facts

QUESTION_SECONDS = 2.5
"""Time to read a question that stands alone, and again for each screen of it that has to be scrolled to."""
ROW_SECONDS = 1.0
"""Time to read a row of a table; one with a text below it takes as long as a question."""
REVIEW_SECONDS = 2.0
"""Time to look at what was chosen, before it is decided."""
KEY_SECONDS = 0.2
"""Time of one key: 300 keys a minute."""
CLICK_SECONDS = 0.8
"""Time to find a place with the pointer."""
_SETTLE_SECONDS = 0.8
"""After an answer nothing can be pressed for 0.7 s, which a person spends reading."""
_PATIENCE_SECONDS = 60
_MOST_SCREENS = 12


@dataclass
class Person:
    """Somebody with a browser."""

    page: Page
    pictures: Path | None = None
    """Folder for a picture of each screen that was read; None: none are taken."""
    counts: Counter[str] = field(default_factory=Counter[str])
    """Keys, clicks, scrolls and screens so far."""
    unread: list[str] = field(default_factory=list[str])
    """Pages of which not all lines of the calls could be brought onto the screen."""
    handled: set[str] = field(default_factory=set[str])
    """Tables that were gone through already: what is left of them is answered one by one."""
    waited: float = 0.0
    """Seconds in which the person could only wait for a page."""
    spent: float = 0.0
    """Seconds that the person takes to read, to press keys and to type, whatever the machine takes besides."""

    async def answer_all(self, calls: int) -> float:
        """Answer so many questions; seconds from the inbox to the last answer."""
        began = time.monotonic()
        while self.counts["answers"] < calls:
            facts = await page_facts(self.page)
            if facts["path"].startswith("/groups/"):
                await self._go_through(facts)
            elif "/approvals/" in facts["path"]:
                await self._answer(facts)
            else:
                await self._find_work(facts)
        return time.monotonic() - began

    async def _find_work(self, facts: dict[str, Any]) -> None:
        """Open the first card of the inbox, once there is one."""
        if facts["path"] != "/":
            await self._press("i", goes=True)
        await self.page.locator("#waiting .card").first.wait_for(timeout=_PATIENCE_SECONDS * 1000)
        await self._press("j")
        await self._press("Enter", goes=True)

    async def _answer(self, facts: dict[str, Any]) -> None:
        """Answer the question that is open, or go to the table of its equals."""
        address = await self.page.get_attribute('.bar [data-key="g"]', "href") if facts["equal"] > 1 else None
        if address is not None and address not in self.handled:
            await self._press("g", goes=True)
            return
        if facts["folded"]:
            await self._press("o")
        sight = await self._read(QUESTION_SECONDS)
        opinion = opinion_on(facts["title"], sight.call(ALONE))
        if opinion.reason:
            await self._press("r")
            await self._type(opinion.reason)
            await self._press("Control+Enter", goes=True)
        elif opinion.argument:
            await self._edit(opinion)
        else:
            await self._approve()
        self.counts["answers"] += 1

    async def _go_through(self, facts: dict[str, Any]) -> None:
        """Approve the rows of a table that are right, together; the others wait for an answer of their own."""
        if facts["path"] in self.handled:
            await self._press("j")
            await self._press("Enter", goes=True)
            return
        self.handled.add(facts["path"])
        sight = await self._read(ROW_SECONDS * len(facts["rows"]))
        opinions = [opinion_on(summary, sight.call(row)) for row, summary in enumerate(facts["rows"])]
        wrong = [row for row, opinion in enumerate(opinions) if opinion != Opinion()]
        # Ticks, and not the button for all: others may be asked meanwhile, which nobody has read.
        if len(wrong) == len(opinions):
            return
        await self._press("X")
        at = -1
        for row in wrong:
            for _ in range(row - at):
                await self._press("j")
            await self._press("x")
            at = row
        await self._press("a")
        await self._press("Enter", goes=True)
        await self._look(REVIEW_SECONDS)
        if (await page_facts(self.page))["folded"]:
            await self._press("o")
        await self._approve()
        self.counts["answers"] += len(opinions) - len(wrong)
        await self._look(REVIEW_SECONDS / 2)
        # Until all of them have their answers, the page loads itself again.
        began = time.monotonic()
        await self.page.get_by_role("heading", level=1).filter(has_not_text="so far").wait_for()
        self.waited += time.monotonic() - began
        if await self.page.locator('[data-key="j"]').count():
            await self._press("j", goes=True)

    async def _edit(self, opinion: Opinion) -> None:
        """Change one word of an argument, look at the difference, and send it."""
        await self._press("e", goes=True)
        box = self.page.get_by_label(opinion.argument, exact=True)
        # The word is chosen with a double click.
        await box.evaluate(
            "(box, word) => { const at = box.value.indexOf(word); box.focus();"
            " box.setSelectionRange(at, at + word.length); }",
            opinion.old,
        )
        self.counts["clicks"] += 2
        await self._look(CLICK_SECONDS + QUESTION_SECONDS)
        await self._type(opinion.new)
        await self._press("Control+Enter", goes=True)
        await self._look(REVIEW_SECONDS)
        await self._approve()

    async def _approve(self) -> None:
        await self._rest(_SETTLE_SECONDS)
        await self._press("a")
        await self._press("Enter", goes=True)

    async def _read(self, seconds: float) -> Sight:
        """Read all calls of a page, screen by screen."""
        sight = Sight()
        await self._look(seconds)
        await sight.read(self.page)
        for _ in range(_MOST_SCREENS):
            if not sight.unseen:
                return sight
            before = await self.page.evaluate("scrollY")
            await self.page.mouse.wheel(0, await self.page.evaluate("innerHeight * 0.7"))
            self.counts["scrolls"] += 1
            await self._look(QUESTION_SECONDS)
            await sight.read(self.page)
            if await self.page.evaluate("scrollY") == before:
                break
        if sight.unseen:
            self.unread.append(f"{await self.page.title()}: {sight.unseen} lines")
        return sight

    async def _look(self, seconds: float) -> None:
        self.counts["screens"] += 1
        if self.pictures is not None:
            await self.page.screenshot(path=self.pictures / f"{self.counts['screens']:03}.png")
        await self._rest(seconds)

    async def _rest(self, seconds: float) -> None:
        self.spent += seconds
        await asyncio.sleep(seconds)

    async def _press(self, key: str, *, goes: bool = False) -> None:
        """Press a key; `goes` if it leads to another page, which is waited for."""
        self.counts["keys"] += 1
        await self._rest(KEY_SECONDS)
        if not goes:
            await self.page.keyboard.press(key)
            return
        began = time.monotonic()
        async with self.page.expect_navigation(wait_until="load"):
            await self.page.keyboard.press(key)
        self.waited += time.monotonic() - began

    async def _type(self, text: str) -> None:
        self.counts["letters"] += len(text)
        self.spent += len(text) * KEY_SECONDS
        await self.page.keyboard.type(text, delay=KEY_SECONDS * 1000)
