"""Reviews at the HTTP door: read change by change, and answered in parts by people and by programs of others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from llm_do_temporal.testing import call, scripted
from tests.support.dialects.answers import Answer, asks, says
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.doors.http_client import Program, Reply, person, program
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place

OLD = "".join(f"line {number}\n" for number in range(1, 41))


def proposer(place: Place, *turns: object) -> None:
    """Write an exported worker that proposes a new file, one in a folder, and two changes of an old one."""
    (place.folder / "old.txt").write_text(OLD)
    edits = [
        call("edit_file", path="/old.txt", old_text=f"line {number}\n", new_text=f"LINE {number}\n")
        for number in (2, 38)
    ]
    turns = turns or ([write_call("/a.txt"), write_call("/sub/b.txt"), edits[0]], edits[1], "Done.", "Pity.")
    place.worker("writer", scripted(*turns), toolsets={"filesystem": {}}, export=True, review="changes")  # pyright: ignore[reportArgumentType]


async def reviewed(place: Place, who: Program) -> tuple[str, Any]:
    """Return a run of this program that waits for its review, and that review."""
    run = (await who.start("writer")).body["run"]
    place.started.append(run)
    await who.until(run, "waiting")
    (head,) = (await who.ask("GET", f"/runs/{run}/reviews")).body
    return run, head


async def answer(who: Program, run: str, head: Any, tag: str | None = None, **parts: Any) -> Reply:
    """Answer a review as it was read."""
    headers = {"If-Match": f'"{head["digest"]}"' if tag is None else tag}
    return await who.ask("POST", f"/runs/{run}/reviews/{head['id']}/answer", json=parts, headers=headers)


async def test_a_review_tells_each_change_with_its_lines_and_who_made_it(place: Place) -> None:
    proposer(place)
    ada = person(place)
    run, head = await reviewed(place, ada)
    assert head["counts"] == {"added": 3, "modified": 1, "total": 4}
    assert (head["section"], head["is_open"], head["number"]) == ("ordinary", True, 1)
    path = f"/runs/{run}/reviews/{head['id']}"
    shown = await ada.ask("GET", path)
    assert shown.headers["etag"] == f'"{head["digest"]}"'
    kinds = {one["path"]: one["kind"] for one in shown.body["changes"]}
    assert kinds == {"a.txt": "added", "old.txt": "modified", "sub": "added", "sub/b.txt": "added"}
    lines = (await ada.ask("GET", f"{path}/change", params={"path": "old.txt", "why": True})).body
    assert [hunk["old_start"] for hunk in lines["hunks"]] == [0, 34]
    assert "+LINE 2\n" in lines["hunks"][0]["lines"]
    assert lines["is_divisible"]
    assert lines["author"]["invocation"] == "main"
    assert lines["words"] is not None
    content = await ada.ask("GET", f"{path}/content", params={"path": "old.txt", "side": "base"})
    assert (content.body, content.headers["content-disposition"]) == (OLD, "attachment")
    patch = await ada.ask("GET", f"/runs/{run}/patch")
    assert "+LINE 38" in patch.body
    for wrong in ("nothing.txt", "../a.txt", "/a.txt"):
        assert (await ada.ask("GET", f"{path}/change", params={"path": wrong})).status == 404
        assert (await ada.ask("GET", f"{path}/content", params={"path": wrong})).status == 404
    assert (await ada.ask("GET", f"/runs/{run}/reviews/a9")).status == 404
    await place.client.cancel(run)


async def test_files_and_hunks_are_accepted_and_others_are_not_with_reasons(place: Place) -> None:
    proposer(place)
    ada = person(place)
    run, head = await reviewed(place, ada)
    changed = await ada.ask("GET", f"/runs/{run}/reviews/{head['id']}/change", params={"path": "old.txt"})
    hunk = changed.body["hunks"][0]["id"]
    comment = {"path": "sub/b.txt", "line": 1, "text": "say more"}
    answered = await answer(
        ada, run, head, accept=["a.txt"], hunks={"old.txt": [hunk]}, reject=["sub/"], comments=[comment]
    )
    assert answered.status == 200, answered.body
    assert [(vote["decision"], vote["by"], vote["via"]) for vote in answered.body["votes"]] == [
        ("modify", "ada", "http")
    ]
    again = await answer(ada, run, head, all=True)
    assert (again.status, "by ada" in again.body["detail"]) == (409, True)
    assert (await ada.until(run, "completed"))["output"] == "Pity."
    assert (place.folder / "a.txt").read_text() == "hi"
    text = (place.folder / "old.txt").read_text()
    assert ("LINE 2\n" in text, "LINE 38\n" in text) == (True, False)
    assert not (place.folder / "sub").exists()


@pytest.mark.thorough
async def test_a_file_is_accepted_by_the_name_that_is_shown_and_no_other_one(place: Place) -> None:
    (place.folder / "Y").mkdir()
    proposer(place, [write_call("/Y/d\u200b.txt", "evil"), write_call("/Y/d\\u200b.txt", "good")], "Done.", "Pity.")
    ada = person(place)
    run, head = await reviewed(place, ada)
    comment = {"path": 'Y/"d\\u200b.txt"', "text": "a strange name"}
    answered = await answer(ada, run, head, all=True, reject=['Y/"d\\u200b.txt"'], comments=[comment])
    assert answered.status == 200, answered.body
    await ada.until(run, "completed")
    assert {one.name: one.read_text() for one in (place.folder / "Y").iterdir()} == {"d\\u200b.txt": "good"}


async def test_everything_is_accepted_or_an_edited_file_or_nothing_with_a_note(place: Place) -> None:
    proposer(place)
    ada = person(place)
    run, head = await reviewed(place, ada)
    answered = await answer(ada, run, head, all=True, edits={"a.txt": "ho"})
    assert answered.status == 200, answered.body
    # The model is told of what a person has changed, and has the last word.
    assert (await ada.until(run, "completed"))["output"] == "Pity."
    assert (place.folder / "a.txt").read_text() == "ho"
    assert "LINE 38\n" in (place.folder / "old.txt").read_text()

    proposer(place)
    run, head = await reviewed(place, ada)
    answered = await answer(ada, run, head, note="not today")
    assert answered.body["votes"][0]["decision"] == "reject", answered.body
    await ada.until(run, "completed")
    assert "LINE 38\n" not in (place.folder / "old.txt").read_text()


async def test_a_review_is_answered_as_it_was_shown_and_by_nobody_for_a_program_of_ones_own(place: Place) -> None:
    proposer(place)
    ci, ada = program(place), person(place)
    run, head = await reviewed(place, ci)
    path = f"/runs/{run}/reviews/{head['id']}/answer"
    assert (await ada.ask("POST", path, json={"all": True})).status == 428
    for tag in ('"0"', "*", head["digest"], 'W/"' + head["digest"] + '"'):
        assert (await answer(ada, run, head, tag, all=True)).status == 412, tag
    refused = await answer(ci, run, head, all=True)
    assert (refused.status, refused.body["code"]) == (403, "AccessRefused")
    assert (await ada.ask("GET", f"/runs/{run}/reviews")).body == [head]
    assert not (place.folder / "a.txt").exists()
    bot = program(place, "bot")
    assert (await answer(bot, run, head, all=True)).status == 200
    await ada.until(run, "completed")


WRONG: list[tuple[int, dict[str, Any]]] = [
    (422, {}),
    (422, {"note": " "}),
    (422, {"note": "no", "all": True}),
    (422, {"all": True, "unknown": 1}),
    (422, {"all": "perhaps"}),
    (422, {"hunks": {"old.txt": "abc"}}),
    (422, {"edits": {"a.txt": 3}}),
    (422, {"rest": "burn", "all": True}),
    (422, {"comments": [{"path": "a.txt", "line": 0, "text": "x"}]}),
    (422, {"all": True, "accept": ["a.txt"]}),
    (422, {"all": True, "accept": ["sub/"]}),
    (422, {"all": True, "reject": ["/"]}),
    (422, {"accept": ["sub"], "reject": ["sub/"]}),
    (422, {"accept": ["a.txt", "sub/b.txt"], "reject": ["sub"]}),
    (422, {"accept": ["a.txt"], "reject": ["a.txt"]}),
    (422, {"all": True, "edits": {"a.txt": "ho"}, "reject": ["a.txt"]}),
    (422, {"all": True, "edits": {"sub/b.txt": "ho"}, "reject": ["sub"]}),
    (409, {"accept": ["../a.txt"]}),
    (409, {"accept": ["/a.txt"]}),
    (409, {"accept": ["a.txt\0"]}),
    (409, {"accept": ["nothing/"]}),
    (409, {"accept": ["a.txt"], "reject": ["b.txt"]}),
    (409, {"hunks": {"old.txt": ["0123456789"]}}),
    (409, {"hunks": {"a.txt": ["0123456789"]}}),
    (409, {"edits": {"sub": "text"}}),
    (409, {"all": True, "comments": [{"path": "other.txt", "text": "x"}]}),
]


@pytest.mark.thorough
async def test_an_odd_answer_accepts_nothing(place: Place) -> None:
    proposer(place)
    ada = person(place)
    run, head = await reviewed(place, ada)
    for status, parts in WRONG:
        refused = await answer(ada, run, head, **parts)
        assert (refused.status, bool(refused.body["detail"])) == (status, True), (parts, refused.body)
        title = "The decision cannot be taken." if status == 409 else "The request says something that cannot be."
        assert refused.body["title"] == title
    changed = await ada.ask("GET", f"/runs/{run}/reviews/{head['id']}/change", params={"path": "old.txt"})
    hunks = {"old.txt": [changed.body["hunks"][0]["id"]]}
    contradictions: list[dict[str, Any]] = [
        {"accept": ["old.txt"]},
        {"all": True, "reject": ["old.txt"]},
        {"edits": {"old.txt": "ho"}},
    ]
    for parts in contradictions:
        refused = await answer(ada, run, head, **parts, hunks=hunks)
        assert (refused.status, "'old.txt' is accepted" in refused.body["detail"]) == (422, True), refused.body
    assert (await ada.ask("GET", f"/runs/{run}/reviews")).body == [head]
    assert not (place.folder / "a.txt").exists()
    other = program(place, "other")
    assert (await answer(program(place, "blind", frozenset()), run, head, all=True)).status == 403
    assert (await other.ask("GET", f"/runs/{run}/reviews")).status == 200
    await place.client.cancel(run)


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}, "review": "changes"}


def _turns(worker: str, *, structured: bool) -> list[Answer]:
    def write(text: str) -> Answer:
        return asks("write_file", path=f"/{worker}.txt", content=text)

    end = (asks("final_result", n=1), asks("final_result", n=2)) if structured else (says("One."), says("Two."))
    return [write("one"), end[0], write("two"), asks("submit_changes"), end[1]]


async def _played(place: Place, worker: str) -> Any:
    run = await place.start(worker)
    (question,) = await place.pending(run)
    await place.decide(run, "reject", id=question.id, note="say two")
    (again,) = await place.pending(run)
    await place.decide(run, id=again.id)
    return (await place.client.result(run)).output


@pytest.mark.thorough
async def test_a_model_goes_on_after_its_last_answer_where_that_is_not_accepted(
    place: Place, providers: Providers
) -> None:
    workers = {f"{one}-{kind}": one for one in ADAPTERS for kind in ("text", "data")}
    aliases = {
        worker: providers.alias(adapter, worker, *_turns(worker, structured=worker.endswith("data")))
        for worker, adapter in workers.items()
    }
    place.workshop(models=aliases, live_text=False)
    for worker in workers:
        shape: dict[str, Any] = {"output_schema": SCHEMA} if worker.endswith("data") else {}
        place.worker(worker, worker, **FILES, **shape)
    came = dict(zip(workers, await asyncio.gather(*(_played(place, one) for one in workers)), strict=True))

    scripts = {worker: providers.scripts[worker] for worker in workers}
    assert {worker: script.complaints for worker, script in scripts.items() if script.complaints} == {}
    assert came == {worker: {"n": 2} if worker.endswith("data") else "Two." for worker in workers}
    for worker, script in scripts.items():
        assert "say two" in json.dumps(script.requests[2])
        assert "Everything was accepted and is made: 1 changed path." in json.dumps(script.requests[-1])
        assert (place.folder / f"{worker}.txt").read_text() == "two"
