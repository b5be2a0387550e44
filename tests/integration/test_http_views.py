"""Views and further attempts at the HTTP door: trees, lists, files, items, retries, decisions taken back."""

from __future__ import annotations

import base64

import pytest

from llm_do_temporal.doors.principal import TokenScope
from llm_do_temporal.storage.blobs import blob_folder
from llm_do_temporal.testing import call, scripted
from tests.support.doors.http_client import person, program
from tests.support.runs.delegation import delegation_to
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place

DECK = {"name": "deck.txt", "content": base64.b64encode(b"seven slides").decode()}
START = frozenset({TokenScope.START, TokenScope.READ})


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
