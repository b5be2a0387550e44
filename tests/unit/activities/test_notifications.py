"""One message to one target: what it looks like, and what becomes of each answer."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.activities.notifications import notify, slack_message
from llm_do_temporal.messages.activities import Notification, NotifyInput
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.messages.runs import ItemCounts
from llm_do_temporal.policy.notifications import NotifyEvent, NotifyTarget
from llm_do_temporal.redaction.hidden_characters import MAX_TEXT_CHARS, slack_text
from tests.support.servers.receiver import Receiver

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
REQUESTED = NotifyEvent.APPROVAL_REQUESTED


def told(event: NotifyEvent = REQUESTED, **more: Any) -> Notification:
    return Notification(id="x-1", event=event, at=NOON, run="notes-1", worker="notes", **more)


def asked(url: str, **more: Any) -> NotifyInput:
    return NotifyInput(target=NotifyTarget(url=url, secret_env="HOOK_SECRET", **more), notification=told())


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.mark.parametrize(
    ("status", "retry_after", "passing", "later"),
    [
        (503, "", True, None),
        (500, "7", True, 7),
        (429, "7", True, 7),
        (429, "99999999999999999999", True, 300),  # an hour would be over before that
        (429, "0", True, None),
        (429, "soon", True, None),
        (408, "", True, None),
        (404, "7", False, None),  # asking again gives the same
        (301, "", False, None),
    ],
)
def test_what_an_answer_means(status: int, retry_after: str, passing: bool, later: int | None) -> None:
    with (
        Receiver(statuses={REQUESTED: [status]}, headers={"Retry-After": retry_after}) as receiver,
        pytest.raises(ApplicationError, match=f"{receiver.url[:-5]} answered {status}") as failed,
    ):
        notify(asked(receiver.url))
    assert failed.value.non_retryable is not passing
    assert failed.value.next_retry_delay == (None if later is None else timedelta(seconds=later))


def test_nobody_there_and_a_variable_that_is_not_set_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))  # so that nobody else listens there meanwhile
        with pytest.raises(ApplicationError, match="cannot be reached") as nobody:
            notify(asked(f"http://127.0.0.1:{kept.getsockname()[1]}/"))
    monkeypatch.delenv("HOOK_SECRET")
    with pytest.raises(ApplicationError, match="the worker service has no variable HOOK_SECRET") as unset:
        notify(asked("http://127.0.0.1:9/"))
    assert not nobody.value.non_retryable
    assert not unset.value.non_retryable


def test_an_address_in_a_variable_is_never_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "http://hooks.example.com/services/secret")
    target = NotifyTarget(url_env="HOOK", format="slack")
    with pytest.raises(ApplicationError, match="the address in HOOK cannot be told: http sends") as failed:
        notify(NotifyInput(target=target, notification=told()))
    assert "secret" not in str(failed.value)
    assert failed.value.non_retryable


def test_no_address_is_logged(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        notify(asked(receiver.url))
    assert receiver.told
    assert "/hook" not in caplog.text


def test_text_is_sent_in_ascii_whatever_is_in_it(receiver: Receiver) -> None:
    target = NotifyTarget(url=receiver.url, secret_env="HOOK_SECRET")
    notify(NotifyInput(target=target, notification=told(summary="é\u202e\n\x1b")))
    (request,) = receiver.told
    assert request.body.isascii()
    assert request.json["summary"] == "é\\u202e\n\\x1b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        (
            "<!channel> <@U1> <https://evil.example|Open>",
            "[&lt;]!channel&gt; [&lt;] [@]U1&gt; [&lt;]https[:]//evil[.]example|Open&gt;",
        ),
        ("one\ntwo", "one\ntwo"),
        ("a\u202eb\x07", "a\\u202eb\\x07"),  # what would reorder or hide is written out
        ("&" * 1000, "&amp;" * 399 + "…"),  # Slack counts what is sent
    ],
)
def test_text_for_slack(text: str, shown: str) -> None:
    assert slack_text(text) == shown
    assert len(shown) <= MAX_TEXT_CHARS


@pytest.mark.parametrize(
    ("notification", "text", "sections"),
    [
        (
            told(tool="shell", summary="ls", path="main", approval="a1", approvers=("ada", "bo"), deadline=NOON),
            "notes asks for approval: shell: ls",
            [
                "notes asks for approval: shell",
                "ls",
                "run notes-1 a1 · main · for ada, bo · until 2026-03-01T12:00+00:00",
            ],
        ),
        (
            told(NotifyEvent.APPROVAL_REMINDER, tool="shell"),
            "notes still waits for approval: shell",
            ["notes still waits for approval: shell", "run notes-1"],
        ),
        (
            told(NotifyEvent.APPROVAL_DECIDED, tool="shell", decision=DecisionKind.MODIFY, by="", note="<b>"),
            "changed and approved by somebody: shell",
            ["changed and approved by somebody: shell", "[&lt;]b&gt;", "run notes-1"],
        ),
        (told(NotifyEvent.RUN_COMPLETED), "notes is done", ["notes is done", "run notes-1"]),
        (
            told(NotifyEvent.RUN_COMPLETED, items=ItemCounts(total=4, completed=3, failed=1)),
            "notes has completed, 1 of 4 failed",
            ["notes has completed, 1 of 4 failed", "run notes-1"],
        ),
        (
            told(NotifyEvent.RUN_FAILED, error="BudgetExceeded", content={"message": "spent"}),
            "notes has failed: BudgetExceeded",
            ["notes has failed: BudgetExceeded", '{\n "message": "spent"\n}', "run notes-1"],
        ),
    ],
)
def test_a_message_for_slack(notification: Notification, text: str, sections: list[str]) -> None:
    message = slack_message(notification)
    assert message["text"] == text
    texts = [block["text"] if "text" in block else block["elements"][0] for block in message["blocks"]]
    assert [one["text"] for one in texts] == sections
    assert {one["type"] for one in texts} == {"plain_text"}
    assert not message["unfurl_links"]


def test_the_button_leads_to_the_page() -> None:
    message = slack_message(told(link="https://a.example/runs/notes-1"))
    (button,) = message["blocks"][-1]["elements"]
    assert (button["type"], button["url"]) == ("button", "https://a.example/runs/notes-1")
