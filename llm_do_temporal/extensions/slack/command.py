"""`slack`: questions of all runs as messages with buttons in a channel of Slack."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import check_packages, say
from llm_do_temporal.errors import ConnectionFailed, UsageError
from llm_do_temporal.signals import leave_when_told, stop_when_told

if TYPE_CHECKING:
    from pathlib import Path

    from llm_do_temporal.cli.session import Session

_SLACK = "https://slack.com/api/"
_REFUSED = "docs/how-to/slack.md has the app's scopes; the app must be in the channel."
_UNREACHABLE = "Look whether this machine reaches slack.com, or the address in SLACK_API_URL, where that is set."
_TOKENS = {"SLACK_BOT_TOKEN": ("xoxb-", "the bot token"), "SLACK_APP_TOKEN": ("xapp-", "the app-level token")}


async def slack(
    *,
    channel: Annotated[str | None, Parameter(negative=())] = None,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Ask in a channel of Slack, until Ctrl-C; needs SLACK_BOT_TOKEN and SLACK_APP_TOKEN, and no open port.

    Parameters
    ----------
    channel
        Id of the channel; `slack: {channel: …}` of workshop.yaml by default.
    """
    leave_when_told()
    check_packages("Slack", "slack", "slack_bolt", "aiohttp")
    bot_token, app_token, address = _token("SLACK_BOT_TOKEN"), _token("SLACK_APP_TOKEN"), _address()
    from llm_do_temporal.cli.session import opened

    workshop = location.local_workshop()
    if workshop is None:
        raise UsageError(
            "slack needs a workshop: its file names the people of Slack", next_step="Name it: --workshop DIR."
        )
    where, page = _channel(workshop, channel)
    async with opened(location) as session:
        return await _serve(session, workshop, where, bot_token, app_token, address, page)


async def _serve(
    session: Session, workshop: Path, where: str, bot_token: str, app_token: str, address: str, page: str | None
) -> int:
    from llm_do_temporal.doors.service import DoorService
    from llm_do_temporal.extensions.slack.app import serve, web_client
    from llm_do_temporal.extensions.slack.workspace import SlackChannel, SlackFailed

    service = DoorService(session.client, workshop, embedded=session.embedded)
    serving = asyncio.ensure_future(
        serve(
            service,
            workshop,
            SlackChannel(web_client(bot_token, address), where),
            app_token,
            page,
            lambda: say(f"asking in {where} of Slack; Ctrl-C stops that, and runs go on"),
        )
    )
    stop_when_told(serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        return 0
    except SlackFailed as failed:
        raise ConnectionFailed(str(failed), next_step=_REFUSED if failed.error else _UNREACHABLE) from None
    return 0


def _channel(workshop: Path, flag: str | None) -> tuple[str, str | None]:
    """Return the channel, and the address of the web page where one is known. Raises UsageError, DefinitionError."""
    from llm_do_temporal.definitions.keys.files import check_channel
    from llm_do_temporal.definitions.workshop import load_workshop, page_address

    config = load_workshop(workshop).config
    channel = flag or config.slack.channel
    if channel is None:
        raise UsageError(
            "no channel of Slack is named", next_step="Write `slack: {channel: C0123ABCD}` into workshop.yaml."
        )
    try:
        check_channel(channel)
    except ValueError as error:
        raise UsageError(f"'{channel[:40]}' is no channel: {error}") from None
    if not config.slack.people:
        say("nobody can decide in Slack yet: `slack: {people: {U0123ABCD: ada}}` of workshop.yaml names people")
    return channel, page_address(config, os.environ)


def _token(variable: str) -> str:
    beginning, what = _TOKENS[variable]
    token = os.environ.get(variable, "").strip()
    if not token.startswith(beginning):
        wrong = f"does not begin with {beginning}" if token else "is not set"
        raise UsageError(
            f"{variable} {wrong}: it is {what} of the app", next_step="docs/how-to/slack.md says how to make the app."
        )
    return token


def _address() -> str:
    """Return the address of Slack's Web API. Raises UsageError for one to which no token should go."""
    from llm_do_temporal.policy.notifications import check_target

    address = os.environ.get("SLACK_API_URL", "").strip() or _SLACK
    try:
        return check_target(address, allow_http=False)
    except ValueError as error:
        raise UsageError(f"SLACK_API_URL cannot be used: {error}") from None
