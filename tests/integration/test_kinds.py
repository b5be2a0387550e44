"""Kinds of calls in real runs: entries of the workshop and grants of people, counted and told in the history."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.client import read_kinds
from llm_do_temporal.testing import call, scripted
from tests.support.people.signed_in import signed_in_browser
from tests.support.runs.delegation import delegation_to, template_call, tool_results
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place

NOTES: dict[str, Any] = {"tool": "write_file", "below": "/notes", "suffix": ".md"}


def notes(*names: str) -> list[Any]:
    """Return writes of these notes, all in one turn."""
    return [write_call(f"/notes/{name}") for name in names]


async def test_an_entry_lets_calls_of_the_whole_tree_through_and_stands_in_the_audit(place: Place) -> None:
    place.workshop(approvals={"allow": [{"worker": "sage"}, {**NOTES, "why": "read by people"}]})
    place.worker("sage", scripted(write_call("/notes/deep/b.md"), "Wise."), toolsets=FILESYSTEM)
    main = scripted([*notes("a.md"), write_call("/a.txt"), call("sage", input="go")], "Done.")
    place.worker("main", main, toolsets={**FILESYSTEM, **delegation_to("sage")})
    run = await place.start("main", mode="strict")
    await place.client.result(run)

    assert place.folder.joinpath("notes/deep/b.md").read_text() == "hi"
    assert tool_results(main, "write_file")[1] == "Strict mode: write_file requires approval"
    by_summary = {one.request.summary: one.verdict for one in await place.client.questions(run)}
    told = {summary: (verdict.door, verdict.by, verdict.note) for summary, verdict in by_summary.items() if verdict}
    entry = "entry 2 of approvals.allow: write_file of .md files below /notes (read by people)"
    assert told == {
        "write_file /notes/a.md (2 bytes)": ("rule", "workshop.yaml", entry),
        "call sage: go": ("rule", "workshop.yaml", "entry 1 of approvals.allow: calls of sage, with no files"),
        "write_file /notes/deep/b.md (2 bytes)": ("rule", "workshop.yaml", entry),
    }
    events = [event async for event in place.client.events(run) if event.type == "approval.decided"]
    assert [event.data["door"] for event in events] == ["rule"] * 3
    assert entry in [event.data["note"] for event in events]


async def test_an_entry_for_a_worker_is_none_for_a_template_that_is_called_like_it(place: Place) -> None:
    place.workshop(
        approvals={"rules": {"worker.call": "pre_approved"}, "allow": [{**NOTES, "callers": ["sage"]}]},
    )
    place.worker("sage", scripted(write_call("/notes/a.md"), "Wise."), toolsets=FILESYSTEM)
    filled = place.script("template-sage", scripted(write_call("/notes/b.md"), "Less so."))
    place.write("templates/sage.yaml", f"system: Do $what.\nmodel: {filled}\ntoolsets: {{filesystem: {{}}}}\n")
    by_template = template_call("templates/sage.yaml", params={"what": "as I say"})
    main = scripted(call("sage", input="go"), by_template, "Done.")
    calls = {**delegation_to("sage")["delegation"], "templates": {"allow": ["templates/*.yaml"]}}
    place.worker("main", main, toolsets={"delegation": calls})
    run = await place.start("main")
    await place.pending_is(run, "a2")
    (asked,) = await place.client.approvals(run)
    assert (asked.request.worker, asked.request.summary) == ("templates/sage.yaml", "write_file /notes/b.md (2 bytes)")
    await place.decide(run, id="a2", by="ada")
    await place.client.result(run)
    assert [one.verdict.door for one in await place.client.questions(run) if one.verdict] == ["rule", "update"]


async def test_a_grant_for_two_answers_two_of_eight_calls_at_once_and_can_be_taken_back(place: Place) -> None:
    first, second = notes(*(f"{number}.md" for number in range(8))), notes("later.md")
    place.worker("main", scripted(first, second, "Done."), toolsets=FILESYSTEM)
    run = await place.start("main")
    await place.pending(run, 8)
    offers = await read_kinds(place.client, run, "a1")
    assert [len(offer.covered) for offer in offers] == [0, 7, 7]
    await place.decide(run, id="a1", by="ada", grant={"kind": NOTES, "times": 2, "seconds": "1h"})
    left = ("a4", "a5", "a6", "a7", "a8")
    await place.pending_is(run, *left)
    (grant,) = await place.client.grants(run)
    assert (grant.sentence, grant.used) == ("write_file of .md files below /notes", 2)
    assert (await place.client.desk(run)).grants == (grant,)
    await place.client.revoke(run, "a1", "ada")
    for approval in left:
        await place.decide(run, id=approval, by="bob")
    await place.pending_is(run, "a9")
    await place.decide(run, id="a9", by="bob")
    await place.client.result(run)

    assert await place.client.grants(run) == []
    verdicts = [one.verdict for one in await place.client.questions(run)]
    told = [(one.door, one.by, one.granted_by) for one in verdicts if one is not None]
    assert told == [("update", "ada", None), *[("grant", "ada", "a1")] * 2, *[("update", "bob", None)] * 6]


@pytest.mark.thorough
async def test_a_run_that_is_continued_as_new_takes_its_grant_along(hasty: Place) -> None:
    turns = [notes(f"{number}.md") for number in range(16)]
    hasty.worker("main", scripted(*turns, "Done."), toolsets=FILESYSTEM)
    run = await hasty.start("main")
    await hasty.pending(run)
    await hasty.decide(run, id="a1", by="ada", grant={"kind": NOTES, "times": 14, "seconds": "1h"})
    await hasty.pending_is(run, "a16")
    (last,) = await hasty.client.approvals(run)
    assert len(await hasty.chain(run)) > 1
    (grant,) = await hasty.client.grants(run)
    assert (grant.used, last.request.args["path"]) == (14, "/notes/15.md")
    assert (await hasty.client.desk(run)).grants == (grant,)
    await hasty.decide(run, id="a16", by="bob")
    await hasty.client.result(run)


async def test_the_page_offers_kinds_and_takes_a_grant_back(place: Place) -> None:
    first = [*notes("a.md", "b.md", "c.md"), write_call("/a.txt")]
    place.worker("main", scripted(first, "Done."), toolsets=FILESYSTEM)
    run = await place.start("main")
    # They are numbered as their files were looked at, which may be in any order.
    ids = {question.args["path"]: question.id for question in await place.pending(run, 4)}
    decided_on, granted, *left = sorted(set(ids.values()) - {ids["/a.txt"]})
    left.append(ids["/a.txt"])
    ada = await signed_in_browser(place)
    page = await ada.open(f"/runs/{run}/approvals/{decided_on}")
    assert "Agree to write_file of .md files below /notes" in page.text
    assert "2 calls so far" in page.text
    unknown = await ada.send(page, page.form(decision="approve"), kind="write_file of files below /", times="1")
    assert unknown.status == 422
    assert "None of the kinds that fit this call was chosen" in unknown.text
    many = await ada.send(page, page.form(decision="approve"), kind="write_file of files below /notes", times="many")
    assert many.status == 422
    kind = "write_file of .md files below /notes"
    decided = await ada.send(page, page.form(decision="approve"), kind=kind, times="1", span="8h")
    assert f"Agrees to further calls: {kind}, once more, for 8 hours." in decided.text
    await place.pending_is(run, *left)
    answered = await ada.open(f"/runs/{run}/approvals/{granted}")
    assert f"by a decision that was remembered ({decided_on})" in answered.text
    grants = await ada.open(f"/runs/{run}/grants")
    assert "1 of 1 used" in grants.text
    await ada.send(grants, next(form for form in grants.forms if "approval" in form.fields))
    await place.pending_is(run, *left)
    assert (await place.client.desk(run)).grants == ()
    await place.client.cancel(run)
