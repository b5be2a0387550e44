"""Decisions that are held, on the page: who decided takes them back, one and many."""

from __future__ import annotations

import re

from tests.support.people.browser import Form, Page
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.runs.parked import start_parked, write_call
from tests.support.runs.place import Place


def undo_form(page: Page) -> Form:
    (form,) = [form for form in page.forms if form.action.partition("?")[0].endswith("/undo")]
    return form


async def test_the_next_question_offers_to_take_the_last_answer_back(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/b.txt")], "Done.")
    await place.pending(run, 2)
    ada = await signed_in_browser(place, undo_seconds=60)
    first = await page_with(ada, f"/runs/{run}/approvals/a1?run={run}", "1 of 2")
    second = await ada.send(first, first.form(decision="approve"), onward="yes")
    assert second.address.partition("?")[0].endswith("/approvals/a2")
    assert "Approved by ada: write_file" in second.text
    assert re.search(r"takes effect in (\d\d? s|1 min)", second.text)
    form = undo_form(second)
    again = await ada.send(second, form)
    assert again.address.partition("?")[0].endswith("/approvals/a1")
    assert f"run={run}" in again.address
    assert "tally=0.0.0" in again.address
    assert again.form(decision="reject")
    # Another tab, in which nothing has changed.
    twice = await ada.send(second, form)
    assert twice.status == 409
    assert "Approval 'a1' is not decided; there is nothing to take back." in twice.text
    third = await ada.send(again, again.form(decision="reject"), note="rather not", onward="yes")
    assert third.address.partition("?")[0].endswith("/approvals/a2")
    assert "Rejected by ada" in third.text
    await place.client.cancel(run)


async def test_the_last_answer_of_all_can_be_taken_back_from_the_inbox(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    ada = await signed_in_browser(place, undo_seconds=60)
    page = await ada.open(f"/runs/{run}/approvals/a1?run={run}")
    inbox = await ada.send(page, page.form(decision="approve"), onward="yes")
    assert inbox.address.partition("?")[0].endswith("8234/")
    again = await ada.send(inbox, undo_form(inbox))
    assert again.address.partition("?")[0].endswith("/approvals/a1")
    assert not (place.folder / "a.txt").exists()
    await place.client.cancel(run)


async def test_who_did_not_decide_is_told_and_cannot_undo(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    address = f"/runs/{run}/approvals/a1"
    ada, bob = await signed_in_browser(place, undo_seconds=60), await signed_in_browser(place, "bob")
    open_still = await bob.open(address)
    page = await ada.open(address)
    held = await ada.send(page, page.form(decision="approve"))
    assert "Approved by ada," in held.text
    assert "It takes effect at" in held.text
    seen = await bob.open(address)
    assert "Approved by ada," in seen.text
    assert not [form for form in seen.forms if "/undo" in form.action]
    late = await bob.send(open_still, open_still.form(decision="reject"), note="no")
    assert late.status == 409
    assert "was already decided: approve by ada" in late.text
    refused = await bob.send(seen, Form(f"{address}/undo", "post", seen_fields(open_still)))
    assert refused.status == 409
    assert "was already decided: approve by ada" in refused.text
    assert undo_form(held)
    await place.client.cancel(run)
    assert not (place.folder / "a.txt").exists()


def seen_fields(page: Page) -> dict[str, str]:
    """The fields that every form of this person has."""
    return {"csrf": page.form(decision="approve").fields["csrf"]}


async def test_a_decision_about_many_is_taken_back_question_by_question(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/b.txt")], "Done.")
    await place.pending(run, 2)
    ada = await signed_in_browser(place, undo_seconds=60)
    table = await page_with(ada, f"/runs/{run}/approvals", "/a.txt", "/b.txt")
    review = await ada.send(table, table.form(of=run), what="approve-all")
    outcome = await ada.send(review, review.form(decision="approve"))
    assert "2 of 2 approved" in outcome.text
    assert "The last of it takes effect" in outcome.text
    await place.decide(run, id="a1", by="ada")
    undone = await ada.send(outcome, undo_form(outcome))
    assert "1 of 2 taken back: they wait again." in undone.text
    assert "1 of 2 approved" in undone.text
    assert "not taken back: approved by ada" in undone.text
    assert [one.id for one in await place.client.approvals(run)] == ["a2"]
    await place.client.cancel(run)
