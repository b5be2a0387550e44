"""Signals that a run cannot take: they change nothing, and people see that they came, and why nothing followed."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any, cast

import pytest
from rich.console import Console
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import RawValue

from llm_do_temporal.cli.reports.show import read_record, record_json, render_record
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.desk.state import KEPT_IGNORED
from llm_do_temporal.messages.base import (
    DECIDE_SIGNAL,
    DECIDE_UPDATE,
    REVOKE_GRANT_SIGNAL,
)
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.runs.parked import start_parked, write_call
from tests.support.runs.place import Place

WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "another key": (({"id": "a1", "decision": "reject", "reason": "no"},), "reason"),
    "another word": (({"id": "a1", "decision": "Approve"},), "decision"),
    "one key too many": (({"id": "a1", "decision": "approve", "sure": True},), "sure"),
    "a text": (("approve",), "decision"),
    "nothing": ((), "decision"),
    "two values": (({"decision": "approve"}, {"decision": "approve"}), "decision"),
    "no such question": (({"id": "a7", "decision": "approve"},), "a7"),
    "escapes": (({"id": "\x1b[31ma1\u202e", "decision": "approve"},), "approval"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.extension("export")
async def test_an_ignored_signal_is_shown_where_people_look(place: Place, name: str) -> None:
    from llm_do_temporal.extensions.export.log import log_lines

    payload, words = WRONG[name]
    run, _ = await start_parked(place, write_call(), "Done.")
    await place.signal(run, *payload)
    ada = await signed_in_browser(place)
    await page_with(ada, f"/runs/{run}", "1 signal was ignored")
    await place.decide(run)
    await place.client.result(run)
    view, _, story = await read_record(place.client, run)
    (node,) = view.ordered
    (reason,) = node.ignored
    assert words in reason
    (shown,) = record_json(await place.client.status(run), view, [], story)["invocations"]
    assert shown["ignored"] == [reason]
    console = Console(width=400, file=io.StringIO())
    console.print(render_record(await place.client.status(run), view, [], datetime(2030, 1, 1), story))
    text = cast("io.StringIO", console.file).getvalue()
    assert "ignored signals" in text
    assert "\x1b[31m" not in text
    follower = Follower(place.client.temporal, run, wait=False)
    lines = [line async for event in follower.events() for line in log_lines(event)]
    assert sum("a signal was ignored: " in line for line in lines) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("data", [b"[" * 2_000 + b"]" * 2_000, b'{"id":' * 5_000 + b"1" + b"}" * 5_000, b"\xff", b"{"])
async def test_a_signal_that_no_reader_can_read_harms_nobody(place: Place, data: bytes) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    handle = place.client.temporal.get_workflow_handle(run)
    for name in (DECIDE_SIGNAL, REVOKE_GRANT_SIGNAL, "nonsense"):
        await handle.signal(name, RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data)))
    (asked,) = await place.client.approvals(run)
    assert asked.id == "a1"
    assert run in {one.run for one in (await place.client.all_approvals()).questions}
    await place.decide(run)
    await place.client.result(run)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("payload", [{"decision": "Approve", "id": 7}, "approve", None, [1]])
async def test_an_update_that_is_no_decision_is_refused_in_our_words(place: Place, payload: Any) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await place.client.temporal.get_workflow_handle(run).execute_update(DECIDE_UPDATE, payload)
    assert "malformed" in str(caught.value.cause)
    assert "pydantic" not in str(caught.value.cause)
    await place.decide(run)
    await place.client.result(run)


@pytest.mark.thorough
async def test_a_flood_of_wrong_signals_fills_no_history(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    for number in range(KEPT_IGNORED + 20):
        await place.signal(run, {"id": f"a{number + 2}", "decision": "approve"})
    await place.decide(run)
    await place.client.result(run)
    view, _, _ = await read_record(place.client, run)
    assert len(view.ordered[0].ignored) == KEPT_IGNORED
