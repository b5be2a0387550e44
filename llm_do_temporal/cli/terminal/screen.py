"""The live screen of a run on a terminal: shows the tree, and stops to ask if a person is needed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import NoReturn

from rich.console import Console
from rich.live import Live

from llm_do_temporal.cli.terminal.ask import Asker, LeaveKey, Parting
from llm_do_temporal.cli.terminal.prompts import Interrupt, unechoed
from llm_do_temporal.cli.terminal.run_picture import render_end, render_run
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.pending_work import tails
from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.messages.conversation import LiveText
from llm_do_temporal.messages.runs import PendingApprovalMemo

REFRESH_SECONDS = 0.25
_TAIL_SECONDS = 0.5


class Screen:
    """Shows one run on stderr until the task is cancelled, as it is when the run ends."""

    def __init__(self, client: LlmDoClient, view: RunView, news: asyncio.Event, interrupt: Interrupt) -> None:
        self._client = client
        self._view = view
        self._news = news
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._interrupt = interrupt
        self._tails: dict[str, LiveText] = {}
        self._asker = Asker(client, self._console, interrupt, LeaveKey("d", "[d]etach"), self._votes_of)

    @property
    def _unanswered(self) -> list[PendingApprovalMemo]:
        """Questions that wait and were not answered here; none once the run was asked to stop."""
        return [one for one in self._view.pending if self._asker.wants(self._view.run, one.id)]

    def _votes_of(self, question: Question) -> int | None:
        return next((one.votes for one in self._view.pending if one.id == question.id), None)

    async def show(self) -> NoReturn:
        """Show the run and ask its questions; the last picture stays on the terminal."""
        listening = asyncio.create_task(self._listen())
        try:
            while True:
                await self._until_question()
                await self._ask_everything()
        finally:
            listening.cancel()
            self._console.print(render_end(self._view, _now()))

    async def _listen(self) -> NoReturn:
        while True:
            self._tails = await tails(self._client.temporal, self._view)
            await asyncio.sleep(_TAIL_SECONDS)

    async def _until_question(self) -> None:
        # The picture vanishes when a question comes: it is drawn again below the answer.
        drawn = Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=False)
        with unechoed(), drawn as live:
            while not self._unanswered:
                picture = render_run(self._view, _now(), height=self._console.height, tails=self._tails)
                live.update(picture, refresh=True)
                try:
                    async with asyncio.timeout(REFRESH_SECONDS):
                        await self._news.wait()
                except TimeoutError:
                    continue
                self._news.clear()

    async def _ask_everything(self) -> None:
        while self._unanswered:
            wanted = {memo.id for memo in self._unanswered}
            known = await self._client.questions(self._view.run)
            questions = [one for one in known if one.id in wanted and one.is_open]
            if not questions:
                # Answered elsewhere a moment ago; the history is about to say so.
                await asyncio.sleep(REFRESH_SECONDS)
            elif await self._asker.ask(questions[0], known, others=len(wanted) - 1) is not Parting.SETTLED:
                self._interrupt.raise_it()
                # `attend`, which waits for the interrupt, ends this task.
                await asyncio.Event().wait()


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
