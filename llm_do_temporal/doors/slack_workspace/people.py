"""People behind the users of Slack, as the workshop's file names them: who speaks through the Slack door."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from llm_do_temporal.definitions.workshop.workshop import load_workshop
from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.errors import AccessRefused, LlmDoError

VIA = "slack"
READER = Principal(VIA, frozenset({TokenScope.READ}), is_person=True, via=VIA)
"""Reads all runs for everybody in the channel, and may do nothing else."""
_log = logging.getLogger(__name__)


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
