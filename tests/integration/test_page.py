"""The page without a browser and without JavaScript: real runs, and the forms that are really on the pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import unquote

import httpx2
import pytest
from pydantic_ai.messages import ModelMessage

from llm_do_temporal.testing import call, scripted
from tests.support.people.browser import Browser, Page
from tests.support.people.signed_in import SCRIPT, page_with, signed_in_browser
from tests.support.runs.delegation import delegation_to, tool_results
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place
from tests.support.workshops.hostile import hostile_pdf


def after(said: asyncio.Event, text: str) -> Callable[[list[ModelMessage]], Awaitable[str]]:
    """A last turn that waits: a run that has ended takes no decisions, not even to say that they come too late."""

    async def answer(_messages: list[ModelMessage]) -> str:
        await said.wait()
        return text

    return answer


async def inbox(browser: Browser, address: str, *wanted: str) -> Page:
    """The inbox, once all of this stands in it: the server lists runs a moment after they have changed."""
    while True:
        page = await browser.open(address)
        if all(text in page.text for text in wanted):
            return page
        await asyncio.sleep(0.05)


async def test_the_inbox_lists_what_waits_and_filters_it(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/b.txt")], "Done.")
    await place.pending(run, 2)
    ada = await signed_in_browser(place)
    page = await inbox(ada, f"/?run={run}", "Write the file /a.txt (2 bytes)", "Write the file /b.txt (2 bytes)")
    assert page.html.index(f"/runs/{run}/approvals/a1") < page.html.index(f"/runs/{run}/approvals/a2")
    found = await ada.open(f"/?run={run}&text=B.TXT")
    assert "/b.txt" in found.text
    assert "/a.txt" not in found.text
    assert "/a.txt" not in (await ada.open(f"/?run={run}&tool=shell")).text
    await place.client.cancel(run)


async def test_approving_with_a_note_lets_the_call_happen_and_the_page_keeps_who_and_when(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    page = await (ada := await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1")
    after = await ada.send(page, page.form(decision="approve"), note="looks good")
    assert after.status == 200
    assert (await place.client.result(run)).output == "Done."
    assert (place.folder / "a.txt").read_text() == "hi"
    kept = await (await signed_in_browser(place, "bob")).open(f"/runs/{run}/approvals/a1")
    assert "Approved by ada" in kept.text
    assert "looks good" in kept.text
    assert not [form for form in kept.forms if "decision" in form.fields]


async def test_rejecting_needs_a_reason_which_the_model_is_told(place: Place) -> None:
    run, main = await start_parked(place, write_call(), "Pity.")
    page = await (ada := await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1")
    again = await ada.send(page, page.form(decision="reject"), note="  ")
    assert again.status == 422
    assert "Say why" in again.text
    await ada.send(again, again.form(decision="reject"), note="not\ntoday")
    await place.client.result(run)
    assert tool_results(main, "write_file") == ["Rejected by ada: not\ntoday"]


async def test_an_edited_call_is_shown_as_a_difference_before_it_is_sent(place: Place) -> None:
    run, main = await start_parked(place, write_call(content="one\ntwo\n"), "Done.")
    page = await (ada := await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1/edit")
    (form,) = page.forms
    assert form.fields["arg.content"] == "one\ntwo\n"
    unchanged = await ada.send(page, form, step="review")
    assert unchanged.status == 422
    assert "nothing was changed" in unchanged.text
    review = await ada.send(page, form, step="review", arg__content="one\r\nthree\r\n")
    assert "-two" in review.text
    assert "+three" in review.text
    assert not (place.folder / "a.txt").exists()
    await ada.send(review, review.forms[0], step="send", note="counted again")
    await place.client.result(run)
    assert (place.folder / "a.txt").read_text() == "one\nthree\n"
    assert "counted again" in tool_results(main, "write_file")[0]
    assert "+three" in (await ada.open(f"/runs/{run}/approvals/a1")).text


async def test_edited_json_is_checked_against_the_tools_schema_and_by_policy(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    ada = await signed_in_browser(place)
    page = await ada.open(f"/runs/{run}/approvals/a1/edit?raw")
    (form,) = page.forms
    for raw, complaint in (
        ("{", "line 1: not valid YAML"),
        ("[]", "the arguments are names with values"),
        ('{"path": "/a.txt"}', "'content' is a required property"),
        ('{"path": "/a.txt", "content": 1}', "content: 1 is not of type 'string'"),
    ):
        refused = await ada.send(page, form, step="review", raw=raw)
        assert refused.status == 422
        assert complaint in refused.text
    outside = await ada.send(page, form, step="review", raw='{"path": "/../a.txt", "content": "x"}')
    denied = await ada.send(outside, outside.forms[0], step="send")
    assert denied.status == 409
    assert "policy refuses the new arguments" in denied.text
    await place.client.cancel(run)


async def test_a_remembered_call_is_not_asked_about_again(place: Place) -> None:
    run, main = await start_parked(place, write_call(), write_call(), write_call(), "Done.")
    page = await (ada := await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1")
    await ada.send(page, page.form(decision="approve"), remember="on")
    assert (await place.client.result(run)).output == "Done."
    assert len(tool_results(main, "write_file")) == 3
    granted = await ada.open(f"/runs/{run}/approvals/a2")
    assert "by a decision that was remembered" in granted.text
    grants = await ada.open(f"/runs/{run}/grants")
    assert "write_file /a.txt" in grants.text
    assert not [form for form in grants.forms if "approval" in form.fields]


async def test_a_grant_is_listed_and_taken_back(place: Place) -> None:
    run, main = await start_parked(place, write_call(), write_call("/b.txt"), write_call(), "Done.")
    ada = await signed_in_browser(place)
    page = await ada.open(f"/runs/{run}/approvals/a1")
    await ada.send(page, page.form(decision="approve"), remember="on")
    await place.pending_is(run, "a2")
    grants = await ada.open(f"/runs/{run}/grants")
    revoked = await ada.send(grants, grants.form(approval="a1"))
    assert "Taken back" in revoked.text
    assert "Nothing is remembered" in revoked.text
    await place.decide(run, id="a2")
    await place.pending_is(run, "a3")
    await place.decide(run, "reject", id="a3", note="once is enough")
    await place.client.result(run)
    assert "once is enough" in tool_results(main, "write_file")[2]


async def test_the_first_decision_wins_and_the_second_learns_of_it(place: Place) -> None:
    all_said = asyncio.Event()
    run, _ = await start_parked(place, write_call(), after(all_said, "Pity."))
    ada, bob = await signed_in_browser(place), await signed_in_browser(place, "bob")
    stale = await bob.open(f"/runs/{run}/approvals/a1")
    page = await ada.open(f"/runs/{run}/approvals/a1")
    await ada.send(page, page.form(decision="reject"), note="not today")
    late = await bob.send(stale, stale.form(decision="approve"), note="why not")
    assert late.status == 409
    assert "already decided: reject by ada at 20" in late.text
    assert "not today" in late.text
    # Whoever sends the same twice has not made a mistake.
    twice = await ada.send(page, page.form(decision="reject"), note="not today")
    assert twice.status == 200
    all_said.set()
    await place.client.result(run)


async def test_two_people_agree_to_a_change_and_a_third_may_not(place: Place) -> None:
    rule = {"approvers": ["ada", "bob"], "quorum": 2, "timeout": "1h"}
    place.workshop(approvals={"rules": {"sandbox.write": rule}})
    all_said = asyncio.Event()
    run, _ = await start_parked(place, write_call(), after(all_said, "Done."))
    barred = await (await signed_in_browser(place, "carol")).open(f"/runs/{run}/approvals/a1")
    assert "who may not decide this" in barred.text
    assert "2 people must agree; nobody has so far" in barred.text
    assert "then it is rejected" in barred.text
    assert not [form for form in barred.forms if form.method == "post"]
    ada, bob = await signed_in_browser(place), await signed_in_browser(place, "bob")
    page = await ada.open(f"/runs/{run}/approvals/a1/edit")
    review = await ada.send(page, page.forms[0], step="review", arg__content="ho")
    voted = await ada.send(review, review.forms[0], step="send")
    assert "1 of 2 people have agreed: ada" in voted.text
    second = await bob.open(f"/runs/{run}/approvals/a1")
    assert "What was changed by those who agree" in second.text
    assert "-hi +ho" in second.text
    agreed = await bob.send(second, second.form(decision="approve"))
    assert "Changed and approved by ada, bob" in agreed.text
    again = await bob.send(second, second.form(decision="approve"))
    assert again.status == 200
    all_said.set()
    await place.client.result(run)
    assert (place.folder / "a.txt").read_text() == "ho"


async def test_what_nobody_needs_any_more_says_so(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    ada = await signed_in_browser(place)
    page = await ada.open(f"/runs/{run}/approvals/a1")
    stop = await ada.open(f"/runs/{run}/cancel")
    await ada.send(stop, next(form for form in stop.forms if form.action.endswith("/cancel")))
    async for _event in place.client.follow(run).events():
        pass
    late = await ada.send(page, page.form(decision="approve"))
    assert late.status == 409
    assert "has ended: cancelled" in late.text
    assert "Nobody needs an answer any more" in late.text
    assert not (place.folder / "a.txt").exists()


async def test_a_page_that_is_open_hears_of_a_decision(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    ada = await signed_in_browser(place)
    before = await ada.open(f"/runs/{run}/approvals/a1/state")
    await place.decide(run, id="a1", by="bob")
    after = await ada.open(f"/runs/{run}/approvals/a1/state")
    assert "data-settled" not in before.html
    assert "data-settled" in after.html
    assert "Approved by bob" in after.text
    await place.client.result(run)


async def test_a_file_that_changed_since_is_shown_as_it_would_be_changed_now(place: Place) -> None:
    place.write("a.txt", "one\n")
    run, _ = await start_parked(place, write_call(content="two\n"), "Done.")
    ada = await signed_in_browser(place)
    before = await ada.open(f"/runs/{run}/approvals/a1")
    assert "-one" in before.text
    assert "has changed since" not in before.text
    place.write("a.txt", "three\n")
    after = await ada.open(f"/runs/{run}/approvals/a1")
    assert "has changed since" in after.text
    assert "-three" in after.text
    elsewhere = await (await signed_in_browser(place, workshop=False)).open(f"/runs/{run}/approvals/a1")
    assert "cannot be checked here" in elsewhere.text
    await place.client.cancel(run)


async def test_an_edit_that_no_longer_fits_is_announced(place: Place) -> None:
    place.write("a.txt", "one\n")
    edit = call("edit_file", path="/a.txt", old_text="one", new_text="two")
    run, _ = await start_parked(place, edit, "Done.")
    place.write("a.txt", "nothing\n")
    page = await (await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1")
    assert "the call would fail: old_text does not occur in '/a.txt'" in page.text
    await place.client.cancel(run)


async def test_what_a_model_wrote_is_text_and_what_hides_in_it_is_shown(place: Place) -> None:
    content = f"{SCRIPT}\u202eevil\x1b[2J\u200b&amp;\n</textarea><b>"
    run, _ = await start_parked(place, write_call(f"/{SCRIPT.replace('/', '-')}.txt", content), "Done.")
    ada = await signed_in_browser(place)
    for address in (f"/?run={run}", f"/runs/{run}/approvals/a1", f"/runs/{run}/approvals/a1/edit"):
        page = await ada.open(address)
        assert page.status == 200
        assert "<script>alert" not in page.html
        assert "\u202e" not in page.html
        assert "\x1b" not in page.html
    shown = await ada.open(f"/runs/{run}/approvals/a1")
    assert '<span class="hidden-char">\\u202e</span>evil<span class="hidden-char">\\x1b</span>' in shown.html
    edit = await ada.open(f"/runs/{run}/approvals/a1/edit")
    (form,) = edit.forms
    # What a text field would change is edited as JSON, and comes back as it was.
    assert json.loads(form.fields["arg.content"]) == content
    await place.client.cancel(run)


async def test_hostile_addresses_are_only_text(place: Place) -> None:
    ada = await signed_in_browser(place)
    for run in (SCRIPT.replace("/", "%2F"), "..%2f..%2fetc", "%00", "\u202e", "a'b\"c"):
        page = await ada.open(f"/runs/{run}/approvals/{SCRIPT.replace('/', '%2F')}")
        assert page.status in (404, 503)
        assert "<script>alert" not in page.html


EVIL_PDF = hostile_pdf()
EVIL_NAME = 'x"; filename=evil.html; \u202e<b>.pdf'


async def handing_over(place: Place, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        (place.folder / name).write_bytes(data)
    place.worker("reader", scripted("Read."))
    handing = call("reader", input="go", attachments=list(files))
    run, _ = await start_parked(place, handing, "Done.", toolsets=delegation_to("reader"))
    return run


async def attachment(place: Place, run: str, number: int = 0, query: str = "") -> httpx2.Response:
    (question,) = await place.client.approvals(run)
    sha256 = question.request.attachments[number].sha256
    ada = await signed_in_browser(place)
    return await ada.client.get(f"/runs/{run}/approvals/{question.id}/attachments/{sha256}{query}")


async def test_an_attachment_is_sent_so_that_nothing_in_it_runs(place: Place) -> None:
    run = await handing_over(place, {EVIL_NAME: EVIL_PDF})
    answer = await attachment(place, run)
    assert b"/JavaScript" not in answer.content
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith("inline; filename=\"x___filename_evil.html____b_.pdf\"; filename*=UTF-8''")
    assert unquote(disposition.rpartition("''")[2]) == EVIL_NAME
    kept = await attachment(place, run, query="?download")
    assert kept.content == EVIL_PDF
    assert kept.headers["content-type"] == "application/octet-stream"
    assert kept.headers["content-disposition"].startswith("attachment; ")
    page = await (await signed_in_browser(place)).open(f"/runs/{run}/approvals/a1")
    assert f'<iframe src="/runs/{run}/approvals/a1/attachments/' in page.html
    await place.client.cancel(run)


async def test_a_document_that_can_hold_scripts_is_only_kept(place: Place) -> None:
    files = {"a.html": SCRIPT.encode(), "b.svg": f"<svg>{SCRIPT}</svg>".encode(), "c.pdf": b"%PDF-1.4 no more"}
    run = await handing_over(place, files)
    for number in range(3):
        answer = await attachment(place, run, number)
        shown = answer.headers["content-type"], answer.headers["content-disposition"].partition(";")[0]
        assert shown in {("text/plain; charset=utf-8", "inline"), ("application/octet-stream", "attachment")}
    await place.client.cancel(run)


async def test_only_files_that_the_approval_names_are_sent(place: Place) -> None:
    run = await handing_over(place, {"deck.pdf": EVIL_PDF})
    ada = await signed_in_browser(place)
    for name in ("../../../workshop.yaml", "..%2f..%2fworkshop.yaml", "0" * 64, "%00", "*", "A" * 64):
        answer = await ada.client.get(f"/runs/{run}/approvals/a1/attachments/{name}")
        assert answer.status_code == 404, name
    await place.client.cancel(run)


async def test_a_blob_of_another_approval_is_not_sent(place: Place) -> None:
    run = await handing_over(place, {"deck.pdf": EVIL_PDF})
    (question,) = await place.client.approvals(run)
    other, _ = await start_parked(place, write_call(), "Done.")
    ada = await signed_in_browser(place)
    digest = question.request.attachments[0].sha256
    assert (await ada.client.get(f"/runs/{other}/approvals/a1/attachments/{digest}")).status_code == 404
    for one in (run, other):
        await place.client.cancel(one)


async def test_a_page_about_a_run_that_is_not_there_says_so(place: Place, tmp_path: Path) -> None:
    ada = await signed_in_browser(place)
    for address in ("/runs/none/approvals/a1", "/runs/none/grants", "/runs/none/cancel"):
        page = await ada.open(address)
        assert page.status == 404
        assert "There is no run 'none'." in page.text
        assert page.text.index("Ask the person who sent it to you.") < page.text.index("llm-do-temporal list")
        assert str(tmp_path) not in page.html


async def test_who_agrees_on_the_page_agrees_to_what_it_shows(place: Place) -> None:
    place.workshop(approvals={"rules": {"sandbox.write": {"approvers": ["ada", "bob"], "quorum": 2}}})
    run, _ = await start_parked(place, write_call(), "Done.")
    ada, bob = await signed_in_browser(place), await signed_in_browser(place, "bob")
    address = f"/runs/{run}/approvals/a1"
    stale = await bob.open(address)
    edit = await ada.open(f"{address}/edit")
    review = await ada.send(edit, edit.forms[0], step="review", arg__content="better\r\n")
    await ada.send(review, review.forms[0], step="send")
    # Bob has not seen the change, so his agreement is not one to it.
    refused = await bob.send(stale, stale.form(decision="approve"))
    assert refused.status == 409
    assert "'ada' has changed the arguments" in refused.text
    assert "+better" in refused.text
    await bob.send(refused, refused.form(decision="approve"))
    await place.client.result(run)
    assert (place.folder / "a.txt").read_text() == "better\n"
    assert "ada, bob" in (await ada.open(address)).text


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


async def test_a_filter_that_names_no_run_leaves_the_question_as_it_is(place: Place) -> None:
    run, _ = await start_parked(place, write_call("/a.txt"), "Done.")
    ada = await signed_in_browser(place)
    for named in ("%00", "x%00", "'", "%27%00%5C", "nobody"):
        page = await ada.open(f"/runs/{run}/approvals/a1?run={named}")
        assert (page.status, "write_file /a.txt" in page.text) == (200, True), named
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
