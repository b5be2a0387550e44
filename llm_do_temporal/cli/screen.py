"""The live screen of a run on a terminal: shows the tree, and stops to ask when a person is needed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import NoReturn

from rich.console import Console
from rich.live import Live

from llm_do_temporal.cli.asking import Asker
from llm_do_temporal.cli.live import render_run
from llm_do_temporal.cli.terminal_lines import Interrupt
from llm_do_temporal.client.runs import LlmDoClient
from llm_do_temporal.client.view import RunView

REFRESH_SECONDS = 0.25


class Screen:
    """Shows one run on stderr until it is cancelled, which is what happens when the run ends."""

    def __init__(self, client: LlmDoClient, view: RunView, news: asyncio.Event, interrupt: Interrupt) -> None:
        self._client = client
        self._view = view
        self._news = news
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._asker = Asker(client, view, self._console, interrupt)

    async def show(self) -> NoReturn:
        """Show the run and ask what it asks; the last picture stays on the terminal."""
        try:
            while True:
                await self._until_question()
                await self._ask_everything()
        finally:
            self._console.print(render_run(self._view, _now()))

    async def _until_question(self) -> None:
        # The picture vanishes when a question comes: it is drawn again below the answer.
        with Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=False) as live:
            while not self._asker.unanswered:
                live.update(render_run(self._view, _now(), height=self._console.height), refresh=True)
                try:
                    await asyncio.wait_for(self._news.wait(), REFRESH_SECONDS)
                except TimeoutError:
                    continue
                self._news.clear()

    async def _ask_everything(self) -> None:
        """Ask one question after the other, new ones included."""
        while self._asker.unanswered:
            wanted = {memo.id for memo in self._asker.unanswered}
            pending = [one for one in await self._client.approvals(self._view.run) if one.id in wanted]
            if not pending:
                # Answered elsewhere a moment ago; the history is about to say so.
                await asyncio.sleep(REFRESH_SECONDS)
                continue
            await self._asker.ask(pending[0])


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
