"""The HTTP door: real runs, started, followed and decided by programs that have a token and nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

from llm_do_temporal.doors.http import app
from llm_do_temporal.doors.principal import Principal, TokenFile, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.errors import error_classes
from llm_do_temporal.storage.blobs import blob_folder
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.invocation import conversation
from tests.support.doors.http_client import Program, Reply, person, program, waiting
from tests.support.runs.delegation import delegation_to
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place

READ = frozenset({TokenScope.READ})
START = frozenset({TokenScope.START, TokenScope.READ})
DECK = {"name": "deck.txt", "content": base64.b64encode(b"seven slides").decode()}


def writer(place: Place, *turns: object, **keys: object) -> None:
    """Write an exported worker that asks before it writes."""
    keys = {"toolsets": {"filesystem": {}}, "export": True, **keys}
    place.worker("writer", scripted(*(turns or (write_call("/a.txt"), "Done."))), **keys)  # pyright: ignore[reportArgumentType]


def code(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.body["code"]


async def test_a_program_starts_a_run_with_a_file_and_a_person_decides_what_it_asks(place: Place) -> None:
    writer(place, call("read_file", path="/attachments/deck.txt"), write_call("/a.txt"), "Done.")
    ci, ada = program(place, scopes=START), person(place)
    started = await ci.start("writer", "read the deck", attachments=[DECK])
    assert started.status == 202, started.body
    run = started.body["run"]
    place.started.append(run)
    assert started.headers["location"] == f"/api/v1/runs/{run}"
    assert (await ci.until(run, "waiting"))["questions"] == 1
    (asked,) = (await ci.ask("GET", f"/runs/{run}/questions")).body
    assert (asked["tool"], asked["state"]) == ("write_file", "open")
    decided = await ada.decide(run, asked["id"])
    assert decided.status == 200, decided.body
    assert [(vote["by"], vote["via"]) for vote in decided.body["votes"]] == [("ada", "http")]
    ended = await ci.until(run, "completed")
    assert ended["output"] == "Done."
    assert ended["usage"]["requests"] == 3
    assert (place.folder / "a.txt").read_text() == "hi"


async def test_one_key_of_one_owner_starts_one_run(place: Place) -> None:
    writer(place, "Done.")
    ci, other = program(place, scopes=START), program(place, "nightly", START)
    replies = await asyncio.gather(*(ci.start("writer", key=place.queue) for _ in range(4)))
    assert {reply.status for reply in replies} == {202}
    (run,) = {reply.body["run"] for reply in replies}
    theirs = (await other.start("writer", key=place.queue)).body["run"]
    assert theirs != run
    for one, who in ((run, ci), (theirs, other)):
        await who.until(one, "completed")
        place.started.append(one)
    assert (await ci.start("writer", key=place.queue)).body["state"] == "completed"
    writer(place, "Done.")
    place.worker("reader", scripted("Hi."), export=True)
    assert (await ci.start("reader", key=place.queue)).status == 202  # the worker is part of what a key names


SAME: list[dict[str, Any]] = [
    {"worker": "writer", "prompt": "go"},
    {"prompt": "go", "worker": "writer", "params": {}, "items": [], "mode": None, "concurrency": 8},
]
OTHER: list[dict[str, Any]] = [
    {"prompt": "stop"},
    {"prompt": ""},
    {"prompt": "go\n"},
    {"input": {"n": 1}},
    {"input": False},
    {"attachments": [DECK]},
    {"model": "test:other"},
    {"items": [{"name": "one"}]},
]


async def test_a_key_that_was_used_for_another_request_is_refused(place: Place) -> None:
    writer(place, "Done.")
    ci, headers = program(place, scopes=START), {"Idempotency-Key": place.queue}
    first, same = [await ci.ask("POST", "/runs", json=body, headers=headers) for body in SAME]
    place.started.append(first.body["run"])
    assert (first.status, same.status, same.body["run"]) == (202, 202, first.body["run"])
    for changes in OTHER:
        refused = await ci.ask("POST", "/runs", json=SAME[0] | changes, headers=headers)
        assert code(refused) == (422, "UsageError"), changes
        assert refused.body["detail"] == "this key was used before, with another request"
        assert refused.body["next_step"] == "Use another key, or send what was sent with it before."
    await ci.until(first.body["run"], "completed")
    again = await ci.ask("POST", "/runs", json=SAME[1], headers=headers)
    assert (again.status, again.body["run"], again.body["output"]) == (202, first.body["run"], None)
    assert (await ci.ask("POST", "/runs", json=SAME[0] | OTHER[0], headers=headers)).status == 422


async def test_of_two_requests_with_one_key_at_once_one_starts_and_the_other_is_refused(place: Place) -> None:
    writer(place, "Done.")
    token = TokenFile.of_workshop(place.folder).create("ci", START, is_person=False)
    one, two = Program(token, place=place), Program(token, place=place)
    asked = [who.start("writer", prompt, key=place.queue) for who in (one, two) for prompt in ("go", "stop") * 2]
    replies = await asyncio.gather(*asked)
    begun = [reply.body for reply in replies if reply.status == 202]
    (run,) = {body["run"] for body in begun}
    place.started.append(run)
    assert len(begun) == 4
    assert [code(reply) for reply in replies if reply.status != 202] == [(422, "UsageError")] * 4
    assert {body["task"] for body in begun} == {(await one.until(run, "completed"))["task"]}


@pytest.mark.parametrize(
    ("worker", "more"),
    [("templates/brief.yaml", {}), ("reader", {"items": [{"name": f"item {n}"} for n in range(3)]})],
    ids=["a template, whose run is shown by another name", "a batch, which is counted at its end"],
)
async def test_a_run_knows_its_request_to_its_end(place: Place, worker: str, more: dict[str, Any]) -> None:
    place.worker("reader", scripted("Hi."))
    place.write("templates/brief.yaml", f"system: Be brief.\nmodel: {place.script('brief', scripted('Hi.'))}\n")
    ada = person(place)
    run = (await ada.start(worker, key=place.queue, **more)).body["run"]
    place.started.append(run)
    await ada.until(run, "completed")
    same = await ada.start(worker, key=place.queue, **more)
    assert (same.status, same.body["run"]) == (202, run), same.body
    assert code(await ada.start(worker, "other", key=place.queue, **more)) == (422, "UsageError")


MISSPELT = [
    ("opnai:gpt-5", "Did you mean 'openai:gpt-5'?"),
    ("Anthropic:claude-sonnet-5-5", "Did you mean 'anthropic:claude-sonnet-5-5'?"),
    ("test:other, opnai:gpt-5", "Did you mean 'openai:gpt-5'?"),
    ("offline:note", "Did you mean 'offline:notes'?"),
    ("quick", "Did you mean 'google:gemini'?"),
]


async def test_a_model_whose_provider_is_misspelt_starts_nothing(place: Place) -> None:
    writer(place, "Done.")
    place.workshop(models={"quick": "gogle:gemini"})
    for embedded, (model, step) in product((True, False), MISSPELT):
        ci = program(place, f"ci-{embedded}-{MISSPELT.index((model, step))}".lower(), embedded=embedded)
        refused = await ci.start("writer", key=place.queue, model=model)
        assert (code(refused), refused.body["next_step"]) == ((422, "UsageError"), step)
    # A run that it had started would have the key, and refuse another request with it.
    ci = program(place)
    begun = await ci.start("writer", key=place.queue)
    assert begun.status == 202, begun.body
    place.started.append(begun.body["run"])
    await ci.until(begun.body["run"], "completed")


DOUBTED = [
    ("quux:m", "no provider 'quux' is known, of the model 'quux:m': a run may fail for that."),
    ("gpt-5", "the workshop has no alias 'gpt-5': a run may fail for that."),
    ("openai:gpt-5", None),
    ("gateway/openai:gpt-5", None),
    ("fast", None),
]


async def test_a_model_that_only_the_service_may_know_is_warned_of(place: Place) -> None:
    writer(place, "Done.")
    place.workshop(models={"fast": "openai:gpt-5"})
    ci = program(place)
    for number, (model, warning) in enumerate(DOUBTED):
        key = f"monday {number} of {place.queue}"
        begun = await ci.start("writer", key=key, model=model)
        assert begun.status == 202, begun.body
        place.started.append(begun.body["run"])
        warned = [one.partition(" A model")[0].partition(" Known")[0] for one in begun.body["warnings"]]
        assert warned == ([] if warning is None else [warning])
        assert (await ci.start("writer", key=key, model=model)).body["warnings"] == []
        assert (await ci.until(begun.body["run"], "completed"))["warnings"] == []


async def test_who_comes_second_is_told_who_was_first(place: Place) -> None:
    writer(place)
    ada, bob = person(place), person(place, "bob")
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    replies = await asyncio.gather(ada.decide(run, "a1"), bob.decide(run, "a1", "reject", note="no"))
    assert sorted(reply.status for reply in replies) == [200, 409]
    first = "ada" if replies[0].status == 200 else "bob"
    (late,) = [reply for reply in replies if reply.status == 409]
    assert f"by {first}" in late.body["detail"]
    await ada.until(run, "completed")


async def test_a_decision_names_what_was_shown(place: Place) -> None:
    writer(place)
    ada = person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    path = f"/runs/{run}/questions/a1/decision"
    assert (await ada.ask("POST", path, json={"decision": "approve"})).status == 428
    for tag in ('"0"', "*", "", '"' + "a" * 64 + '"'):
        wrong = await ada.ask("POST", path, json={"decision": "approve"}, headers={"If-Match": tag})
        assert wrong.status == 412, tag
    assert not (place.folder / "a.txt").exists()
    changed = await ada.decide(run, "a1", "modify", args={"path": "/b.txt", "content": "ho"})
    assert changed.status == 200, changed.body
    await ada.until(run, "completed")
    assert (place.folder / "b.txt").read_text() == "ho"


async def test_a_program_never_decides_about_what_it_started(place: Place) -> None:
    writer(place)
    ci, bot = program(place), program(place, "bot")
    run = (await ci.start("writer")).body["run"]
    place.started.append(run)
    await ci.until(run, "waiting")
    assert code(await ci.decide(run, "a1")) == (403, "AccessRefused")
    assert not (place.folder / "a.txt").exists()
    assert (await bot.decide(run, "a1")).status == 200
    await ci.until(run, "completed")


async def test_a_program_never_answers_for_people(place: Place) -> None:
    writer(place)
    place.workshop(approvals={"rules": {"sandbox.write": {"ruling": "needs_approval", "approvers": ["ada", "bot"]}}})
    ada, bot = person(place), program(place, "bot")
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    assert code(await bot.decide(run, "a1")) == (403, "AccessRefused")
    assert (await ada.decide(run, "a1")).status == 200
    await ada.until(run, "completed")


async def test_a_program_cannot_ask_for_less_control(place: Place) -> None:
    writer(place)
    ci = program(place)
    less: list[dict[str, Any]] = [{"mode": "approve_all"}, {"mode": "interactive"}, {"limits": {"turns": 1000}}]
    for more in less:
        assert code(await ci.start("writer", **more)) == (403, "AccessRefused")


async def test_programs_know_of_exported_workers_and_of_their_own_runs_alone(place: Place) -> None:
    writer(place)
    place.worker("secret", scripted("Hi."))
    ci, ada, other = program(place, scopes=START), person(place), program(place, "other", START)
    assert [one["name"] for one in (await ci.ask("GET", "/workers")).body] == ["writer"]
    assert {"writer", "secret"} <= {one["name"] for one in (await ada.ask("GET", "/workers")).body}
    for name in ("secret", "nobody", "pkg:worker_bootstrapper", "../secret", "workers/secret.worker", "WRITER"):
        assert code(await ci.start(name)) == (404, "UnknownHere"), name
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    unknown = (await other.ask("GET", "/runs/nothing")).body["detail"].replace("nothing", run)
    for method, path in (
        ("GET", ""),
        ("GET", "?wait=1"),
        ("GET", "/questions"),
        ("GET", "/questions/a1"),
        ("GET", "/events"),
        ("POST", "/cancel"),
    ):
        refused = await other.ask(method, f"/runs/{run}{path}")
        assert (refused.status, refused.body["detail"]) == (404, unknown), path
    listed = await other.ask("GET", "/runs")
    assert (listed.status, listed.body.get("runs")) == (200, []), listed.body
    assert (await other.ask("GET", "/questions")).body == []
    while run not in [one["run"] for one in (await ada.ask("GET", "/questions")).body]:
        pass  # the server lists it a moment after it has it
    assert (await ada.ask("POST", f"/runs/{run}/cancel")).status == 202
    assert (await ada.until(run, "cancelled"))["error"]["code"] == "RunCancelled"


@pytest.mark.thorough
async def test_a_program_lists_the_questions_of_all_its_runs_and_leaves_deleted_ones_out(place: Place) -> None:
    writer(place)
    ci = program(place, scopes=START)
    begun: list[str] = []
    for _ in range(11):
        replies = await asyncio.gather(*(ci.start("writer") for _ in range(10)))
        begun += [reply.body["run"] for reply in replies]
    place.started += begun
    while len(asked := (await ci.ask("GET", "/questions")).body) < len(begun):
        pass  # the server lists a run a moment after it asks
    assert sorted(one["run"] for one in asked) == sorted(begun)

    request = DeleteWorkflowExecutionRequest(namespace=place.client.temporal.namespace)
    request.workflow_execution.workflow_id = begun[0]
    await place.client.temporal.workflow_service.delete_workflow_execution(request)
    place.started.remove(begun[0])
    while True:
        listed = await ci.ask("GET", "/questions")
        assert listed.status == 200, listed.body
        if begun[0] not in [one["run"] for one in listed.body]:
            break
    assert len(listed.body) == len(begun) - 1


async def test_each_scope_opens_what_it_says_and_nothing_else(place: Place) -> None:
    writer(place)
    reader, starter = person(place, "reader", READ), person(place, "starter", frozenset({TokenScope.START}))
    ada = person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    assert (await reader.ask("GET", f"/runs/{run}")).status == 200
    assert code(await reader.start("writer")) == (403, "AccessRefused")
    assert code(await reader.decide(run, "a1")) == (403, "AccessRefused")
    assert code(await reader.ask("POST", f"/runs/{run}/cancel")) == (403, "AccessRefused")
    for path in ("/runs", f"/runs/{run}", f"/runs/{run}/events", "/questions", f"/runs/{run}/questions/a1"):
        assert code(await starter.ask("GET", path)) == (403, "AccessRefused"), path
    assert code(await starter.ask("POST", f"/runs/{run}/cancel")) == (403, "AccessRefused")
    own = (await starter.start("writer")).body["run"]
    place.started.append(own)
    assert (await starter.ask("POST", f"/runs/{own}/cancel")).status == 202
    await ada.until(own, "cancelled")
    assert (await ada.ask("POST", f"/runs/{run}/cancel")).status == 202
    await ada.until(run, "cancelled")


async def test_nobody_comes_in_without_a_token_that_is_known_now(place: Place) -> None:
    writer(place)
    tokens = TokenFile.of_workshop(place.folder)
    token = tokens.create("ada", READ, is_person=True)
    for wrong in (None, "", token[:-1], token + "a", token.upper(), "lldt_", tokens.records()[0].sha256):
        refused = await Program(wrong, place=place).ask("GET", "/runs")
        assert refused.status == 401, wrong
        assert refused.headers["www-authenticate"] == "Bearer"
    ada = Program(token, place=place)
    assert (await ada.ask("GET", "/runs")).status == 200
    tokens.revoke("ada")
    assert (await ada.ask("GET", "/runs")).status == 401


async def test_events_are_the_same_on_every_reading_and_go_on_where_a_reader_was_lost(place: Place) -> None:
    writer(place)
    ada = person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    assert (await ada.decide(run, "a1")).status == 200
    whole = [event async for event in ada.events(run)]
    assert [int(event["id"]) for event in whole[:-1]] == list(range(1, len(whole)))
    assert whole[-1]["event"] == "end"
    assert whole[-1]["data"]["output"] == "Done."
    rest = [event async for event in ada.events(run, after=3)]
    assert rest == whole[3:]


async def test_runs_are_listed_in_pages_and_by_filters(place: Place) -> None:
    writer(place, "Done.")
    ada = person(place)
    runs = [(await ada.start("writer", f"task {n}")).body["run"] for n in range(3)]
    place.started += runs
    for run in runs:
        await ada.until(run, "completed")
    while True:
        listed = (await ada.ask("GET", "/runs", params={"worker": "writer", "text": "task 1"})).body
        if [one["run"] for one in listed["runs"]] == [runs[1]]:
            break
    assert code(await ada.ask("GET", "/runs", params={"state": "asleep"})) == (422, "UsageError")
    assert code(await ada.ask("GET", "/runs", params={"page": "x"})) == (422, "UsageError")


async def test_a_batch_is_a_run_with_items(place: Place) -> None:
    place.worker("reader", scripted("Hi."), export=True)
    ci = program(place)
    items = [{"name": "one", "prompt": "a"}, {"name": "two", "attachments": [DECK]}]
    run = (await ci.start("reader", items=items)).body["run"]
    place.started.append(run)
    assert (await ci.until(run, "completed"))["items"] == {"total": 2, "completed": 2, "failed": 0}


async def test_a_method_that_a_route_does_not_have_is_answered_with_those_that_it_has(place: Place) -> None:
    refused = await person(place).ask("DELETE", "/runs")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, POST")


NO_STARTS: list[object] = [
    {"worker": ""},
    {"worker": "writer", "unknown": 1},
    {"worker": "writer", "prompt": 3},
    {"worker": "writer", "attachments": [{"name": "../x", "content": ""}]},
    {"worker": "writer", "attachments": [{"name": "..", "content": ""}]},
    {"worker": "writer", "attachments": [{"name": "x", "content": "§"}]},
    {"worker": "writer", "attachments": [DECK, DECK]},
    {"worker": "writer", "items": [{"name": "a/b"}]},
    {"worker": "writer", "concurrency": 0},
    [],
    None,
]


async def test_a_start_that_says_something_wrong_starts_nothing(place: Place) -> None:
    writer(place)
    ci = program(place)
    for body in NO_STARTS:
        refused = await ci.ask("POST", "/runs", json=body)
        assert refused.status == 422, refused.body
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.body["detail"]


PAGE = Path("docs/reference/errors.md")


NO_KEYS = [
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
]


async def test_a_key_of_a_query_that_a_route_does_not_have_is_refused_by_name(place: Place) -> None:
    ada = person(place)
    for path, key, step in NO_KEYS:
        refused = await ada.ask("GET", path)
        assert code(refused) == (422, "UsageError"), refused.body
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


async def test_a_moment_that_cannot_be_is_refused(place: Place) -> None:
    ada = person(place)
    moments = "0001-01-01", "0001-01-01T00:00:00+23:59", "9999-12-31", "9999999999d", "٣d"
    for key, moment in product(("since", "until"), moments):
        refused = await ada.ask("GET", "/runs", params={key: moment})
        assert code(refused) == (422, "UsageError"), refused.body
        assert refused.body["detail"].startswith(f"{key}: '{moment}' is ")


async def test_an_attachment_that_is_not_base64_is_refused_by_name(place: Place) -> None:
    place.worker("main", scripted("Done."), export=True)
    ada = person(place)
    for content in ("aGVs-_-_bG8=", "!!!!YWJj", "YWJj====ZGVm", "YWJj\n"):
        refused = await ada.start("main", attachments=[{"name": "deck.txt", "content": content}])
        assert code(refused) == (422, "UsageError"), refused.body
        assert "attachments.0.content: Value error, the content of 'deck.txt' is not base64" in refused.body["detail"]


async def test_a_cost_that_nobody_can_count_with_is_refused(place: Place) -> None:
    place.worker("main", scripted("Done."))
    ada = person(place)
    for cost in ("1e999999999", "1e1000000", "NaN", "Infinity", "-1", "1e-999999999", 1e300):
        refused = await ada.start("main", limits={"cost": cost})
        assert code(refused) == (422, "UsageError"), refused.body
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


async def test_a_forged_page_of_the_list_is_refused(place: Place) -> None:
    ada = person(place)
    parts = "anVuaw==", base64.b64encode(b"x" * 1_000).decode(), "MTI=", None, True
    for part, filtered in product(parts, ("", "&text=deck", "&state=waiting")):
        forged = json.dumps({"part": part, "after": "", "in_vain": 0}).encode()
        refused = await ada.ask("GET", f"/runs?page={base64.urlsafe_b64encode(forged).decode()}{filtered}")
        assert code(refused) == (422, "UsageError"), refused.body
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


async def test_a_run_tells_its_tree_and_what_each_invocation_said_and_spent(place: Place) -> None:
    place.worker("leaf", scripted("Leaf."))
    place.worker("top", scripted(call("leaf", input="go"), "Done."), toolsets=delegation_to("leaf"), export=True)
    ci = program(place, scopes=START)
    run = (await ci.start("top", "begin")).body["run"]
    place.started.append(run)
    await ci.until(run, "waiting", "completed")
    for asked in (await ci.ask("GET", f"/runs/{run}/questions")).body:
        await place.decide(run, id=asked["id"])
    ended = await ci.until(run, "completed")
    tree = (await ci.ask("GET", f"/runs/{run}/tree")).body
    assert [(one["path"], one["worker"], one["state"]) for one in tree["invocations"]] == [
        ("main", "top", "completed"),
        (tree["invocations"][1]["path"], "leaf", "completed"),
    ]
    assert tree["usage"]["requests"] == ended["usage"]["requests"] == 3
    assert sum(one["usage"]["requests"] for one in tree["invocations"]) == 3
    said = (await ci.ask("GET", f"/runs/{run}/transcript")).body
    assert said["before"] is None
    assert [one["text"] for one in said["entries"] if one["kind"] in ("prompt", "text")] == ["begin", "Done."]
    leaf = await ci.ask("GET", f"/runs/{run}/transcript", params={"path": tree["invocations"][1]["path"]})
    assert "Leaf." in [one["text"] for one in leaf.body["entries"]]
    for path in ("main/nobody-1", "../x", "/", "main//x", "%00", "\0"):
        assert (await ci.ask("GET", f"/runs/{run}/transcript", params={"path": path})).status in (404, 422), path
    for part in ("0" * 8 + "-0000-0000-0000-" + "0" * 12, "0" * 36):
        assert (await ci.ask("GET", f"/runs/{run}/transcript", params={"part": part})).status == 404
    assert (await ci.ask("GET", f"/runs/{run}/items")).status == 422
    other = program(place, "other", START)
    for path in ("tree", "transcript", "items"):
        assert (await other.ask("GET", f"/runs/{run}/{path}")).status == 404, path


async def test_items_are_read_in_parts_and_those_that_failed_are_done_again_once_for_each_key(place: Place) -> None:
    place.worker("reader", scripted("Hi."), export=True)
    ci, ada = program(place, scopes=START), person(place)
    items = [{"name": f"item {number}", "input": {"n": number}} for number in range(3)]
    run = (await ci.start("reader", "", items=items)).body["run"]
    place.started.append(run)
    await ci.until(run, "completed")
    first = (await ci.ask("GET", f"/runs/{run}/items", params={"limit": 2})).body
    rest = (await ci.ask("GET", f"/runs/{run}/items", params={"after": first["following"]})).body
    assert (first["following"], rest["following"]) == (2, None)
    assert [(one["item"], one["state"], one["output"]) for one in (*first["items"], *rest["items"])] == [
        (f"item {number}", "completed", "Hi.") for number in range(3)
    ]
    nothing = await ci.ask("POST", f"/runs/{run}/retry")
    assert (nothing.status, "nothing to do" in nothing.body["detail"]) == (422, True)

    def fail(*_: object) -> object:
        raise RuntimeError("no")

    place.worker("reader", scripted(fail, fail, fail, fail, fail, fail, "Hi."), export=True)  # pyright: ignore[reportArgumentType]
    run = (await ci.start("reader", items=[{"name": "one", "prompt": "a"}])).body["run"]
    place.started.append(run)
    ended = await ci.until(run, "completed")
    assert ended["items"] == {"total": 1, "completed": 0, "failed": 1}
    (item,) = (await ci.ask("GET", f"/runs/{run}/items")).body["items"]
    assert (item["state"], bool(item["error"]["message"])) == ("failed", True)
    place.worker("reader", scripted("Hi."), export=True)
    again = [await ci.ask("POST", f"/runs/{run}/retry", headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [one.status for one in again] == [202, 202], again
    assert again[0].body["run"] == again[1].body["run"] != run
    place.started.append(again[0].body["run"])
    assert (await ci.until(again[0].body["run"], "completed"))["items"]["completed"] == 1
    assert again[0].body["started_by"] == "program:ci"

    bot = program(place, "bot")
    refused = await bot.ask("POST", f"/runs/{run}/retry")
    assert (refused.status, refused.body["code"]) == (403, "AccessRefused")
    place.worker("reader", scripted("Hi."))
    assert (await ci.ask("POST", f"/runs/{run}/retry")).status == 404
    mine = await ada.ask("POST", f"/runs/{run}/retry")
    assert mine.status == 202, mine.body
    place.started.append(mine.body["run"])
    await ada.until(mine.body["run"], "completed")


@pytest.mark.thorough
async def test_a_file_whose_store_does_not_answer_is_sent_later(place: Place) -> None:
    place.worker("reader", scripted("Hi."), export=True)
    ci, ada = program(place), person(place)
    run = (await ci.start("reader", attachments=[DECK])).body["run"]
    place.started.append(run)
    await ci.until(run, "completed")
    (file,) = (await ci.ask("GET", f"/runs/{run}/files")).body
    asked = {"params": {"origin": file["origin"], "name": file["name"]}}
    blobs = blob_folder(place.folder)
    away = blobs.rename(blobs.with_name("away"))
    blobs.write_text("in the way")
    for who in (ci, ada):
        refused = await who.ask("GET", f"/runs/{run}/files/content", **asked)
        assert (refused.status, refused.body["code"]) == (503, "BlobsUnreachable"), refused.body
        assert str(place.folder) not in str(refused.body)
    blobs.unlink()
    away.rename(blobs)
    assert (await ci.ask("GET", f"/runs/{run}/files/content", **asked)).body == "seven slides"


@pytest.mark.thorough
async def test_a_decision_that_is_held_is_taken_back_by_whoever_took_it(place: Place) -> None:
    place.worker("writer", scripted(write_call("/a.txt"), "Done."), toolsets=FILESYSTEM, export=True)
    ada, bob, ci = person(place), person(place, "bob"), program(place)
    run = (await ci.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    await place.decide(run, id="a1", by="ada", hold=60)
    held = await ada.ask("GET", f"/runs/{run}/questions/a1")
    assert held.body["state"] == "held"
    seen = {"If-Match": held.headers["etag"]}
    for who, headers, status in (
        (ada, {}, 428),
        (ada, {"If-Match": '"other"'}, 412),
        (bob, seen, 409),
        (ci, seen, 403),
    ):
        assert (await who.ask("POST", f"/runs/{run}/questions/a1/undo", headers=headers)).status == status
    assert (await ada.ask("GET", f"/runs/{run}/questions/a1")).body["state"] == "held"
    undone = await ada.ask("POST", f"/runs/{run}/questions/a1/undo", headers=seen)
    assert (undone.status, undone.body["state"]) == (200, "open"), undone.body
    assert (await ada.ask("POST", f"/runs/{run}/questions/a1/undo", headers=seen)).status == 409
    assert (await bob.decide(run, "a1", "reject", note="no")).status == 200
    await ada.until(run, "completed")
    assert not (place.folder / "a.txt").exists()


TURNS = 60
CALLS = 8
"""Calls of each turn, side by side."""
TURNS_A_RUN = 6


async def read_in_pieces(who: Program, run: str, piece: int) -> tuple[list[Any], int]:
    """Return all events, read over as many connections as it takes to read so many with each, and their number."""
    found: list[Any] = []
    connections = 0
    while True:
        connections += 1
        stream = who.events(run, after=int(found[-1]["id"]) if found else 0)
        async with aclosing(cast("AsyncGenerator[Any]", stream)) as events:
            part = [event async for event in _first(events, piece)]
        found += part
        if part and part[-1]["event"] == "end":
            return found, connections


async def _first(events: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    async for event in events:
        yield event
        count -= 1
        if not count:
            return


@pytest.mark.thorough
@pytest.mark.timeout(600)  # 480 calls: a minute and more on a machine that is busy
async def test_no_event_is_lost_or_told_twice_over_many_connections(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    monkeypatch.setattr(conversation, "TURNS_A_RUN", TURNS_A_RUN)
    place.write("a.txt", "a")
    reads = [[call("read_file", path="/a.txt") for _ in range(CALLS)] for _ in range(TURNS)]
    place.worker("reader", scripted(*reads, "Done."), toolsets=FILESYSTEM, export=True)
    ada = person(place)
    limits = {"turns": TURNS + 10, "tool_calls": TURNS * CALLS + 10}
    started = await ada.start("reader", limits=limits)
    run = started.body["run"]
    place.started.append(run)
    (live, lives), (other, others) = await asyncio.gather(read_in_pieces(ada, run, 150), read_in_pieces(ada, run, 110))
    whole = [event async for event in ada.events(run)]
    assert live == other == whole
    assert [int(event["id"]) for event in whole[:-1]] == list(range(1, len(whole)))
    assert (len(whole) > 1_000, lives > 5, others > 7) == (True, True, True), (len(whole), lives, others)
    assert whole[-1]["data"]["output"] == "Done."
    assert len(await place.chain(run)) >= TURNS // TURNS_A_RUN
