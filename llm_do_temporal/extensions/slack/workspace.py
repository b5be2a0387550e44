"""Workspace of Slack below the Slack door: its channel by the Web API, and the people behind its users.

The door posts its cards in the channel, changes them, and finds them again. Limits of rates are kept, whatever is sent
is sent once, and an answer that is none is a failure, not an error of ours. Who somebody is, the workshop's file says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

import aiohttp
from pydantic import StringConstraints, ValidationError
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.errors import AccessRefused, LlmDoError, UsageError
from llm_do_temporal.messages.base import Strict

CARD_EVENT, END_EVENT = "llm_do_card", "llm_do_end"
MAX_FILE_BYTES = 20 << 20
"""Most bytes of one attached file."""
_MOST_MESSAGES = 1_000
"""Messages of the channel that are looked through for cards, the newest."""
_PAGE = 200
_LONGEST_PAUSE_SECONDS = 120
_MOST_PAUSES = 5
_Id = Annotated[str, StringConstraints(min_length=1, max_length=300)]
VIA = "slack"
READER = Principal(VIA, frozenset({TokenScope.READ}), is_person=True, via=VIA)
"""Reads all runs for everybody in the channel, and may do nothing else."""
_log = logging.getLogger(__name__)


class CardMark(Strict):
    """Mark on a card: the question as it was shown, or a run. Anybody's words until the run's desk has judged."""

    run: _Id
    question: Annotated[str, StringConstraints(max_length=40)] = ""
    """Id of the question; empty: the card is about a run that was started here."""
    digest: Annotated[str, StringConstraints(max_length=200)] = ""
    """Digest of all that was shown."""
    state: Annotated[str, StringConstraints(max_length=20)] = "open"
    votes: int = 0
    """Number of people who have agreed so far."""
    told: bool = False
    """Whether the thread below has the end of the run."""

    @property
    def key(self) -> tuple[str, str]:
        """Run and question."""
        return self.run, self.question

    @property
    def is_final(self) -> bool:
        """Whether nothing of the question can change any more."""
        return self.state not in ("open", "held")


class SlackFailed(Exception):
    """Slack did not do as asked; says what and why, and nothing secret."""

    def __init__(self, message: str, error: str = "") -> None:
        super().__init__(message)
        self.error = error
        """Name that Slack gives to it; empty: it gave no answer that is one."""


@dataclass(frozen=True)
class Card:
    """A message of this door, as it stands in the channel."""

    ts: str
    """Time by which Slack names the message; the earlier is the smaller."""
    mark: CardMark


@dataclass(frozen=True)
class Bot:
    """The app's own user, as the token says."""

    user_id: str
    """Id by which messages mention it."""
    bot_id: str
    """Id on the messages that it posts."""
    team_id: str
    """Id of its workspace."""


