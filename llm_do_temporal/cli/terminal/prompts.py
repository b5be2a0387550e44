"""Asking a person at the terminal: a line, an edited text, a long text to read.

Another person may answer meanwhile; the caller's `check` notices that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from llm_do_temporal.cli.terminal.lines import Interrupt, edit, editor, pager, read_in_pager, read_line
from llm_do_temporal.cli.text import visible_source

CHECK_SECONDS = 0.25
_PROMPT_LINES = 2
"""Lines that a page of text leaves free on the screen."""
T = TypeVar("T")


class Prompter:
    """Asks a person about one question."""

    def __init__(self, console: Console, interrupt: Interrupt, check: Callable[[], None]) -> None:
        """`check` raises once no answer is needed any more; every prompt ends with that error then."""
        self._console = console
        self._interrupt = interrupt
        self._check = check

    def tell(self, text: str) -> None:
        """Print text, with hidden characters written out."""
        self._console.print(Text(visible_source(text)))

    async def line(self, prompt: str) -> str | None:
        """Return the next line that is typed; None at the end of input."""
        return await self._while_needed(read_line(prompt))

    async def yes(self, prompt: str, *, default: bool) -> bool:
        """Whether the person agrees; the end of input is a no."""
        typed = await self.line(f"{prompt} {'[Y/n]' if default else '[y/N]'} ")
        if typed is None:
            return False
        return typed.strip().lower() in (("", "y", "yes") if default else ("y", "yes"))

    async def edited(self, text: str, what: str) -> str | None:
        """Return `text` as changed in the person's editor, or a new line without an editor; None if there is no change.

        `what` names the text in the prompt for a line.
        """
        command = editor()
        if command is not None:
            return await self._while_needed(edit(text, command, self._interrupt))
        line = await self.line(f"{what} on one line (empty: back): ")
        return line if line and line.strip() else None

    async def edited_file(self, text: str, name: str) -> str | None:
        """Return the text of a file as changed in the person's editor, which sees it by this name; None: it was not."""
        command = editor()
        if command is None:
            self.tell("there is no editor here; set EDITOR")
            return None
        return await self._while_needed(edit(text, command, self._interrupt, name))

    async def read(self, text: str) -> None:
        """Show a long text page by page, in the person's pager if there is one."""
        command = pager()
        if command is not None:
            await self._while_needed(read_in_pager(text, command, self._interrupt))
            return
        lines = text.splitlines()
        size = max(1, self._console.height - _PROMPT_LINES)
        for first in range(0, len(lines), size):
            self._console.print(Text("\n".join(lines[first : first + size])))
            left = len(lines) - first - size
            if left > 0 and (await self.line(f"{left} more lines [Enter: go on, q: enough] ") or "").strip():
                return

    async def _while_needed(self, typing: Awaitable[T]) -> T:
        task = asyncio.ensure_future(typing)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=CHECK_SECONDS)
                # An editor is left to its user; the answer is refused afterwards.
                if not self._interrupt.held:
                    self._check()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
