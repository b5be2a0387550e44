"""The Slack door as a process of its own, at a Slack on this machine, with runs of a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from llm_do_temporal.client.question_document import document_of
from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.extensions.slack import app
from llm_do_temporal.extensions.slack.workspace import READER, SlackChannel
from llm_do_temporal.messages.runs import Batch, BatchItem
from llm_do_temporal.testing import call, scripted
from tests.support.extensions.slack.fake_slack import ADA, APP_TOKEN, BOB, BOT_TOKEN, CHANNEL, FakeSlack, actions, shown
from tests.support.extensions.slack.in_slack import InSlack, parked
from tests.support.extensions.slack.slack_process import PEOPLE, begun, said, variables
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place

APPROVE, REJECT, OPEN = "llm_do_approve", "llm_do_reject", "llm_do_open"
ADA_HERSELF = Principal("ada", frozenset(TokenScope), is_person=True, via="test")
_there = asyncio.to_thread


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as server:
        yield server
        assert server.problems == []


def writer(place: Place, *turns: Any, **keys: Any) -> None:
    place.workshop(slack=PEOPLE, **keys)
    place.worker("writer", scripted(*(turns or (write_call("/a.txt"), "Done."))), toolsets={"filesystem": {}})


async def test_a_call_is_approved_by_a_click_and_the_thread_has_the_end(place: Place, slack: FakeSlack) -> None:
    writer(place, ui_url="https://page.example")
    run = await place.start("writer")
    with begun(place, slack):
        card = await _there(slack.card, run, "a1")
        assert "write_file /a.txt (2 bytes)" in shown(card)
        assert "+hi" in shown(card)
        assert actions(card) == [APPROVE, REJECT, OPEN]
        (link,) = [one["url"] for one in card["blocks"][-1]["elements"] if one["action_id"] == OPEN]
        assert link == f"https://page.example/runs/{run}/approvals/a1"
        await _there(slack.click, ADA, card, APPROVE)
        assert (await place.client.result(run)).output == "Done."
        decided = await _there(lambda: slack.card(run, "a1", says="approved by ada via slack"))
        assert actions(decided) == [OPEN]
        end = await _there(slack.reply, card, "Done.")
        assert "2 requests" in shown(end)
    assert len(slack.cards(run)) == 1
    (question,) = await place.client.questions(run)
    assert question.verdict is not None
    assert (question.verdict.by, question.verdict.via) == ("ada", "slack")
    assert question.verdict.digest == question.request.digest


async def test_a_rejection_asks_for_its_reason_and_the_worker_is_told(place: Place, slack: FakeSlack) -> None:
    writer(place)
    run = await place.start("writer")
    with begun(place, slack):
        card = await _there(slack.card, run, "a1")
        await _there(slack.click, BOB, card, REJECT)
        await _there(slack.until, lambda: slack.forms, "the form opens")
        assert f"a1 of run {run}" in shown(slack.forms[0])
        await _there(slack.fill, BOB, "not <today>")
        rejected = await _there(lambda: slack.card(run, "a1", says="rejected by bob via slack"))
        assert "not [&lt;]today&gt;" in shown(rejected)
        await place.client.result(run)
    (question,) = await place.client.questions(run)
    assert question.verdict is not None
    assert question.verdict.note == "not <today>"


@pytest.mark.thorough
async def test_who_was_first_elsewhere_is_shown_and_a_late_click_is_told(place: Place, slack: FakeSlack) -> None:
    writer(place)
    run = await place.start("writer")
    with begun(place, slack):
        card = dict(await _there(slack.card, run, "a1"))
        await place.decide(run, id="a1", by="bob")
        await _there(lambda: slack.card(run, "a1", says="approved by bob"))
        await _there(slack.click, ADA, card, APPROVE)
        await _there(slack.ephemeral, "already decided: approved by bob")


@pytest.mark.thorough
async def test_a_question_that_nobody_answers_in_time_says_so(place: Place, slack: FakeSlack) -> None:
    writer(place, approvals={"timeout": "20s", "on_timeout": "reject"})
    with begun(place, slack):
        await _there(slack.connected)
        run = await place.start("writer")
        await _there(slack.card, run, "a1")
        late = await _there(lambda: slack.card(run, "a1", says="rejected by timeout"))
        assert "nobody decided within" in shown(late)
        assert actions(late) == []
        await place.client.result(run)


@pytest.mark.thorough
async def test_a_run_that_is_cancelled_takes_its_question_back_and_its_thread_says_so(
    place: Place, slack: FakeSlack
) -> None:
    writer(place)
    run = await place.start("writer")
    with begun(place, slack):
        card = await _there(slack.card, run, "a1")
        await place.client.cancel(run)
        gone = await _there(lambda: slack.card(run, "a1", says="needs no answer any more"))
        assert actions(gone) == []
        await _there(slack.reply, card, "writer: cancelled")


@pytest.mark.thorough
async def test_a_quorum_counts_on_the_card_and_one_person_counts_once(place: Place, slack: FakeSlack) -> None:
    rule = {"sandbox.write": {"ruling": "needs_approval", "approvers": ["ada", "bob"], "quorum": 2}}
    writer(place, approvals={"rules": rule})
    run = await place.start("writer")
    with begun(place, slack):
        card = await _there(slack.card, run, "a1")
        assert "may be decided by ada, bob · 0 of 2 people have agreed" in shown(card)
        await _there(slack.click, ADA, card, APPROVE)
        card = await _there(lambda: slack.card(run, "a1", says="1 of 2 people have agreed"))
        assert "approved by ada via slack" in shown(card)
        await _there(slack.click, ADA, card, APPROVE)
        await _there(slack.ephemeral, "'ada' has agreed already")
        await _there(slack.click, BOB, card, APPROVE)
        await _there(lambda: slack.card(run, "a1", says="approved by bob via slack"))
        assert (await place.client.result(run)).output == "Done."


@pytest.mark.thorough
async def test_a_rejection_after_somebody_has_agreed_is_shown_as_one(place: Place, slack: FakeSlack) -> None:
    writer(place, approvals={"rules": {"sandbox.write": {"ruling": "needs_approval", "quorum": 2}}})
    run = await place.start("writer")
    with begun(place, slack):
        await _there(slack.click, ADA, await _there(slack.card, run, "a1"), APPROVE)
        await _there(lambda: slack.card(run, "a1", says="1 of 2 people have agreed"))
        await place.decide(run, "reject", id="a1", by="bob", note="no")
        assert "approved by ada" in shown(
            await _there(lambda: slack.card(run, "a1", says="rejected by bob: write_file"))
        )
        await place.client.result(run)


@pytest.mark.thorough
async def test_a_door_that_was_killed_finds_its_cards_and_shows_what_has_become_of_them(
    place: Place, slack: FakeSlack
) -> None:
    writer(place, [write_call("/a.txt"), write_call("/b.txt")], "Done.")
    run = await place.start("writer")
    with begun(place, slack):
        await _there(slack.card, run, "a1")
        await _there(slack.card, run, "a2")
    await place.decide(run, id="a1", by="bob")
    with begun(place, slack):
        await _there(lambda: slack.card(run, "a1", says="approved by bob"))
        await _there(slack.click, ADA, await _there(slack.card, run, "a2"), APPROVE)
        await _there(slack.reply, min(slack.cards(run), key=lambda one: one["ts"]), "Done.")
    assert [len(slack.cards(run, one)) for one in ("a1", "a2")] == [1, 1]
    with begun(place, slack):
        await _there(slack.connected)
        later = await place.start("writer")
        await _there(slack.card, later, "a1")
    threads = [one["thread_ts"] for one in slack.messages.values() if "thread_ts" in one]
    assert len([ts for ts in threads if ts in [one["ts"] for one in slack.cards(run)]]) == 1


@pytest.mark.thorough
async def test_two_doors_at_once_leave_one_card(place: Place, slack: FakeSlack) -> None:
    writer(place)
    with begun(place, slack), begun(place, slack):
        await _there(slack.connected, 2)
        run = await place.start("writer")
        card = await _there(slack.card, run, "a1")
        await _there(slack.click, ADA, card, APPROVE)
        await place.client.result(run)
        await _there(slack.until, lambda: len(slack.cards(run)) == 1, "one card is left")
        await _there(slack.reply, slack.cards(run)[0], "Done.")


async def test_a_mention_starts_one_run_with_its_files_however_often_it_is_sent(place: Place, slack: FakeSlack) -> None:
    writer(place)
    place.worker("hand", "offline:by-hand", toolsets={"filesystem": {}})
    with begun(place, slack):
        await _there(slack.connected)
        say = 'start hand write_file {"path": "/x.txt", "content": "a &lt; b"}'
        ts = await _there(lambda: slack.write(ADA, say, files={"deck.txt": b"seven"}))
        started = await _there(slack.started, "hand was started by ada")
        again = {key: value for key, value in slack.messages[ts].items() if key not in ("type", "files")}
        await _there(slack.mention, {**again, "type": "message", "subtype": "file_share"})
        run = started["metadata"]["event_payload"]["run"]
        assert [one.name for one in await DoorService(place.client, place.folder).files(ADA_HERSELF, run)] == [
            "deck.txt"
        ]
        place.started.append(run)
        await _there(slack.click, ADA, await _there(slack.card, run, "a1"), APPROVE)
        await _there(slack.reply, started, "completed")
        assert len(slack.cards(run, "")) == 1
    assert (place.folder / "x.txt").read_text() == "a < b"
    assert [one.worker for one in await place.client.runs() if one.started_by == "ada"].count("hand") == 1


async def test_files_of_one_name_are_all_attached(place: Place) -> None:
    async with parked(place) as (door, _):
        files = [door.slack.file("image.png", content) for content in (b"one", b"two", b"three")]
        assert await door.mention("start writer go", files=files) == ""
        (card,) = door.slack.cards(None, "")
        run = card["metadata"]["event_payload"]["run"]
        place.started.append(run)
        service = DoorService(place.client, place.folder)
        attached = {
            one.name: (await service.file(READER, run, "given", one.name))[0]
            for one in await service.files(READER, run)
        }
        assert attached == {"image.png": b"one", "2-image.png": b"two", "3-image.png": b"three"}


async def test_a_mention_that_starts_nothing_says_why(place: Place, slack: FakeSlack) -> None:
    writer(place)
    usage = "Say: start WORKER PROMPT"
    with begun(place, slack):
        await _there(slack.connected)
        for text, told in (("hello", usage), ("start", usage), ("start nobody do it", "nobody")):
            slack.ephemerals.clear()
            await _there(slack.write, ADA, text)
            await _there(slack.ephemeral, told)
    assert slack.cards(None, "") == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"SLACK_BOT_TOKEN": ""}, "SLACK_BOT_TOKEN is not set"),
        ({"SLACK_APP_TOKEN": BOT_TOKEN}, "SLACK_APP_TOKEN does not begin with xapp-"),
        ({"SLACK_BOT_TOKEN": "xoxb-wrong-wrong"}, "Slack refuses 'auth.test': invalid_auth"),
        ({"SLACK_APP_TOKEN": "xapp-wrong-wrong"}, "Slack refuses 'apps.connections.open'"),
        ({"SLACK_API_URL": "http://slack.example/api/"}, "SLACK_API_URL cannot be used"),
        ({"SLACK_API_URL": "https://127.0.0.1:1/api/"}, "Look whether this machine reaches slack.com"),
    ],
)
async def test_a_door_that_cannot_begin_says_why_and_no_token(
    place: Place, slack: FakeSlack, wrong: dict[str, str], told: str
) -> None:
    writer(place)
    environment = variables(place, slack, **wrong)
    done = await _there(said, environment, "--workshop", str(place.folder))
    assert done.returncode != 0
    assert told in done.stderr
    assert "asking in" not in done.stderr
    assert "Traceback" not in done.stderr
    for token in (BOT_TOKEN, APP_TOKEN, "wrong-wrong"):
        assert token not in done.stdout + done.stderr


@pytest.mark.thorough
async def test_a_channel_that_is_none_or_that_the_app_is_not_in_is_named(place: Place, slack: FakeSlack) -> None:
    place.workshop()
    environment = variables(place, slack)
    named = "--workshop", str(place.folder)
    for flags, told in (
        ((), "no channel of Slack is named"),
        (("--address", "127.0.0.1:1"), "no channel of Slack is named"),
        (("--channel", "#general"), "'#general' is no channel"),
        (("--channel", "C0ELSEWHERE"), "channel_not_found"),
    ):
        done = await _there(said, environment, *flags, *named)
        assert (done.returncode != 0, told in done.stderr) == (True, True), done.stderr
    assert slack.problems.pop() == "conversations.history: channel_not_found"


@pytest.mark.thorough
async def test_a_long_call_is_shown_in_part_and_approving_it_asks_again(place: Place, slack: FakeSlack) -> None:
    writer(place, write_call("/a.txt", "line\n" * 10_000), "Done.")
    run = await place.start("writer")
    with begun(place, slack):
        card = await _there(slack.card, run, "a1")
        assert "This is not all of it" in shown(card)
        (button,) = [one for one in card["blocks"][-1]["elements"] if one["action_id"] == APPROVE]
        assert "not shown" in button["confirm"]["title"]["text"]
        await _there(slack.click, ADA, card, APPROVE)
        await place.client.result(run)


@pytest.mark.thorough
@pytest.mark.extension("review")
async def test_a_review_lists_its_changes_and_is_accepted_where_their_lines_are_read(
    place: Place, slack: FakeSlack
) -> None:
    place.workshop(slack=PEOPLE, check_command="false", ui_url="https://page.example")
    place.write("old.txt", "".join(f"line {number}\n" for number in range(40)))
    edit = call("edit_file", path="/old.txt", old_text="line 2\nline 3\n", new_text="LINE\n")
    new = [write_call(f"/new/{number:02}.txt", "a\nb\n") for number in range(20)]
    turns = [edit, *new], "Done.", "Pity."
    place.worker("writer", scripted(*turns), toolsets={"filesystem": {}}, review="changes")
    run = await place.start("writer")
    with begun(place, slack):
        card = await _there(slack.card, run, "a1")
        lines = shown(card).splitlines()
        assert "review 1: 22 changes (21 added, 1 modified)" in lines
        listed = lines[lines.index("check failed: false") + 1 :]
        assert listed[:2] == ["added new: folder", "added new/00[.]txt: +2 -0 lines"]
        assert listed[20] == "… 2 more"
        assert f"on the page or with `llm-do-temporal review {run}`" in listed[21]
        assert actions(card) == [REJECT, OPEN]
        await _there(slack.click, BOB, card, REJECT)
        await _there(slack.until, lambda: slack.forms, "the form opens")
        await _there(slack.fill, BOB, "too much")
        rejected = await _there(lambda: slack.card(run, "a1", says="rejected by bob via slack"))
        assert "llm-do-temporal review" not in shown(rejected)
        assert (await place.client.result(run)).output == "Pity."
    assert not (place.folder / "new").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("connections", [0, 1])
async def test_a_connection_that_was_refused_is_tried_at_a_new_address(
    place: Place, slack: FakeSlack, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_RENEWAL_SECONDS", 0.1)  # the SDK alone waits ten seconds between two attempts
    place.workshop(slack=PEOPLE)
    channel = SlackChannel(app.web_client(BOT_TOKEN, slack.environment["SLACK_API_URL"]), CHANNEL)
    service = DoorService(place.client, place.folder)
    slack.refused_connections = 1 - connections
    serving = asyncio.create_task(app.serve(service, place.folder, channel, APP_TOKEN, None, lambda: None))
    try:
        if connections:
            await _there(slack.connected)
            slack.refused_connections = 1
            await _there(slack.hang_up)
        await _there(slack.connected)
        assert slack.refused_connections == 0
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.thorough
async def test_a_lost_connection_comes_back(place: Place, slack: FakeSlack) -> None:
    writer(place)
    run = await place.start("writer")
    with begun(place, slack):
        card = await _there(slack.card, run, "a1")
        await _there(slack.connected)
        await _there(slack.hang_up)
        await _there(slack.connected)
        await _there(slack.click, ADA, card, APPROVE)
        assert (await place.client.result(run)).output == "Done."
    assert CHANNEL in str(slack.calls)


async def test_cards_of_runs_that_are_over_are_forgotten_beyond_a_bound(
    place: Place, slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MOST_FINISHED", 1)
    writer(place)
    door, runs = InSlack(place, slack), list[str]()
    for _ in range(3):
        run = await place.start("writer")
        runs.append(run)
        await place.pending(run)
        while not slack.cards(run, "a1"):
            await door.board.round()  # the server lists a run a moment after it asks
        await place.decide(run)
        await place.client.result(run)
        while run not in door.board.told_runs:
            await door.board.round()
    assert door.board.told_runs == runs[-1:]
    assert len(slack.cards()) >= len(runs)
    before = len(slack.cards())
    await door.board.round()
    assert (door.board.told_runs, len(slack.cards())) == (runs[-1:], before)


async def test_a_card_says_which_item_its_question_is_about(place: Place) -> None:
    place.worker("main", scripted(write_call("/a.txt"), "Done."), toolsets={"filesystem": {}})
    batch = Batch(items=(BatchItem(name="1", prompt="Reply to Bob"),))
    run = await place.start("main", prompt="Be brief.", batch=batch)
    (question,) = await place.pending(run, 1)
    blocks = app.question_card(document_of(question), "", None)["blocks"]
    sections = [one["text"]["text"].replace("[.]", ".") for one in blocks if one["type"] == "section"]
    assert "Reply to Bob: Be brief." in sections
    await place.client.cancel(run)
