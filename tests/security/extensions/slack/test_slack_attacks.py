"""Hostile people and messages at the Slack door, and a Slack that is slow, strict, broken or gone."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from llm_do_temporal.definitions.keys.files import WorkshopConfig
from llm_do_temporal.extensions.slack.workspace import MAX_FILE_BYTES, SlackFailed
from llm_do_temporal.redaction.hidden_characters import shown_name
from llm_do_temporal.testing import scripted
from tests.support.extensions.slack.fake_slack import (
    ADA,
    BOT,
    BOT_TOKEN,
    BOT_USER,
    CHANNEL,
    EVE,
    TEAM,
    FakeSlack,
    actions,
    shown,
)
from tests.support.extensions.slack.in_slack import WORKER, parked, value_of
from tests.support.extensions.slack.slack_process import PEOPLE, begun
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place


@pytest.mark.parametrize(
    ("user", "team"),
    [
        (EVE, TEAM),
        (ADA, "T0OTHER"),  # a user of another workspace, in a shared channel, with the same id
        (ADA, None),
        ("ada", TEAM),
        (ADA.lower(), TEAM),
        (None, TEAM),
        ([ADA], TEAM),
        ({"id": ADA}, TEAM),
        ("", TEAM),
    ],
)
async def test_nobody_decides_whom_the_workshop_does_not_name(place: Place, user: Any, team: Any) -> None:
    async with parked(place) as (door, run):
        told = await door.press(value_of(await door.card(run)), user=user, team=team)
        assert "you are nobody here" in told


async def test_who_is_struck_from_the_file_decides_nothing_from_then_on(place: Place) -> None:
    async with parked(place) as (door, run):
        value = value_of(await door.card(run))
        place.workshop(slack={"channel": CHANNEL})
        assert "you are nobody here" in await door.press(value)


async def test_a_file_that_cannot_be_read_names_nobody(place: Place) -> None:
    async with parked(place) as (door, run):
        value = value_of(await door.card(run))
        place.write("workshop.yaml", "slack: [")
        told = await door.press(value)
        assert "you are nobody here" in told
        assert str(place.folder) not in told


FORGED: list[Any] = [
    None,
    "",
    "{",
    "null",
    "[]",
    7,
    {"run": "RUN"},
    '{"run": "RUN", "question": "a1"}',
    '{"run": "RUN", "question": "a1", "digest": ""}',
    '{"run": "RUN", "question": "a1", "digest": "0000"}',
    '{"run": "RUN", "question": "a2", "digest": "DIGEST"}',
    '{"run": "RUN", "question": "", "digest": "DIGEST"}',
    '{"run": "nothing", "question": "a1", "digest": "DIGEST"}',
    '{"run": "RUN/main", "question": "a1", "digest": "DIGEST"}',
    '{"run": "RUN", "question": "a1", "digest": "DIGEST", "by": "bob"}',
    '{"run": "RUN", "question": "a1", "digest": "DIGEST", "votes": 1e400}',
    '{"run": "' + "a" * 100_000 + '", "question": "a1", "digest": "DIGEST"}',
    "[" * 10_000,
    '{"run": ["RUN"], "question": "a1", "digest": "DIGEST"}',
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("forged", FORGED, ids=lambda one: repr(one)[:60])
async def test_a_forged_button_decides_nothing(place: Place, forged: Any) -> None:
    async with parked(place) as (door, run):
        digest = json.loads(value_of(await door.card(run)))["digest"]
        given = forged.replace("RUN", run).replace("DIGEST", digest) if isinstance(forged, str) else forged
        told = await door.press(given)
        assert told
        assert "Traceback" not in told


async def test_a_click_on_what_was_shown_before_a_change_decides_nothing_and_the_card_shows_the_change(
    place: Place,
) -> None:
    rule = {"sandbox.write": {"ruling": "needs_approval", "quorum": 2}}
    async with parked(place, approvals={"rules": rule}) as (door, run):
        value = value_of(await door.card(run))
        changed = {"path": "/a.txt", "content": "changed"}
        await place.decide(run, "modify", id="a1", by="bob", args=changed)
        assert "has changed the arguments" in await door.press(value)
        assert "changed" in shown(await door.card(run))


async def test_a_click_that_is_sent_again_counts_once(place: Place) -> None:
    rule = {"sandbox.write": {"ruling": "needs_approval", "quorum": 2}}
    async with parked(place, approvals={"rules": rule}) as (door, run):
        value = value_of(await door.card(run))
        assert await door.press(value) == ""
        assert "has agreed already" in await door.press(value)


async def test_a_rule_that_names_others_holds_in_slack(place: Place) -> None:
    rule = {"sandbox.write": {"ruling": "needs_approval", "approvers": ["grace"]}}
    async with parked(place, approvals={"rules": rule}) as (door, run):
        assert "grace" in await door.press(value_of(await door.card(run)))


TEXTS = [
    "<!channel> <!here> <!everyone>",
    "<@U0ADA1> @ada @channel",
    "<https://evil.example|Approve>",
    "*bold* _it_ ~gone~ `code` ```block```",
    ":warning: :white_check_mark: approved by ada via slack",
    "[Approve](https://evil.example)",
    "\u202eevorppa\u202c\u200b",
    "\x1b[31mred\x07",
    '"}],"type":"actions","elements":[{"type":"button"',
    "&lt;!channel&gt; &amp;",
    "mailto:eve@evil.example tel:+1234",
    "<" * 20_000,
    "\x00" * 5_000,
    "\U0001f600" * 30_000,
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", TEXTS, ids=lambda one: ascii(one)[:40])
async def test_words_of_a_model_are_dead_in_a_card(place: Place, text: str) -> None:
    async with parked(place, write_call("/a.txt", text), "Done.") as (door, run):
        card = await door.card(run)
        assert card["parse"] == "none"
        assert {card[one] for one in ("mrkdwn", "link_names", "unfurl_links", "unfurl_media")} == {False}
        sent = json.dumps(card["blocks"])
        assert "mrkdwn" not in sent
        assert '"emoji": true' not in sent
        for live in ("<", "https://evil", "eve@", "\\u202e", "\\u001b", "evil.example"):
            assert live not in sent.replace("\\\\", "/"), live
        assert [block["type"] for block in card["blocks"]].count("actions") == 1
        assert [one["action_id"] for one in card["blocks"][-1]["elements"]] == ["llm_do_approve", "llm_do_reject"]


PATHS = [
    "/<!channel>.txt",
    "/a\u202etxt.exe",
    "/a b: +1 -0 lines, and more",
    "/" + "/".join(["d" * 200] * 5),
    "/\U0001f600",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", PATHS, ids=lambda one: ascii(one)[:40])
@pytest.mark.extension("review")
async def test_a_path_in_a_review_is_dead_and_one_line_and_nothing_is_accepted_there(place: Place, path: str) -> None:
    turns = [write_call(path), write_call("/z.txt")], "Done.", "Pity."
    async with parked(place, *turns, review="changes") as (door, run):
        card = await door.card(run)
        lines = shown(card).splitlines()
        for live in ("<", "mrkdwn", "\u202e"):
            assert live not in json.dumps(card["blocks"], ensure_ascii=False)
        assert [line[:6] for line in lines if line.endswith("z[.]txt: +1 -0 lines")] == ["added "]
        assert len([line for line in lines if line.startswith("added ")]) == len(path.split("/"))
        assert actions(card) == ["llm_do_reject"]


@pytest.mark.extension("review")
async def test_two_names_in_a_review_never_look_the_same(place: Place) -> None:
    names = ["/d\u200b.txt", "/d\\u200b.txt", "/c", "/c "]
    async with parked(place, [write_call(name) for name in names], "Done.", "Pity.", review="changes") as (door, run):
        lines = [line for line in shown(await door.card(run)).splitlines() if line.startswith("added ")]
        assert len({" ".join(line.split()) for line in lines}) == len(names)


@pytest.mark.parametrize("name", ["d\u200b.txt", "d\\u200b.txt"], ids=ascii)
async def test_the_summary_of_a_call_has_the_name_of_its_file_as_it_is_shown(place: Place, name: str) -> None:
    async with parked(place, [write_call(f"/{name}")], "Done.", "Pity.") as (door, run):
        assert f"write_file /{shown_name(name)} (2 bytes)" in shown(await door.card(run))


@pytest.mark.extension("review")
async def test_a_review_whose_changes_are_gone_says_so_and_other_cards_are_posted(place: Place) -> None:
    async with parked(place, [write_call("/b.txt")], "Done.", "Pity.", review="changes") as (door, run):
        for blob in [one for one in (place.folder / ".llm-do" / "blobs").rglob("*") if one.is_file()]:
            blob.unlink()
        assert "could not be read" in shown(await door.card(run))
        assert actions(await door.card(run)) == ["llm_do_reject"]


async def test_a_card_of_somebody_else_is_not_taken_for_one_of_the_doors_own(place: Place) -> None:
    async with parked(place) as (door, run):
        mark = {"run": run, "question": "a1", "digest": "x", "state": "decided"}
        forged: dict[str, Any] = {"ts": "1600000000.000100", "bot_id": "B0EVIL", "text": "x", "blocks": []}
        metadata = {"event_type": "llm_do_card", "event_payload": mark}
        door.slack.messages[forged["ts"]] = {**forged, "metadata": metadata}
        while len(door.slack.cards(run)) == 1:
            await door.board.round()
        assert [one["bot_id"] for one in door.slack.cards(run)] == ["B0EVIL", BOT]
        door.slack.messages.pop(forged["ts"])
        assert value_of(await door.card(run))


MARKS: list[Any] = [None, [], "x", 7, {}, {"run": 3}, {"run": "x", "more": 1}, {"run": "x" * 10_000}, {"run": ""}]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mark", MARKS, ids=lambda one: repr(one)[:30])
async def test_a_mark_that_is_none_disturbs_nothing(place: Place, mark: Any) -> None:
    async with parked(place) as (door, run):
        odd: dict[str, Any] = {"ts": "1600000000.000100", "bot_id": BOT, "text": "x", "blocks": [], "thread_ts": "1.0"}
        door.slack.messages["odd"] = {**odd, "metadata": {"event_type": "llm_do_card", "event_payload": mark}}
        del door.slack.messages["odd"]["thread_ts"]
        while not [one for one in door.slack.messages.values() if one["text"] != "x" and run in json.dumps(one)]:
            await door.board.round()


MENTIONS: list[tuple[str, dict[str, Any]]] = [
    ("start writer go", {"user": EVE}),
    ("start writer go", {"user": None}),
    ("start writer go", {"team": "T0OTHER"}),
    ("start writer go", {"user_team": "T0OTHER"}),
    ("start writer go", {"bot_id": "B0OTHER"}),
    ("start writer go", {"channel": "C0OTHER"}),
    ("start writer go", {"subtype": "message_changed"}),
    ("start writer go", {"thread_ts": "1.0"}),
    ("start writer go", {"text": f"say: <@{BOT_USER}> start writer go"}),
    ("start writer go", {"text": "<@U0OTHER> start writer go"}),
    ("start writer go", {"text": None}),
    ("START writer go", {}),
    ("start ../writer go", {}),
    ("start /etc/passwd go", {}),
    ("start " + "w" * 10_000, {}),
    ("start writer\x00 go", {}),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("text", "event"), MENTIONS, ids=lambda one: repr(one)[:40])
async def test_a_mention_of_others_or_of_nothing_starts_no_run(
    place: Place, runs_begun: Callable[[], Awaitable[set[str]]], text: str, event: dict[str, Any]
) -> None:
    async with parked(place) as (door, run):
        told = await door.mention(text, **event)
        assert str(place.folder) not in told
        assert await runs_begun() <= {run}
        assert door.slack.cards(None, "") == []


PLACES = [
    "http://evil.example/files/f",
    "http://127.0.0.1.evil.example/f",
    "http://user:127.0.0.1@evil.example/f",
    "https://127.0.0.1/f",
    "file:///etc/passwd",
    "//evil.example/f",
    "http://[::1",
    "",
    "http://127.0.0.1@evil.example/",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("url", PLACES)
async def test_no_token_goes_to_where_a_linked_file_lies(place: Place, url: str) -> None:
    async with parked(place) as (door, _):
        told = await door.mention("start writer go", files=[{"name": "a.txt", "url_private_download": url}])
        assert "outside of Slack" in told
        assert door.slack.cards(None, "") == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", "a\x00b", "x" * 500, "a\nb"])
async def test_a_file_with_an_odd_name_is_written_nowhere(place: Place, name: str) -> None:
    async with parked(place) as (door, _):
        file = door.slack.file(name, b"x")
        told = await door.mention("start writer go", files=[file])
        assert told or door.slack.cards(None, "")
        assert not [path for path in place.folder.parent.rglob("passwd*") if path.is_file()]


async def test_a_giant_file_is_not_attached(place: Place) -> None:
    async with parked(place) as (door, _):
        file = door.slack.file("big.bin", b"x" * (MAX_FILE_BYTES + 1))
        assert "more than" in await door.mention("start writer go", files=[file])


ANSWERS: list[tuple[int, dict[str, str], str]] = [
    (200, {}, ""),
    (200, {}, "{"),
    (200, {}, "[]"),
    (200, {}, "null"),
    (200, {}, '"ok"'),
    (200, {}, "7"),
    (200, {}, '{"ok": false}'),
    (200, {}, '{"ok": false, "error": ["x"]}'),
    (200, {"Content-Type": "text/html"}, "<html>login</html>"),
    (200, {"Content-Type": "text/plain"}, "ok"),
    (302, {"Location": "/api/auth.test"}, ""),
    (500, {}, "oops"),
    (503, {}, '{"ok": true}'),
    (429, {"Retry-After": "0"}, ""),
    (429, {"Retry-After": "soon"}, ""),
    (429, {"Retry-After": "0", "Content-Type": "text/plain"}, "slow down"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", ["conversations.history", "chat.postMessage"])
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: repr(one)[:50])
async def test_whatever_slack_answers_the_card_is_there_once_in_the_end(
    place: Place, answer: tuple[int, dict[str, str], str], method: str
) -> None:
    async with parked(place) as (door, run):
        door.slack.refuse[method] = deque([answer])
        with suppress(SlackFailed):
            await door.board.round()
        await door.board.look()
        assert value_of(await door.card(run))


async def test_a_card_whose_answer_was_lost_is_not_posted_again(place: Place) -> None:
    async with parked(place) as (door, run):
        door.slack.lose = {"chat.postMessage"}
        with pytest.raises(SlackFailed):
            await door.board.round()
        door.slack.lose.clear()
        (card,) = door.slack.cards()
        await door.board.look()
        await door.board.round()
        marks = [one["metadata"]["event_payload"] for one in door.slack.cards()]
        assert run in [mark["run"] for mark in marks]
        assert marks.count(card["metadata"]["event_payload"]) == 1


HISTORIES: list[Any] = [
    {"messages": None},
    {"messages": {}},
    {"messages": [None, 7, "x", [], {}]},
    {"messages": [{"metadata": "x", "bot_id": BOT}]},
    {"messages": [], "response_metadata": "x"},
    {"messages": [], "response_metadata": {"next_cursor": "0"}},
    {
        "messages": [
            {"ts": None, "bot_id": BOT, "metadata": {"event_type": "llm_do_card", "event_payload": {"run": "x"}}}
        ]
    },
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("history", HISTORIES, ids=lambda one: repr(one)[:50])
async def test_a_history_of_any_shape_is_read_to_an_end(place: Place, history: Any) -> None:
    async with parked(place) as (door, run):
        door.slack.refuse["conversations.history"] = deque([(200, {}, json.dumps({"ok": True, **history}))])
        assert value_of(await door.card(run))


SETTINGS: list[Any] = [
    {"channel": "#general"},
    {"channel": "c0channel"},
    {"channel": "C0CHANNEL/../x"},
    {"channel": ""},
    {"channel": "D0CHANNEL"},
    {"people": {"ada": "ada"}},
    {"people": {"U0ADA1": ""}},
    {"people": {"U0ADA1": ["ada"]}},
    {"people": {"*": "ada"}},
    {"token": "xoxb-1"},
    {"people": ["U0ADA1"]},
]


@pytest.mark.parametrize("keys", SETTINGS, ids=repr)
def test_settings_that_name_nobody_and_no_channel_are_refused(keys: Any) -> None:
    with pytest.raises(ValueError, match="slack"):
        WorkshopConfig.model_validate({"slack": keys})


PAYLOADS: list[Any] = [
    None,
    [],
    "x",
    {},
    {"type": "block_actions"},
    {"type": "view_submission", "view": {}},
    {"type": "app_mention"},
    {"type": "message", "text": ["x"]},
]


async def test_messages_of_no_known_shape_are_left_and_the_connection_serves_on(place: Place) -> None:
    place.workshop(slack=PEOPLE)
    place.worker("writer", scripted(write_call("/a.txt"), "Done."), **WORKER)
    run = await place.start("writer")
    there = asyncio.to_thread
    with FakeSlack() as slack, begun(place, slack) as process:
        card = await there(slack.card, run, "a1")
        odd = '{"type": "interactive", "envelope_id": "e"}'
        for text in ("{", "[]", "7", "null", '{"type": 3}', "x" * 100_000, odd):
            await there(slack.send_text, text)
        for payload in PAYLOADS:
            await there(slack.post_envelope, "interactive", payload)
            await there(slack.post_envelope, "events_api", {"type": "event_callback", "event": payload})
        await there(slack.refresh)
        await there(slack.click, ADA, card, "llm_do_approve")
        assert (await place.client.result(run)).output == "Done."
        process.kill()
        said = "".join(process.communicate())
    assert BOT_TOKEN not in said
    assert "Traceback" not in said
