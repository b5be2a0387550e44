"""Activities that the desk of a run schedules: notifications, and news that its history keeps.

A notification is one signed POST, retried by Temporal where that may help. Owns how a message is addressed, signed and
laid out. Redirects are not followed, the answer's text is not read, and no message of it names an address that is in a
variable. Words of models and people are plain text in Slack: they ping nobody, have no format, and hold no link.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import os
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import httpx2
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.activities import NOTIFY, RECORD_AT_DESK, DeskRecord, Notification, NotifyInput
from llm_do_temporal.policy.notifications import NotifyEvent, NotifyTarget, check_target
from llm_do_temporal.redaction.configured_keys import know_variable
from llm_do_temporal.redaction.hidden_characters import AS_IT_IS, inert_value, plain, slack_text


def slack_message(told: Notification) -> dict[str, Any]:
    """Return the notification as a message for Slack."""
    headline = _headline(told)
    content = None if told.content is None else json.dumps(told.content, ensure_ascii=False, indent=1)
    texts = [headline, told.summary, told.note, content]
    blocks: list[dict[str, Any]] = [{"type": "section", "text": plain(text)} for text in texts if text]
    blocks.append({"type": "context", "elements": [plain(_circumstances(told))]})
    if told.link is not None:
        button = {"type": "button", "text": plain("Open"), "url": told.link}
        blocks.append({"type": "actions", "elements": [button]})
    text = ": ".join(filter(None, (headline, told.summary)))
    return {"text": slack_text(text), "blocks": blocks, **AS_IT_IS}


def _headline(told: Notification) -> str:
    match told.event:
        case NotifyEvent.APPROVAL_REQUESTED:
            return f"{told.worker} asks for approval: {told.tool}"
        case NotifyEvent.APPROVAL_REMINDER:
            return f"{told.worker} still waits for approval: {told.tool}"
        case NotifyEvent.APPROVAL_DECIDED:
            taken = "decided" if told.decision is None else told.decision.done
            return f"{taken} by {told.by or 'somebody'}: {told.tool}"
        case NotifyEvent.RUN_COMPLETED:
            how = "is done" if told.items is None else f"has {told.items.with_state('completed')}"
            return f"{told.worker} {how}"
        case NotifyEvent.RUN_FAILED:
            return f"{told.worker} has failed: {told.error}"


def _circumstances(told: Notification) -> str:
    where = " ".join(filter(None, ("run", told.run, told.approval)))
    until = f"until {told.deadline.isoformat(timespec='minutes')}" if told.deadline else None
    whom = f"for {', '.join(told.approvers)}" if told.approvers else None
    return " · ".join(filter(None, (where, told.path, whom, until)))


# It tells every address at INFO, and some addresses are secrets.
logging.getLogger("httpx2").setLevel(logging.WARNING)

_WORDS = ("worker", "path", "tool", "summary", "note", "error", "content")
"""Fields of a notification whose words come from models, people and authors."""
ANSWER_SECONDS = 10
"""Seconds for a whole POST: to reach the target, to send, and to get its status and headers."""
MAX_RETRY_AFTER_SECONDS = 300
_PASSING = frozenset({408, 425, 429})
"""Answers that are refusals by their number, and mean: later."""


@activity.defn(name=NOTIFY.name)
def notify(asked: NotifyInput) -> None:
    """Send a notification to its target.

    A failure that may pass by itself is tried again: no connection, 5xx, 429, an unset variable.
    """
    target, told = asked.target, asked.notification
    shown = slack_message(told) if target.format == "slack" else _json_message(told)
    body = json.dumps(shown).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "llm-do-temporal",
        "X-LlmDo-Event": told.event,
        "X-LlmDo-Id": told.id,
        **_signature(target, body, round(time.time())),
    }
    try:
        status, answered = _sent(_address(target), body, headers)
    except TimeoutError:
        raise _failure(target, f"did not answer within {ANSWER_SECONDS} s", passing=True) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        # Its text may name the address.
        raise _failure(target, f"cannot be reached ({type(error).__name__})", passing=True) from None
    _judge(target, status, answered)


def _sent(address: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
    """Send the body, and return the status and the headers of the answer; its text is not read. Raises TimeoutError.

    The timeouts of a client are for each byte that comes: what drips would never end. In an event loop of its own,
    because certificates are loaded first, and closed without waiting for a name that is still being looked up.
    """

    async def send() -> tuple[int, Mapping[str, str]]:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            httpx2.AsyncClient(timeout=ANSWER_SECONDS, follow_redirects=False) as client,
            client.stream("POST", address, content=body, headers=headers) as answer,
        ):
            return answer.status_code, answer.headers

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(send())
    finally:
        loop.close()


def _json_message(told: Notification) -> dict[str, Any]:
    """Return the message as an object: ids are exact; foreign words ping nobody and link nowhere."""
    shown = told.model_dump(mode="json", exclude_none=True)
    return shown | {name: inert_value(shown[name]) for name in _WORDS if name in shown}


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """The signature of a body that is sent at this time."""
    return "v1=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def _signature(target: NotifyTarget, body: bytes, now: int) -> dict[str, str]:
    if target.secret_env is None:
        return {}
    secret = _variable(target, target.secret_env)
    return {"X-LlmDo-Timestamp": str(now), "X-LlmDo-Signature": sign(secret, str(now), body)}


def _address(target: NotifyTarget) -> str:
    if target.url is not None:
        return target.url
    try:
        return check_target(_variable(target, target.url_env or ""), allow_http=target.allow_http)
    except ValueError as error:
        raise _failure(target, f"cannot be told: {error}", passing=False) from None


def _variable(target: NotifyTarget, name: str) -> str:
    """Return a variable of the worker service; a missing one may be there after the service was started again."""
    know_variable(name)
    value = os.environ.get(name, "").strip()
    if not value:
        raise _failure(target, f"cannot be told: the worker service has no variable {name}", passing=True)
    return value


def _judge(target: NotifyTarget, status: int, headers: Mapping[str, str]) -> None:
    """Raise for an answer that does not say: taken."""
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise _failure(target, f"answered {status}; redirects are not followed", passing=False)
    passing, said = status >= 500 or status in _PASSING, headers.get("retry-after", "")
    seconds = min(int(said[:9]), MAX_RETRY_AFTER_SECONDS) if said.isascii() and said.isdigit() else 0
    raise _failure(target, f"answered {status}", passing=passing, later=timedelta(seconds=seconds) or None)


def _failure(target: NotifyTarget, what: str, *, passing: bool, later: timedelta | None = None) -> ApplicationError:
    return ApplicationError(
        f"{target.name} {what}",
        type=EffectFailed.__name__,
        non_retryable=not passing,
        next_retry_delay=later if passing else None,
        category=ApplicationErrorCategory.BENIGN,
    )


@activity.defn(name=RECORD_AT_DESK.name)
async def record_at_desk(news: DeskRecord) -> DeskRecord:
    """Return the news as it is: the result of a local activity is in the history, its input is not."""
    return news
