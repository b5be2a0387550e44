"""`slack:` of `workshop.yaml`: the channel in which people are asked, and the people behind Slack's users."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from llm_do_temporal.messages.base import Strict
from llm_do_temporal.policy.approvals import Person


def check_channel(channel: str) -> str:
    """Return the id of a channel. Raises ValueError for what is none."""
    if not _is_id(channel, "CG"):
        raise ValueError("it is the id of a channel, like C0123ABCD: at the end of the channel's details in Slack")
    return channel


def check_user(user: str) -> str:
    """Return the id of a user. Raises ValueError for what is none."""
    if not _is_id(user, "UW"):
        raise ValueError("it is the id of a user, like U0123ABCD: *Copy member ID* in the user's profile in Slack")
    return user


def _is_id(text: str, kinds: str) -> bool:
    is_one_word = text.isascii() and text.isalnum() and text == text.upper()
    return is_one_word and text[:1] in tuple(kinds) and 6 <= len(text) <= 30


class SlackSettings(Strict):
    """`slack:` of `workshop.yaml`."""

    channel: Annotated[str, AfterValidator(check_channel)] | None = None
    """Id of the channel in which questions are asked."""
    people: dict[Annotated[str, AfterValidator(check_user)], Person] = Field(default_factory=dict)
    """Names of people by the ids of their users in Slack; nobody else decides there."""
