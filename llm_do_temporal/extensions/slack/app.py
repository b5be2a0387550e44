"""The app: clicks, forms and mentions of people in Slack become decisions and starts, in Socket Mode.

A thin translation. Who somebody is, Slack says, by the id of the user; who that user is, the workshop's file says.
"""

from __future__ import annotations

import asyncio
import html
import logging
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from llm_do_temporal.doors.files import sent_files
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import Answer, Failure, Start
from llm_do_temporal.errors import ConnectionFailed, LlmDoError, UsageError
from llm_do_temporal.extensions.slack.board import Board
from llm_do_temporal.extensions.slack.cards import APPROVE, OPEN, REASON, REJECT, note, read_mark, reason_form
from llm_do_temporal.extensions.slack.workspace import Bot, SlackChannel, SlackFailed, slack_person
from llm_do_temporal.messages.approvals import DecisionKind

_LINK = re.compile(r"<([^<>|]+)(?:\|[^<>]*)?>")
_HELP = "Say: start WORKER PROMPT. Files of the message are attached."
_RENEWAL_SECONDS = 30.0
"""Age of an address that cannot be connected to: Slack counts how often it is asked for a new one."""
_log = logging.getLogger(__name__)
Ack = Callable[..., Awaitable[Any]]


class SlackListeners:
    """Bolt's listeners: hear people in Slack, and speak for those whom the workshop's file names."""

    def __init__(self, service: DoorService, workshop: Path, channel: SlackChannel, board: Board, bot: Bot) -> None:
        self._service = service
        self._workshop = workshop
        self._channel = channel
        self._board = board
        self._bot = bot

    def listen(self, app: AsyncApp) -> None:
        """Take what comes in from now on."""
        app.action(APPROVE)(self.approve)
        app.action(REJECT)(self.ask_reason)
        app.action(OPEN)(_nothing)
        app.view(REASON)(self.reject)
        # Slack sends again what is not acknowledged: a start is, once its run is there. The key makes it one run.
        app.event("app_mention", middleware=[self.start])(_nothing)
        app.event("message", middleware=[self.start])(_nothing)
        app.error(_failed)

    async def approve(self, ack: Ack, body: dict[str, Any]) -> None:
        """Approve as whoever has clicked."""
        await ack()
        await self._decide(body, body["actions"][0].get("value"), Answer(decision=DecisionKind.APPROVE))

    async def ask_reason(self, ack: Ack, body: dict[str, Any]) -> None:
        """Ask whoever has clicked for the reason of the rejection."""
        await ack()
        try:
            value = body["actions"][0].get("value")
            await self._person(*_user(body))
            await self._channel.open_modal(str(body.get("trigger_id")), reason_form(read_mark(value), value))
        except LlmDoError as refused:
            await self._tell_refusal(body, refused)

    async def reject(self, ack: Ack, body: dict[str, Any]) -> None:
        """Reject for the reason that was typed."""
        await ack()
        view = body["view"]
        reason = str(view["state"]["values"][REASON][REASON].get("value") or "")
        await self._decide(body, view.get("private_metadata"), Answer(decision=DecisionKind.REJECT, note=reason))

    async def start(self, body: dict[str, Any], next: Ack) -> None:  # noqa: A002 - Bolt calls it so
        """Start a run as whoever has mentioned the app; what is said to nobody, or elsewhere, is left alone."""
        event = cast("dict[str, Any]", body["event"])
        said = re.match(rf"\s*<@{re.escape(self._bot.user_id)}>\s*(.*)", str(event.get("text") or ""), re.DOTALL)
        is_ours = event.get("channel") == self._channel.id and event.get("subtype") in (None, "file_share")
        if said is not None and is_ours and not event.get("bot_id"):
            try:
                await self._begin(body, event, said[1])
            except ConnectionFailed:
                raise
            except LlmDoError as refused:
                await self._tell_refusal(event, refused)
        await next()

    async def _begin(self, body: dict[str, Any], event: dict[str, Any], words: str) -> None:
        user, team = _user(event)
        who = await self._person(user, team or (None if body.get("is_ext_shared_channel") else self._bot.team_id))
        found = re.fullmatch(r"start\s+(\S+)\s*(.*)", _as_typed(words), re.DOTALL)
        if found is None or event.get("thread_ts"):
            raise UsageError(_HELP if found is None else "runs are started in the channel, and not in a thread")
        ts = str(event.get("ts"))
        files = await self._channel.files(ts)
        attached = sent_files((name, b64encode(content).decode()) for name, content in files)
        start = Start.of({"worker": found[1], "prompt": found[2], "attachments": attached})
        run, _ = await self._service.start(who, start, key=f"{self._channel.id} {ts}")
        await self._board.begin(run.run)

    async def _decide(self, body: dict[str, Any], value: object, answer: Answer) -> None:
        try:
            who = await self._person(*_user(body))
            mark = read_mark(value)
            try:
                asked = await self._service.decide(who, mark.run, mark.question, answer, digest=mark.digest)
                if asked.state == "open" and not asked.votes:
                    raise ConnectionFailed("it was sent, but no worker service has answered yet")
            finally:
                await self._board.refresh(mark.key)
        except LlmDoError as refused:
            await self._tell_refusal(body, refused)

    async def _person(self, user: object, team: object) -> Principal:
        return await slack_person(self._workshop, user, is_ours=team == self._bot.team_id)

    async def _tell_refusal(self, source: dict[str, Any], refused: LlmDoError) -> None:
        told = Failure.of(refused)
        user = _user(source)[0]
        text = f"{told.message}\n{told.next_step}" if told.next_step else told.message
        await self._channel.post_ephemeral(str(user), note(text))


