"""Telling people: what is told to whom, signed, once; and that nobody waits for those who do not listen."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from llm_do_temporal.client.embedded.server import any_free_port
from llm_do_temporal.errors import RunAborted
from llm_do_temporal.messages.activities import NOTIFY
from llm_do_temporal.testing import scripted
from llm_do_temporal.workflows.run import notifications
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place
from tests.support.servers.receiver import Receiver, Told

SECRET = "correct horse"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "notify.md"


@pytest.fixture(autouse=True)
def _all_the_time_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine is no target that does not answer."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setattr(notifications, "FAREWELL", timedelta(minutes=2))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def target(url: str, **more: Any) -> dict[str, Any]:
    return {"url": url, "secret_env": "HOOK_SECRET", **more}


def events(receiver: Receiver) -> list[str]:
    """What was told, in order; the end of a run, which is told beside everything else, last."""
    return sorted((told.event for told in receiver.told), key=lambda event: event.startswith("run."))


def verify(told: Told) -> bool:
    """What docs/how-to/notify.md gives to whoever receives it, run as it stands there."""
    code = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    return bool(names["is_ours"](_Headers(told.headers), told.body, SECRET))


class _Headers(dict[str, str]):
    """Headers as web frameworks have them, whatever the case of a name."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__(headers)

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


async def test_a_question_its_decision_and_the_end_are_told_in_order(place: Place, receiver: Receiver) -> None:
    place.workshop(notify=[target(receiver.url)], ui_url="https://approvals.example.com/")
    run, _ = await start_parked(place, write_call(), "Done.")
    asked = (await asyncio.to_thread(receiver.wait_for, "approval.requested")).json
    assert asked["id"].endswith("-approval.requested-a1")
    assert asked["link"] == f"https://approvals.example.com/runs/{run}/approvals/a1"
    assert {name: asked[name] for name in ("run", "worker", "approval", "path", "tool", "summary")} == {
        "run": run,
        "worker": "main",
        "approval": "a1",
        "path": "main",
        "tool": "write_file",
        "summary": "write_file /a.txt (2 bytes)",
    }
    await place.decide(run, "reject", note="not today", by="ada")
    await place.client.result(run)
    assert events(receiver) == ["approval.requested", "approval.decided", "run.completed"]
    decided, ended = (receiver.wait_for(event).json for event in ("approval.decided", "run.completed"))
    assert [decided[name] for name in ("decision", "by", "note")] == ["reject", "ada", "not today"]
    assert ended["link"] == f"https://approvals.example.com/runs/{run}"
    assert all(verify(told) for told in receiver.told)
    assert not any("content" in told.json for told in receiver.told)


async def test_a_changed_request_is_not_ours(place: Place, receiver: Receiver) -> None:
    place.workshop(notify=[target(receiver.url, events=["run.completed"])])
    place.worker("main", scripted("Done."))
    await place.run("main")
    (told,) = receiver.told
    assert verify(told)
    assert not verify(Told(told.path, told.headers, told.body + b" "))
    old = {**told.headers, "x-llmdo-timestamp": "1700000000"}
    signature = hmac.new(SECRET.encode(), b"1700000000." + told.body, hashlib.sha256).hexdigest()
    assert not verify(Told(told.path, {**old, "x-llmdo-signature": f"v1={signature}"}, told.body))


async def test_what_is_refused_for_a_moment_is_told_again_under_the_same_id(place: Place) -> None:
    with Receiver(statuses={"approval.requested": [503]}) as receiver:
        place.workshop(notify=[target(receiver.url, events=["approval.requested"])])
        run, _ = await start_parked(place, write_call(), "Done.")
        await place.decide(run, by="ada")
        assert (await place.client.result(run)).output == "Done."
        first, second = receiver.told
    assert first.body == second.body
    assert {told.headers["x-llmdo-id"] for told in receiver.told} == {first.json["id"]}
    assert all(verify(told) for told in receiver.told)


async def test_what_is_refused_for_good_and_redirects_are_not_told_again(place: Place, receiver: Receiver) -> None:
    statuses = {"approval.requested": [410], "approval.decided": [307]}
    with Receiver(statuses=statuses, headers={"Location": receiver.url}) as elsewhere:
        place.workshop(notify=[target(elsewhere.url)])
        run, _ = await start_parked(place, write_call(), "Done.")
        await place.decide(run)
        await place.client.result(run)
        assert events(elsewhere) == ["approval.requested", "approval.decided", "run.completed"]
    assert not receiver.told