class SlackChannel:
    """The channel in which people are asked."""

    def __init__(self, web: AsyncWebClient, channel: str) -> None:
        self.web = web
        self.id = channel

    async def sign_in(self) -> Bot:
        """Return who the token speaks for. Raises SlackFailed."""
        told = await self._call("auth.test", in_channel=False)
        return Bot(str(told.get("user_id")), str(told.get("bot_id")), str(told.get("team_id")))

    async def open_connection(self, app_token: str) -> str:
        """Return the address of a new connection. Raises SlackFailed."""
        return str((await self._call("apps.connections.open", in_channel=False, token=app_token)).get("url"))

    async def post(self, message: dict[str, Any], *, thread: str | None = None) -> str:
        """Post a message, and return its time. Raises SlackFailed; the message may be there all the same."""
        below: dict[str, Any] = message if thread is None else {**message, "thread_ts": thread}
        return str((await self._call("chat.postMessage", **below)).get("ts"))

    async def update(self, ts: str, message: dict[str, Any]) -> None:
        """Change a message of this door. Raises SlackFailed."""
        await self._call("chat.update", ts=ts, **message)

    async def delete(self, ts: str) -> None:
        """Take back a message of this door; none is there: that is well."""
        try:
            await self._call("chat.delete", ts=ts)
        except SlackFailed as failed:
            if failed.error != "message_not_found":
                raise

    async def post_ephemeral(self, user: str, message: dict[str, Any]) -> None:
        """Show a message to one person. Raises SlackFailed."""
        await self._call("chat.postEphemeral", user=user, **message)

    async def open_modal(self, trigger: str, view: dict[str, Any]) -> None:
        """Open a form for whoever has clicked. Raises SlackFailed."""
        await self._call("views.open", in_channel=False, trigger_id=trigger, view=view)

    async def cards(self, bot: Bot, *, since: str = "0") -> list[Card]:
        """Return the cards among the newest messages, the earliest first. Raises SlackFailed."""
        found: list[Card] = []
        async for message in self._messages("conversations.history", oldest=since):
            mark = _mark(message, CARD_EVENT, bot)
            if mark is not None:
                found.append(Card(str(message.get("ts")), mark))
        return sorted(found, key=lambda card: card.ts)

    async def has_end(self, bot: Bot, card: Card) -> bool:
        """Return whether the thread below a card has the end of its run. Raises SlackFailed."""
        async for message in self._messages("conversations.replies", ts=card.ts):
            mark = _mark(message, END_EVENT, bot)
            if mark is not None and mark.run == card.mark.run:
                return True
        return False

    async def files(self, ts: str) -> list[tuple[str, bytes]]:
        """Return names and bytes of the files of a message in the channel. Raises SlackFailed, UsageError."""
        told = await self._call("conversations.history", oldest=ts, latest=ts, inclusive=True, limit=1)
        messages = _objects(told.get("messages"))
        return [await self._file(one) for message in messages for one in _objects(message.get("files"))]

    async def _file(self, file: dict[str, Any]) -> tuple[str, bytes]:
        name, url = str(file.get("name") or "file")[:200], str(file.get("url_private_download") or "")
        # The token goes along: to Slack alone, and not wherever a file that somebody has linked may lie.
        if not _is_in_slack(url, self.web.base_url):
            raise UsageError(f"'{name}' lies outside of Slack", next_step="Upload it to Slack.")
        headers, content = {"Authorization": f"Bearer {self.web.token}"}, bytearray()
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session,
                session.get(url, headers=headers, allow_redirects=False, proxy=self.web.proxy) as answer,
            ):
                async for part in answer.content.iter_chunked(1 << 16):
                    content += part
                    if len(content) > MAX_FILE_BYTES:
                        raise UsageError(f"'{name}' has more than {MAX_FILE_BYTES >> 20} MiB")
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise SlackFailed(f"'{name}' could not be read: {type(error).__name__}") from error
        if answer.status != 200:
            raise SlackFailed(f"'{name}' could not be read: Slack answers {answer.status}")
        return name, bytes(content)

    async def _messages(self, method: str, **asked: Any) -> AsyncIterator[dict[str, Any]]:
        cursor = ""
        for _ in range(_MOST_MESSAGES // _PAGE):
            asked |= {"cursor": cursor} if cursor else {}
            told = await self._call(method, include_all_metadata=True, limit=_PAGE, **asked)
            for message in _objects(told.get("messages")):
                yield message
            metadata = told.get("response_metadata")
            cursor = (
                str(cast("dict[str, Any]", metadata).get("next_cursor") or "") if isinstance(metadata, dict) else ""
            )
            if not cursor:
                return

    async def _call(self, method: str, *, in_channel: bool = True, **asked: Any) -> dict[str, Any]:
        """Call a method, and wait where Slack says that it is too much. Raises SlackFailed."""
        asked |= {"channel": self.id} if in_channel else {}
        for _ in range(_MOST_PAUSES):
            try:
                # Methods that read take no JSON.
                if method.startswith("conversations."):
                    answer = await self.web.api_call(method, http_verb="GET", params=_as_text(asked))
                else:
                    answer = await self.web.api_call(method, json=dict(asked))
                return cast("dict[str, Any]", answer.data) if isinstance(answer.data, dict) else {}
            except SlackApiError as failed:
                pause = _pause(failed)
                if pause is None:
                    raise _failure(method, failed) from failed
                await asyncio.sleep(pause)
            except (
                aiohttp.ClientError,
                TimeoutError,
                SlackClientError,
                AttributeError,
                TypeError,
                ValueError,
            ) as error:
                # The SDK takes answers apart without a look at their shape.
                raise SlackFailed(f"Slack did not answer '{method}': {type(error).__name__}") from error
        raise SlackFailed(f"Slack has put off '{method}' {_MOST_PAUSES} times")


def _failure(method: str, failed: SlackApiError) -> SlackFailed:
    data = getattr(cast("Any", failed.response), "data", None)
    name = cast("dict[str, Any]", data).get("error") if isinstance(data, dict) else None
    return SlackFailed(f"Slack refuses '{method}': {str(name or 'no answer that can be read')[:100]}", str(name or ""))


def _pause(failed: SlackApiError) -> float | None:
    """Return the seconds to wait before the next try; None: it was refused for another reason.

    The SDK's own handler waits for the first digit of the number only.
    """
    answer = cast("Any", failed.response)
    if getattr(answer, "status_code", None) != 429:
        return None
    try:
        wanted = int(answer.headers.get("Retry-After", "1"))
    except ValueError:
        wanted = 1
    return min(max(wanted, 0), _LONGEST_PAUSE_SECONDS)


def _mark(message: dict[str, Any], event: str, bot: Bot) -> CardMark | None:
    """Return the mark of a message of this very app; None for any other."""
    metadata = message.get("metadata")
    if message.get("bot_id") != bot.bot_id or not isinstance(metadata, dict):
        return None
    given = cast("dict[str, Any]", metadata)
    try:
        return CardMark.model_validate(given.get("event_payload")) if given.get("event_type") == event else None
    except ValidationError:
        return None


def _is_in_slack(url: str, slack: str) -> bool:
    ours = urlsplit(slack)
    try:
        place = urlsplit(url)
        is_ours = place.hostname == ours.hostname or str(place.hostname).endswith(f".{ours.hostname}")
    except ValueError:
        return False
    return is_ours and place.scheme == ours.scheme and place.username is None


def _objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; of anything else none."""
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", one) for one in items if isinstance(one, dict)]


def _as_text(asked: dict[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in asked.items()}


async def slack_person(workshop: Path, user: object, *, is_ours: bool) -> Principal:
    """Return the person behind a user of Slack; `is_ours`: the user is of the workspace that has the app.

    Reads the file anew: who is struck from it speaks no more. Raises AccessRefused for everybody else.
    """
    try:
        people = (await asyncio.to_thread(load_workshop, workshop)).config.slack.people
    except LlmDoError as error:
        _log.warning("nobody is known in Slack: %s", error.message)
        people = {}
    name = people.get(user) if isinstance(user, str) and is_ours else None
    if name is None:
        raise AccessRefused("you are nobody here: the workshop's file names the people of Slack, and not you")
    return Principal(name, frozenset(TokenScope), is_person=True, via=VIA)
