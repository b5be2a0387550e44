"""A person at a window of the editor."""

from __future__ import annotations

import time
from pathlib import Path

from playwright.async_api import Locator, Page, expect

from tests.support.patience import PATIENCE_SECONDS

TRUST, NO_TRUST = "Yes, I trust the authors", "No, I don't trust the authors"
_LOOK_MILLISECONDS = 5000
"""How long a person waits for an answer before asking again; twice as long each time."""
PICTURES = Path(__file__).parents[2] / "test-output/editor"


class Window:
    """What a person does in it, by keyboard; each step waits until it shows."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def answer_trust(self, *, trusted: bool) -> None:
        """Answer whether the authors of the folder are trusted."""
        await self.page.get_by_role("button", name=TRUST if trusted else NO_TRUST).click()

    async def open_file(self, name: str) -> None:
        """Open a file by its name."""
        await self._pick("Control+P", name, name)
        await expect(self.page.locator(".tab.active")).to_contain_text(name)

    async def run(self, command: str) -> None:
        """Run a command of the palette."""
        await self._pick("F1", command, command)

    async def write_in_picker(self, key: str, text: str) -> Locator:
        """Open a list to pick from by its key, write into its line, and return the line."""
        await self.page.keyboard.press(key)
        line = self.page.locator(".quick-input-widget input").first
        await expect(line).to_be_focused()
        await self.page.keyboard.type(text)
        return line

    async def _pick(self, key: str, typed: str, row: str) -> None:
        line = await self.write_in_picker(key, typed)
        await expect(self.page.locator(".quick-input-list .monaco-list-row.focused")).to_contain_text(row)
        await self.page.keyboard.press("Enter")
        await expect(line).not_to_be_visible()

    async def go_to(self, line: int, column: int = 1) -> None:
        """Put the cursor there."""
        await self.write_in_picker("Control+G", f"{line}:{column}")
        await expect(self.page.get_by_text(f"Go to line {line} and character {column}.").last).to_be_visible()
        await self.page.keyboard.press("Enter")
        await expect(self.page.get_by_role("button", name=f"Ln {line}, Col {column}").first).to_be_visible()

    async def add_line(self, after: int, text: str) -> None:
        """Write a line below another one, letter by letter."""
        await self.go_to(after)
        # Once to the end of what is shown in one row, and to that of the line.
        await self.page.keyboard.press("End")
        await self.page.keyboard.press("End")
        await self.page.keyboard.press("Enter")
        await self.page.keyboard.type(text, delay=30)

    def line(self, text: str) -> Locator:
        """The line of the editor that has the text."""
        return self.page.locator(".view-line", has_text=text).first

    def problems(self) -> Locator:
        """What the panel of problems lists."""
        return self.page.locator(".markers-panel .monaco-list-row")

    def completions(self) -> Locator:
        """What is offered to complete a word."""
        return self.page.locator(".suggest-widget.visible .monaco-list-row")

    async def show_details(self, text: str) -> None:
        """Show what is told of the first word that is offered, which the editor does by itself once it was asked to."""
        details = self.page.locator(".suggest-details-container:visible")
        try:
            await expect(details).to_contain_text(text, timeout=_LOOK_MILLISECONDS)
        except AssertionError:
            await self.page.keyboard.press("Control+Space")
            await expect(details).to_contain_text(text)

    def hover(self) -> Locator:
        """What is shown of the word at the cursor."""
        return self.page.locator(".monaco-hover:visible .hover-row").first

    async def ask(self, *keys: str, shows: Locator, text: str) -> None:
        """Press keys until it shows the text: a language server that is still starting has no answer yet."""
        deadline, look = time.monotonic() + PATIENCE_SECONDS, _LOOK_MILLISECONDS
        while True:
            for key in keys:
                await self.page.keyboard.press(key)
            try:
                await expect(shows).to_contain_text(text, timeout=look)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                await self.page.keyboard.press("Escape")
                look *= 2
            else:
                return

    def word(self, text: str) -> Locator:
        """The piece of one colour that has the text."""
        return self.page.locator(".view-line span span", has_text=text).first

    async def expect_colours(self, *words: str) -> None:
        """Wait until the words, each on a line of its own, have colours that no other of them has."""
        for number, word in enumerate(words):
            for other in words[:number]:
                colour = await self.word(other).evaluate("element => getComputedStyle(element).color")
                await expect(self.word(word)).not_to_have_css("color", colour)

    async def picture(self, name: str) -> None:
        """Keep what the window looks like."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