async def test_a_dead_target_holds_up_neither_decisions_nor_the_end(
    place: Place, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "FAREWELL", timedelta(seconds=1))
    place.workshop(notify=[target(f"http://127.0.0.1:{any_free_port()}/"), target(receiver.url)])
    run, _ = await start_parked(place, write_call(), "Done.")
    await asyncio.to_thread(receiver.wait_for, "approval.requested")
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."


async def test_cancelling_a_run_that_only_waits_for_a_target_leaves_its_result(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver(hold="run.completed") as receiver:
        place.workshop(notify=[target(receiver.url)])
        place.worker("main", scripted("Done."))
        run = await place.start("main")
        await asyncio.to_thread(receiver.wait_for, "run.completed")
        await place.client.cancel(run)
        assert (await place.client.result(run)).output == "Done."


@pytest.mark.parametrize("content", [False, True])
async def test_content_leaves_the_house_only_where_that_is_wanted(
    place: Place, receiver: Receiver, *, content: bool
) -> None:
    place.workshop(notify=[target(receiver.url, content=content)], on_refusal="abort")
    run, _ = await start_parked(place, write_call(content="the secret plan"), "Done.")
    await place.decide(run, "reject", note="no")
    with pytest.raises(RunAborted):
        await place.client.result(run)
    assert events(receiver) == ["approval.requested", "approval.decided", "run.failed"]
    assert {told.event for told in receiver.told if b"secret plan" in told.body} == (
        {"approval.requested", "approval.decided"} if content else set()
    )
    failed = receiver.wait_for("run.failed").json
    assert failed["error"] == "RunAborted"
    assert failed.get("content") == ({"message": "Rejected by a person: no"} if content else None)


async def test_a_remembered_decision_is_told_once(place: Place, receiver: Receiver) -> None:
    place.workshop(notify=[target(receiver.url, events=["approval.requested", "approval.decided"])])
    run, _ = await start_parked(place, write_call(), write_call(), "Done.")
    await place.decide(run, remember="session")
    await place.client.result(run)
    assert events(receiver) == ["approval.requested", "approval.decided"]


@pytest.mark.thorough
async def test_a_reminder_and_the_end_of_its_time_are_told(place: Place, receiver: Receiver) -> None:
    place.workshop(notify=[target(receiver.url)], approvals={"remind_after": "1s", "timeout": "8s"})
    place.worker("main", scripted(write_call(), "Pity."), toolsets=FILESYSTEM)
    await place.run("main")
    assert events(receiver) == ["approval.requested", "approval.reminder", "approval.decided", "run.completed"]
    reminder, decided = (receiver.wait_for(event).json for event in ("approval.reminder", "approval.decided"))
    assert reminder["deadline"] == decided["deadline"]
    assert (decided["decision"], decided["by"], decided["door"]) == ("reject", "timeout", "timer")


async def test_slack_is_told_without_a_ping(place: Place, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_WEBHOOK", receiver.url)
    place.workshop(notify=[{"url_env": "SLACK_WEBHOOK", "format": "slack"}], ui_url="http://127.0.0.1:8400")
    run, _ = await start_parked(place, write_call(path="/<!channel>.txt"), "Done.")
    told = await asyncio.to_thread(receiver.wait_for, "approval.requested")
    assert told.json["text"] == "main asks for approval: write_file: write_file /[&lt;]!channel&gt;.txt (2 bytes)"
    assert told.json["blocks"][-1]["elements"][0]["url"] == f"http://127.0.0.1:8400/runs/{run}/approvals/a1"
    assert b"<" not in told.body
    assert "x-llmdo-signature" not in told.headers
    await place.decide(run)
    await place.client.result(run)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("off", [False, True])
async def test_without_targets_nothing_is_scheduled(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, off: bool
) -> None:
    if off:
        monkeypatch.setenv("LLM_DO_NOTIFY", "off")
        place.workshop(notify=[target("http://127.0.0.1:9/")])
    run, _ = await start_parked(place, write_call(), "Done.")
    await place.decide(run)
    await place.client.result(run)
    (history,) = await place.chain(run)
    kinds = {event.event_type for event in history.events}
    scheduled = {event.activity_task_scheduled_event_attributes.activity_type.name for event in history.events}
    assert NOTIFY.name not in scheduled
    assert EventType.EVENT_TYPE_TIMER_STARTED not in kinds
