"""Problems of the HTTP door: a documented code, what is wrong and where, and what to do about it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.doors.http import app
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.errors import error_classes
from llm_do_temporal.testing import scripted
from tests.support.doors.http_client import Program, Reply, person, waiting, writer
from tests.support.runs.place import Place

PAGE = Path("docs/reference/errors.md")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("path", "key", "step"),
    [
        ("/runs?stat=completed", "stat", "Did you mean 'state'? There are state, worker, who,"),
        ("/runs?State=completed", "State", "Did you mean 'state'?"),
        ("/runs?state=completed&limit=5", "limit", "There are state, worker,"),
        ("/runs?_=1", "_", "There are state,"),
        ("/runs?%00=1", "\0", "There are state,"),
        ("/runs/any?waits=5", "waits", "Did you mean 'wait'? There are wait, seen."),
        ("/runs/any/items?page=2", "page", "There are after, limit."),
        ("/runs/any/events?after=3", "after", "It takes none."),
        ("/workers?exported=1", "exported", "It takes none."),
        ("/comparison?one=a&other=b&an_other=c", "an_other", "Did you mean 'other'?"),
    ],
)
async def test_a_key_of_a_query_that_a_route_does_not_have_is_refused_by_name(
    place: Place, path: str, key: str, step: str
) -> None:
    refused = await person(place).ask("GET", path)
    assert (refused.status, refused.body["code"]) == (422, "UsageError"), refused.body
    assert refused.body["detail"] == f"query.{key}: this route has no such key"
    assert refused.body["next_step"].startswith(step)


@pytest.mark.thorough
async def test_a_query_is_refused_before_anything_is_started_and_to_nobody_without_a_token(place: Place) -> None:
    place.worker("main", scripted("Done."), export=True)
    ada = person(place)
    keyed = {"Idempotency-Key": place.queue}
    refused = await ada.ask("POST", "/runs?dry_run=1", json={"worker": "main"}, headers=keyed)
    assert (refused.status, refused.body["next_step"]) == (422, "It takes none.")
    # A run that it had started would have the key, and refuse another request with it.
    begun = await ada.start("main", "another prompt", key=place.queue)
    assert begun.status == 202, begun.body
    place.started.append(begun.body["run"])
    await ada.until(begun.body["run"], "completed")
    assert (await Program(None, place=place).ask("GET", "/runs?stat=completed")).status == 401


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", ["since", "until"])
@pytest.mark.parametrize("moment", ["0001-01-01", "0001-01-01T00:00:00+23:59", "9999-12-31", "9999999999d", "٣d"])
async def test_a_moment_that_cannot_be_is_refused(place: Place, key: str, moment: str) -> None:
    refused = await person(place).ask("GET", "/runs", params={key: moment})
    assert (refused.status, refused.body["code"]) == (422, "UsageError"), refused.body
    assert refused.body["detail"].startswith(f"{key}: '{moment}' is ")


@pytest.mark.parametrize("content", ["aGVs-_-_bG8=", "!!!!YWJj", "YWJj====ZGVm", "YWJj\n"])
async def test_an_attachment_that_is_not_base64_is_refused_by_name(place: Place, content: str) -> None:
    place.worker("main", scripted("Done."), export=True)
    refused = await person(place).start("main", attachments=[{"name": "deck.txt", "content": content}])
    assert (refused.status, refused.body["code"]) == (422, "UsageError"), refused.body
    assert "attachments.0.content: Value error, the content of 'deck.txt' is not base64" in refused.body["detail"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cost", ["1e999999999", "1e1000000", "NaN", "Infinity", "-1", "1e-999999999", 1e300])
async def test_a_cost_that_nobody_can_count_with_is_refused(place: Place, cost: str | float) -> None:
    place.worker("main", scripted("Done."))
    refused = await person(place).start("main", limits={"cost": cost})
    assert (refused.status, refused.body["code"]) == (422, "UsageError"), refused.body
    assert refused.body["detail"].startswith("body.limits.cost: ")


async def test_a_key_has_1_to_200_characters(place: Place) -> None:
    place.worker("main", scripted("Done."))
    ada = person(place)
    for key in ("", "k" * 201):
        refused = await ada.start("main", key=key)
        assert (refused.status, refused.body["code"]) == (422, "UsageError"), refused.body
        assert refused.body["detail"].startswith("header.Idempotency-Key: ")
    started = await ada.start("main", key=place.queue.ljust(200, "k"))
    place.started.append(started.body["run"])
    assert started.status == 202


@pytest.mark.sampled(1)
@pytest.mark.parametrize("filtered", ["", "&text=deck", "&state=waiting"])
@pytest.mark.parametrize("part", ["anVuaw==", base64.b64encode(b"x" * 1_000).decode(), "MTI=", None, True])
async def test_a_forged_page_of_the_list_is_refused(place: Place, part: str | bool | None, filtered: str) -> None:
    forged = json.dumps({"part": part, "after": "", "in_vain": 0}).encode()
    refused = await person(place).ask("GET", f"/runs?page={base64.urlsafe_b64encode(forged).decode()}{filtered}")
    assert (refused.status, refused.body["code"]) == (422, "UsageError"), refused.body
    assert refused.body["detail"] == "this address does not name a part of the list"
    assert refused.body["next_step"] == "Begin again with the first part."


async def broken(_service: DoorService, _who: Principal) -> list[Any]:
    raise ZeroDivisionError("secret")


async def too_much() -> AsyncGenerator[bytes]:
    for _ in range(20):
        yield b" " * 100


async def problems(place: Place, monkeypatch: pytest.MonkeyPatch) -> list[Reply]:
    """Return one problem of each kind that a request alone can bring about."""
    monkeypatch.setattr(app, "MAX_BODY_BYTES", 1_000)
    monkeypatch.setattr(DoorService, "workers", broken)
    ada, nobody = person(place), Program(None, place=place)
    writer(place)
    run = await waiting(place, ada)
    decision, json = f"/runs/{run}/questions/a1/decision", {"decision": "approve"}
    replies = [
        await nobody.ask("GET", "/runs"),
        await ada.ask("GET", "/nothing"),
        await ada.ask("GET", "/runs/nothing"),
        await ada.ask("DELETE", "/runs"),
        await ada.ask("POST", "/docs"),
        await ada.ask("POST", "/runs", content=b"{"),
        await ada.ask("POST", "/runs", content=too_much(), headers={"Content-Type": "application/json"}),
        await ada.ask("POST", "/runs", json={"worker": "main", "prompt": "a" * 2_000}),
        await ada.ask("POST", "/runs", json={"worker": ""}),
        await ada.ask("GET", "/runs", headers=[("If-Match", "1"), ("If-Match", "2")]),
        await ada.ask("POST", decision, json=json),
        await ada.ask("POST", decision, json=json, headers={"If-Match": '"0"'}),
        await ada.ask("GET", "/workers"),
        await person(place, "bob", frozenset()).ask("GET", "/runs"),
    ]
    assert (await ada.decide(run, "a1")).status == 200
    await ada.until(run, "completed")
    return [*replies, await ada.decide(run, "a1")]


async def test_every_problem_has_a_documented_code_and_a_next_step(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = await problems(place, monkeypatch)
    told = PAGE.read_text(encoding="utf-8")  # noqa: ASYNC240 - the page is small
    for reply in replies:
        code, step = reply.body["code"], reply.body["next_step"]
        assert code in error_classes(), reply.body
        assert re.search(rf"^\| {reply.status} \|.*`{code}`", told, re.MULTILINE), reply.body
        assert (bool(step), bool(reply.body["detail"])) == (True, True), reply.body
        assert "secret" not in str(reply.body)
    statuses = {reply.status for reply in replies}
    assert statuses == {400, 401, 403, 404, 405, 409, 412, 413, 422, 428, 500}


async def test_who_has_no_token_is_told_how_to_get_one(place: Place) -> None:
    refused = await Program(None, place=place).ask("GET", "/runs")
    assert (refused.body["code"], refused.body["next_step"]) == (
        "AccessRefused",
        "`llm-do-temporal token create` makes one.",
    )
