"""The Slack door without its connection: clicks and mentions are given to it as Bolt gives them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.extensions.slack.app import Board, SlackListeners, web_client
from llm_do_temporal.extensions.slack.workspace import Bot, SlackChannel
from llm_do_temporal.testing import scripted
from tests.support.extensions.slack.fake_slack import (
    ADA,
    BOT,
    BOT_TOKEN,
    BOT_USER,
    CHANNEL,
    TEAM,
    FakeSlack,
    Message,
    shown,
)
from tests.support.extensions.slack.slack_process import PEOPLE
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place

ROBOT = Bot(BOT_USER, BOT, TEAM)
WORKER: dict[str, Any] = {"toolsets": {"filesystem": {}}}


class InSlack:
    """The door: what people send is given to it, and what it says stands in the tests' Slack."""

    def __init__(self, place: Place, slack: FakeSlack) -> None:
        self.slack = slack
        self.channel = SlackChannel(web_client(BOT_TOKEN, slack.environment["SLACK_API_URL"]), CHANNEL)
        service = DoorService(place.client, place.folder)
        self.board = Board(service, self.channel, ROBOT, None)
        self.listeners = SlackListeners(service, place.folder, self.channel, self.board, ROBOT)

    async def card(self, run: str, question: str = "a1") -> Message:
        """Go round once, and return the card of a question."""
        await self.board.round()
        (card,) = self.slack.cards(run, question)
        return card

    async def press(self, value: Any, *, user: Any = ADA, team: Any = TEAM) -> str:
        """Approve with the value of a button, and return what the person is told."""
        body = {"user": {"id": user, "team_id": team}, "trigger_id": "t", "actions": [{"value": value}]}
        before = len(self.slack.ephemerals)
        await self.listeners.approve(_acknowledged, body)
        return "\n".join(map(shown, self.slack.ephemerals[before:]))

    async def mention(self, words: str, *, files: list[Message] | None = None, **event: Any) -> str:
        """Mention the app, and return what the person is told."""
        ts = f"{time.time():.6f}"  # the key of a start, and the server is that of other tests, too
        said = {"user": ADA, "team": TEAM, "channel": CHANNEL, "ts": ts, "text": f"<@{BOT_USER}> {words}", **event}
        self.slack.messages[ts] = {**said, "type": "message", "files": files or []}
        before = len(self.slack.ephemerals)
        await self.listeners.start({"event": said}, _acknowledged)
        return "\n".join(map(shown, self.slack.ephemerals[before:]))


async def _acknowledged(**_more: Any) -> None:
    return


def value_of(card: Message) -> str:
    """Return the value of the button that approves."""
    (value,) = {one["value"] for one in card["blocks"][-1]["elements"] if one["action_id"] == "llm_do_approve"}
    return value


@asynccontextmanager
async def parked(place: Place, *turns: Any, **keys: Any) -> AsyncGenerator[tuple[InSlack, str]]:
    """A run that waits, and the door; whatever is tried in the block, the question is open and nothing was written."""
    place.workshop(slack=PEOPLE, **keys)
    place.worker("writer", scripted(*(turns or (write_call("/a.txt"), "Done."))), **WORKER)
    run = await place.start("writer")
    await place.pending(run)
    # The board reads the server's list of runs, into which this one comes a moment later.
    while run not in {one.run for one in (await place.client.inbox()).entries}:  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0.02)
    with FakeSlack() as slack:
        yield InSlack(place, slack), run
        assert slack.problems == []
    assert (await place.client.questions(run))[0].is_open
    assert not (place.folder / "a.txt").exists()
    await place.client.cancel(run)