async def serve(
    service: DoorService,
    workshop: Path,
    channel: SlackChannel,
    app_token: str,
    page: str | None,
    connected: Callable[[], None],
) -> None:
    """Sign in, call `connected`, and serve until cancelled. Raises SlackFailed where a token or the channel is none."""
    bot = await channel.sign_in()
    board = Board(service, channel, bot, page)
    app = AsyncApp(client=channel.web, name=__name__, logger=quiet_log())
    SlackListeners(service, workshop, channel, board, bot).listen(app)
    await board.look()
    handler = AsyncSocketModeHandler(app, app_token, logger=quiet_log())
    try:
        handler.client.wss_uri = await channel.open_connection(app_token)
        connected()
        async with asyncio.TaskGroup() as group:
            group.create_task(handler.connect_async())
            group.create_task(board.keep())
            group.create_task(_renew(handler))
    finally:
        await handler.close_async()


def web_client(token: str, address: str) -> AsyncWebClient:
    """Return the client of the Web API. It repeats nothing by itself: what is posted twice stands there twice."""
    return AsyncWebClient(token=token, base_url=address, retry_handlers=[], logger=quiet_log())


def quiet_log() -> logging.Logger:
    """Return a log for the SDK: warnings in one line each."""
    log = logging.getLogger("llm_do_temporal.slack_sdk")
    log.setLevel(logging.WARNING)
    if not log.filters:
        log.addFilter(_in_one_line)
    return log


async def _renew(handler: AsyncSocketModeHandler) -> None:
    """Let a connection that cannot be made ask for a new address: the SDK tries a used one for ever."""
    while True:
        await asyncio.sleep(_RENEWAL_SECONDS)
        if not await handler.client.is_connected():
            handler.client.wss_uri = None


def _in_one_line(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True


async def _nothing(ack: Ack) -> None:
    await ack()


async def _failed(error: Exception) -> None:
    known = isinstance(error, SlackFailed | LlmDoError)
    _log.warning("a message from Slack was not dealt with: %s", error if known else type(error).__name__)


def _user(source: dict[str, Any]) -> tuple[object, object]:
    """Return who has clicked or written, and of which workspace."""
    user = source.get("user")
    if not isinstance(user, dict):
        return user, source.get("user_team") or source.get("team")
    known = cast("dict[str, Any]", user)
    return known.get("id"), known.get("team_id")


def _as_typed(text: str) -> str:
    """Return a message as it was typed: Slack puts addresses between angle brackets, and escapes those of people."""
    return html.unescape(_LINK.sub(r"\1", text)).strip()
