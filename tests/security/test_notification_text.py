"""Text of models in notifications: it pings nobody, and holds no link that somebody could click."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from llm_do_temporal.activities import notifications
from llm_do_temporal.activities.notifications import notify, slack_message
from llm_do_temporal.cli.text import visible_block, visible_line
from llm_do_temporal.messages.activities import Notification, NotifyInput
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.policy.notifications import NotifyEvent, NotifyTarget
from llm_do_temporal.redaction.hidden_characters import inert
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.place import Place
from tests.support.servers.receiver import Receiver

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAGE = "https://approvals.example.com/runs/r-1/approvals/a1"
LIVE = re.compile(
    r"""
    [@\uff20\ufe6b][\w<&!]                          # a name that is called
    | <[!@\#a-zA-Z/]                                # Slack's and Discord's own, or a tag
    | \][(\[:]                                      # a link of Markdown
    | (?:https?|ftp|file|slack|tel|mailto|javascript|data|msteams|vbscript)[:\uff1a]\S
    | (?<!\w)www[.\u3002]\w
    | [\w-][.\u3002\uff0e\uff61](?:com|org|net|io|ru|example|zip|me|dev|xn--p1ai|рф|co|uk)(?![^\W_])
    | \d\.\d{1,3}\.\d{1,3}\.\d
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""What any of the programs that show notifications is known to act on."""
PINGS = [
    "<!channel> now",
    "<!here>",
    "<!everyone>",
    "<!here|here>",
    "<@U024BE7LH>",
    "<@U024BE7LH|ada>",
    "<!subteam^S012ABC>",
    "<#C024BE7LR>",
    "<#C024BE7LR|general>",
    "<!date^1392734382^{date}^https://evil.example/|soon>",
    "@channel",
    "@here: look",
    "(@everyone)",
    "_@channel_",
    "*@here*",
    "`@all`",
    "x@channel",
    "@@channel",
    "\uff20channel",  # a wide one
    "\ufe6bchannel",
    "@\u200bchannel",
    "\u2068@channel",
    "&lt;!channel&gt; <!channel>",
    "<at>ada</at>",  # Teams
    "<@!123456789>",  # Discord
    "<@&987654321>",
    "<:wave:123456>",
    "@ada@social.example",
]
LINKS = [
    "https://evil.example",
    "HTTPS://EVIL.EXAMPLE/Approve",
    "<https://evil.example|Approve here>",
    "<https://approvals.example.com@evil.example|Open>",
    "[Approve](https://evil.example)",
    "[Approve]( https://evil.example )",
    "[Approve](/runs/r-1)",
    "![](https://evil.example/pixel.png)",
    "[Approve][1]\n\n[1]: https://evil.example",
    "[Approve]: https://evil.example 'x'",
    "<a href='//evil.example'>Approve</a>",
    "<img src=x onerror=alert(1)>",
    "http://user:pw@evil.example:8080/x?y#z",
    "http:/\\evil.example",
    "http:\\\\evil.example",
    "http\uff1a//evil.example",
    "//evil.example/x",
    "www.evil.example",
    "WWW.Evil.Example",
    "evil.com",
    "evil.com.",
    "_evil.com_",
    "*evil.com*",
    "(evil.com)",
    "evil.com/approve",
    "evil.com:8443",
    "evil.com-approve",
    "sub.sub-domain.evil.co.uk",
    "t.me/evil",
    "evil\u3002com",
    "evil\uff0ecom",
    "evil\uff61com",
    "bücher.example.com",
    "xn--e1afmkfd.xn--p1ai",
    "пример.рф",
    "notes.zip",  # a file's name, and a domain
    "notes.md.evil.com",
    "http://127.0.0.1:8233/namespaces",
    "10.0.0.1",
    "mailto:ada@evil.example",
    "ada@evil.example",
    "tel:+15551234567",
    "javascript:alert(1)",
    "data:text/html,<script>x</script>",
    "file:///etc/passwd",
    "file:\\\\server\\share",
    "slack://user?team=T1&id=U1",
    "msteams:/l/call/0/0?users=x",
    "vscode://evil/run",
    "ftp://evil.example/x",
    "h\u00adttps://evil.example",
    "https://evil.example\u202eelpmaxe.doog",
]


def told(text: str, **more: Any) -> Notification:
    given = {"summary": text, "note": text, "content": {"args": {text: [text]}}, "tool": "shell", "path": "main"} | more
    return Notification.model_validate(
        {"id": "x-1", "event": NotifyEvent.APPROVAL_REQUESTED, "at": NOON, "run": "r-1", "worker": "w", "link": PAGE}
        | given
    )


def texts(value: Any) -> Iterator[str]:
    """Every text in a message of Slack's, and no address of a button."""
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            if name != "url":
                yield from texts(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.sampled(16)
@pytest.mark.parametrize("text", [*PINGS, *LINKS])
def test_a_message_for_any_receiver_is_dead(text: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s")
    target = NotifyTarget(url=receiver.url, secret_env="HOOK_SECRET", content=True)
    notify(NotifyInput(target=target, notification=told(text)))
    (request,) = receiver.told
    shown = request.json
    assert shown.pop("link") == PAGE
    for said in (
        shown["summary"],
        shown["note"],
        *shown["content"]["args"],
        *next(iter(shown["content"]["args"].values())),
    ):
        assert LIVE.search(said) is None, said
        assert all(char.isprintable() or char in "\n\t" for char in said)


@pytest.mark.parametrize("text", [*PINGS, *LINKS])
def test_a_message_for_slack_is_dead(text: str) -> None:
    message = slack_message(told(text, by=text, event=NotifyEvent.APPROVAL_DECIDED, decision=DecisionKind.APPROVE))
    for said in texts(message):
        assert LIVE.search(said) is None, said
        assert "<" not in said
    assert message["link_names"] is False
    assert message["mrkdwn"] is False
    assert message["unfurl_links"] is message["unfurl_media"] is False
    kinds = re.findall(r'"type": "(\w+)"', json.dumps(message))
    assert set(kinds) <= {"section", "context", "actions", "button", "plain_text"}
    assert json.dumps(message).count(PAGE) == 1


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]8;;https://evil.example\x1b\\Approve\x1b]8;;\x1b\\",
        "\x1b]8;id=1;https://evil.example\x07Approve\x1b]8;;\x07",
        "\x9d8;;https://evil.example\x9cApprove\x9d8;;\x9c",
    ],
)
def test_a_terminal_is_given_no_link_with_another_text(text: str) -> None:
    for shown in (visible_line(text), visible_block(text), inert(text)):
        assert not any(char in shown for char in "\x1b\x07\x9d\x9c")


@pytest.mark.parametrize(
    "text", ["a_" * 32_000, "a." * 32_000, "www." * 16_000, "a-" * 32_000 + ".com", "[](" * 20_000]
)
@pytest.mark.timeout(PATIENCE_SECONDS)
def test_a_long_text_is_dead_within_its_time(text: str) -> None:
    assert LIVE.search(inert(text)[:1_000]) is None


@pytest.mark.parametrize(
    "text",
    [
        "write_file /evaluations/Acme Corp.md (1204 bytes)",
        "shell: python report.py --out table.csv",
        "main/deck_reader-1",
        "a < b and c > d, 12:30, version 1.2.3, e.g. this",
        "costs 3.5 USD: yes",
        "list [1, 2] (both)",
    ],
)
@pytest.mark.control
def test_ordinary_text_is_told_as_it_is(text: str) -> None:
    assert inert(text) == text


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A target on this machine, for which there is time."""
    monkeypatch.setattr(notifications, "ANSWER_SECONDS", PATIENCE_SECONDS)
    with Receiver() as receiver:
        yield receiver


async def test_a_model_that_asks_is_told_dead_and_the_page_stays_alive(
    place: Place, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    from llm_do_temporal.testing import call, scripted

    monkeypatch.setenv("HOOK_SECRET", "s")
    place.workshop(
        notify=[{"url": receiver.url, "secret_env": "HOOK_SECRET", "content": True}], ui_url="http://127.0.0.1:8400"
    )
    hostile = "<!channel> [Approve](https://evil.example) @here"
    place.worker(
        "main",
        scripted(call("write_file", path="/@channel.txt", content=hostile), "Done."),
        toolsets={"filesystem": {}},
    )
    run = await place.start("main")
    asked = await asyncio.to_thread(receiver.wait_for, "approval.requested")
    assert asked.json["link"] == f"http://127.0.0.1:8400/runs/{run}/approvals/a1"
    assert LIVE.search(asked.json["summary"]) is None
    assert LIVE.search(json.dumps(asked.json["content"])) is None
    await place.decide(run)
    await place.client.result(run)
    assert (place.folder / "@channel.txt").read_text() == hostile
