"""The page of a question: what is around the call, the call as people read it, and the question that comes next."""

from __future__ import annotations

import pytest

from llm_do_temporal.testing import call, scripted
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.runs.delegation import delegation_to
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place

NOTES = "# Plan\n\n- buy **bread** [here](https://shop.example)\n"


async def test_a_question_tells_its_task_its_place_and_what_the_model_said(place: Place) -> None:
    place.worker("boss", scripted(call("clerk", input="note it"), "Done."), toolsets=delegation_to("clerk"))
    place.worker(
        "clerk",
        scripted(["I shall write <b>it</b> down.", write_call("/notes.md", NOTES)], "Written."),
        toolsets=FILESYSTEM,
    )
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    run = await place.start("boss", "plan the week\nand more", started_by="ann")
    await place.pending(run)
    page = await (await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1")
    assert "plan the week started by ann" in page.text
    assert "I shall write <b>it</b> down." in page.text
    assert "<b>it</b>" not in page.html
    assert f'<a href="/runs/{run}/invocations/main/clerk-1">clerk-1</a>' in page.html
    assert f'href="/runs/{run}/invocations/main/clerk-1?turn=1"' in page.html
    await place.client.cancel(run)


async def test_markdown_is_read_with_its_source_one_click_away_and_leads_nowhere(place: Place) -> None:
    run, _ = await start_parked(place, write_call("/notes.md", NOTES), "Done.")
    page = await (await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1")
    assert '<div class="md-heading h1">Plan</div>' in page.html
    assert "<strong>bread</strong>" in page.html
    assert 'href="https://shop.example' not in page.html
    assert '<summary>Source<span class="sr"> of content</span></summary>' in page.html
    await place.client.cancel(run)


async def test_a_change_comes_first_and_the_whole_text_is_folded(place: Place) -> None:
    place.write("a.sql", "SELECT a,\n  1;\n")
    run, _ = await start_parked(place, write_call("/a.sql", "SELECT a,\n  2;\n"), "Done.")
    page = await (await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1")
    assert page.html.index('<span class="line del" data-n="2">') < page.html.index("what changes is shown above")
    assert '<span class="tok-k">SELECT</span>' in page.html
    assert "data-must-open" not in page.html
    await place.client.cancel(run)


async def test_what_was_decided_on_calls_like_it_is_told(place: Place) -> None:
    calls = [write_call("/notes/a.txt"), write_call("/notes/b.txt"), write_call("/notes/c.txt"), write_call("/d.txt")]
    run, _ = await start_parked(place, calls, "Done.")
    asked = {str(one.request.args["path"]): one.id for one in await place.pending(run, 4)}
    await place.decide(run, id=asked["/notes/a.txt"], by="ada")
    await place.decide(run, "reject", id=asked["/notes/b.txt"], note="too early", by="bob")
    page = await (await signed_in_browser(place)).open(f"/runs/{run}/approvals/{asked['/notes/c.txt']}")
    assert "write_file · /notes in this run: 1 approved , 1 rejected" in page.text
    assert "rejected by bob" in page.text
    assert "too early" in page.text
    other = await (await signed_in_browser(place)).open(f"/runs/{run}/approvals/{asked['/d.txt']}")
    assert "in this run:" not in other.text
    await place.client.cancel(run)


async def test_after_a_decision_comes_the_next_question_of_the_filter_and_at_the_end_the_inbox(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/b.txt"), write_call("/c.txt")], "Done.")
    await place.pending(run, 3)
    other, _ = await start_parked(place, write_call("/other.txt"), "Done.")
    ada = await signed_in_browser(place)
    first = await page_with(ada, f"/runs/{run}/approvals/a2?run={run}", "2 of 3")
    assert f'href="/runs/{run}/approvals/a1?run={run}" data-key="k"' in first.html
    assert f'href="/runs/{run}/approvals/a3?run={run}" data-key="j"' in first.html
    second = await ada.send(first, first.form(decision="approve"), onward="yes")
    assert second.address.partition("?")[0].endswith("/approvals/a3")
    assert "Approved by ada: write_file" in second.text
    assert "2 left." in second.text
    # Behind the youngest comes the one that was passed over.
    third = await ada.send(second, second.form(decision="reject"), note="no", onward="yes")
    assert third.address.partition("?")[0].endswith("/approvals/a1")
    assert "Rejected by ada" in third.text
    edit = await ada.open(f"/runs/{run}/approvals/a1/edit?{third.address.partition('?')[2]}")
    review = await ada.send(edit, edit.forms[0], step="review", arg__content="ho")
    end = await ada.send(review, review.forms[0], step="send", onward="yes")
    assert end.address.partition("?")[0].endswith("8234/")
    assert "3 questions answered: 1 approved, 1 changed and approved, 1 rejected" in end.text
    await place.client.result(run)
    await place.client.cancel(other)


@pytest.mark.thorough
async def test_the_tally_tells_of_a_call_that_was_not_carried_out_and_asked_again(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/b.txt")], "Done.")
    oldest = min(await place.pending(run, 2), key=lambda one: one.id)
    # Of two calls of one turn either may ask first.
    place.write(oldest.request.args["path"].removeprefix("/"), "somebody else's\n")
    ada = await signed_in_browser(place)
    first = await page_with(ada, f"/runs/{run}/approvals/a1?run={run}", "1 of 2")
    second = await ada.send(first, first.form(decision="approve"), onward="yes")
    assert second.address.partition("?")[0].endswith("/approvals/a2")
    await place.pending(run, 2)
    third = await ada.send(second, second.form(decision="approve"), onward="yes")
    assert third.address.partition("?")[0].endswith("/approvals/a3")
    assert "1 approved , 1 not carried out" in third.text
    end = await ada.send(third, third.form(decision="approve"), onward="yes")
    assert "3 questions answered: 2 approved, 1 not carried out and asked again" in end.text
    await place.client.result(run)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("named", ["%00", "x%00", "'", "%27%00%5C", "nobody"])
async def test_a_filter_that_names_no_run_leaves_the_question_as_it_is(place: Place, named: str) -> None:
    run, _ = await start_parked(place, write_call("/a.txt"), "Done.")
    page = await (await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1?run={named}")
    assert (page.status, "write_file /a.txt" in page.text) == (200, True)
    await place.client.cancel(run)


async def test_a_question_that_somebody_else_answered_is_passed_over(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/b.txt"), write_call("/c.txt")], "Done.")
    await place.pending(run, 3)
    ada = await signed_in_browser(place)
    page = await page_with(ada, f"/runs/{run}/approvals/a1?run={run}", "1 of 3")
    await place.decide(run, id="a2", by="bob")
    following = await ada.send(page, page.form(decision="approve"), onward="yes")
    assert following.address.partition("?")[0].endswith("/approvals/a3")
    await place.client.cancel(run)


async def test_a_group_of_equal_questions_is_gone_through_one_by_one(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/notes.md"), write_call("/c.txt")], "Done.")
    asked = {str(one.request.args["path"]): one for one in await place.pending(run, 3)}
    first, other = asked["/a.txt"], asked["/c.txt"]
    query = f"run={run}&group={first.request.group.key}"
    ada = await signed_in_browser(place)
    page = await page_with(ada, f"/runs/{run}/approvals/{first.id}?{query}", "All 2 similar", "of 2")
    assert f'href="/groups/{first.request.group.key}" data-key="g"' in page.html
    following = await ada.send(page, page.form(decision="approve"), onward="yes")
    assert following.address.partition("?")[0].endswith(f"/approvals/{other.id}")
    end = await ada.send(following, following.form(decision="approve"), onward="yes")
    assert "2 questions answered: 2 approved" in end.text
    await place.client.cancel(run)


async def test_a_text_that_is_handed_over_stands_on_the_page(place: Place) -> None:
    (place.folder / "rows.csv").write_text("name,n\n<b>,2\n")
    place.worker("reader", scripted("Read."))
    handing = call("reader", input="go", attachments=["rows.csv"])
    run, _ = await start_parked(place, handing, "Done.", toolsets={**FILESYSTEM, **delegation_to("reader")})
    page = await (await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1")
    assert "<td>&lt;b&gt;</td><td>2</td>" in page.html
    await place.client.cancel(run)


async def test_a_mistake_is_told_beside_its_field_and_nothing_typed_is_lost(place: Place) -> None:
    run, _ = await start_parked(place, write_call(content="one\ntwo\n"), "Done.")
    ada = await signed_in_browser(place)
    page = await ada.open(f"/runs/{run}/approvals/a1/edit?raw")
    typed = "path: /a.txt\ncontent: |\n  one\n  typed\nmore: 1\n"
    refused = await ada.send(page, page.forms[0], step="review", raw=typed + "'")
    assert refused.status == 422
    assert "line 6: not valid YAML" in refused.text
    assert refused.forms[0].fields["raw"] == typed + "'"
    form = await ada.send(page, page.forms[0], step="form", raw=typed)
    assert form.forms[0].fields["arg.content"] == "one\ntyped\n"
    beside = await ada.send(form, form.forms[0], step="review", arg__more="[1")
    assert 'aria-describedby="arg-3-problem' in beside.html
    assert beside.forms[0].fields["arg.content"] == "one\ntyped\n"
    assert beside.forms[0].fields["arg.more"] == "[1"
    await place.client.cancel(run)
