"""A review is looked at file by file, and answered by a form that works without scripts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.extensions.review.client import reviews_of
from llm_do_temporal.extensions.review.messages import CheckResult
from llm_do_temporal.extensions.review.policy.review import ReviewAnswer
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Verdict
from llm_do_temporal.policy.layers.layer import folder_node, link_node
from tests.support.extensions.review.review_desk import ReviewDesk, review_desk, review_form, step_pairs
from tests.support.extensions.review.reviewed import EDITED_NOVEL, NOVEL, Side
from tests.support.people.browser import Page
from tests.support.people.signed_in import SCRIPT

A1 = "/runs/run-1/approvals/a1"
HOSTILE = f'{SCRIPT}"\n\u202egnp.txt'
SIDES: dict[str, tuple[Side, Side]] = {
    "README.md": ("old\n", "new\n"),
    "gone.txt": ("bye\n", None),
    "src/novel.txt": (NOVEL, EDITED_NOVEL),
    "src/one.txt": (None, "1\n"),
}


@pytest.fixture
def desk(tmp_path: Path) -> ReviewDesk:
    return review_desk(tmp_path, SIDES)


async def sent(desk: ReviewDesk, step: str, user: str = "ada", **more: Any) -> Page:
    browser = await desk.browser(user)
    page = await browser.open(A1)
    return await browser.send_pairs(page, review_form(page), step_pairs(review_form(page), step, **more))


def decided(desk: ReviewDesk) -> Decision:
    (decision,) = desk.decisions
    assert (decision.id, decision.by, decision.digest) == ("a1", "ada", desk.questions_asked[0].request.digest)
    return decision


def hunks_of(desk: ReviewDesk, path: str) -> list[str]:
    (review,) = reviews_of(desk.questions_asked, desk.blobs)
    return [hunk.id for hunk in review.diff(review.change(path)).hunks]


async def test_the_page_has_counts_files_lines_and_the_outcome_of_the_check(tmp_path: Path) -> None:
    check = CheckResult(command="make test", exit_code=1, output=SCRIPT)
    desk = review_desk(tmp_path, {**SIDES, HOSTILE: (None, SCRIPT)}, check=check)
    page = await (await desk.browser()).open(A1)
    assert page.status == 200
    assert "5 changes of ordinary files: + added 2 added ~ modified 2 modified" in page.text
    assert "The check failed with 1 make test" in page.text
    assert "by main/editor-1, turn 3" in page.text
    assert 'href="/runs/run-1/invocations/main/editor-1?turn=3"' in page.html
    assert '<span class="line add" data-n="5">' in page.html
    for hidden in (SCRIPT, "\u202e"):
        assert hidden not in page.html
    assert "\\u{202e}" in page.html or "\\u202e" in page.html


async def test_accepting_all_that_was_ticked_before_approves_what_was_asked(desk: ReviewDesk) -> None:
    page = await sent(desk, "accept")
    assert "Accepted by ada" in page.text
    assert (decided(desk).decision, decided(desk).args) == (DecisionKind.APPROVE, None)


async def test_all_and_none_can_be_ticked_at_once(desk: ReviewDesk) -> None:
    browser = await desk.browser()
    page = await browser.open(A1)
    none = await browser.send_pairs(page, review_form(page), step_pairs(review_form(page), "none"))
    assert not [value for name, value in review_form(none).pairs if name == "take"]
    every = await browser.send_pairs(none, review_form(none), step_pairs(review_form(none), "all"))
    assert [value for name, value in review_form(every).pairs if name == "take"] == ["0", "1", "2", "3"]
    assert desk.decisions == []


async def test_unticked_files_and_parts_are_not_accepted_and_comments_go_along(desk: ReviewDesk) -> None:
    first, second = hunks_of(desk, "src/novel.txt")
    comments = {"comment_on": "2", "comment_line": "5", "comment_text": "five is\r\na number"}
    page = await sent(desk, "accept", without=[("take", "1"), ("part", f"2 {first}")], note="well", **comments)
    assert page.status == 200
    args = decided(desk).args
    assert args is not None
    assert (decided(desk).decision, decided(desk).note) == (DecisionKind.MODIFY, "well")
    assert args["accept"] == ["README.md", "src/one.txt"]
    assert args["hunks"] == {"src/novel.txt": [second]}
    assert args["comments"] == [{"path": "src/novel.txt", "line": 5, "text": "five is\na number"}]
    assert args["rest"] == "drop"
    assert "in part" in page.text
    assert "five is" in page.text


async def test_what_is_not_accepted_can_stay_with_the_worker(desk: ReviewDesk) -> None:
    await sent(desk, "accept", without=[("take", "1")], keep="on")
    args = decided(desk).args
    assert args is not None
    assert args["rest"] == "keep"


async def test_asking_for_changes_accepts_nothing_and_undoes_nothing(desk: ReviewDesk) -> None:
    refused = await sent(desk, "ask")
    assert (refused.status, desk.decisions) == (422, [])
    assert "Nothing says what is to be changed" in refused.text
    await sent(desk, "ask", note="rename it back")
    args = decided(desk).args
    assert args is not None
    assert (args["accept"], args["hunks"], args["rest"]) == ([], {}, "keep")
    assert decided(desk).note == "rename it back"


async def test_a_rejection_needs_a_reason_and_takes_the_comments_along(desk: ReviewDesk) -> None:
    refused = await sent(desk, "reject")
    assert (refused.status, desk.decisions) == (422, [])
    comments = {"comment_on": "0", "comment_line": "", "comment_text": "no"}
    page = await sent(desk, "reject", note="wrong branch", **comments)
    assert page.text.count("not accepted") == 4
    assert (decided(desk).decision, decided(desk).note) == (DecisionKind.REJECT, "wrong branch\nREADME.md: no")


async def test_nothing_ticked_is_no_answer(desk: ReviewDesk) -> None:
    page = await sent(desk, "accept", without=[("take", str(number)) for number in range(4)])
    assert (page.status, desk.decisions) == (422, [])
    assert "Nothing is chosen" in page.text


async def test_enter_in_a_field_decides_nothing_and_keeps_what_was_typed(desk: ReviewDesk) -> None:
    page = await sent(
        desk, "look", without=[("take", "0")], note="so far", comment_on="3", comment_line="1", comment_text="?"
    )
    assert (page.status, desk.decisions) == (200, [])
    form = review_form(page)
    assert ("take", "0") not in form.pairs
    assert ("take", "3") in form.pairs
    assert form.fields["note"] == "so far"
    assert ("comment-text", "?") in form.pairs


async def test_what_is_needed_by_something_ticked_is_not_taken_along_in_silence(tmp_path: Path) -> None:
    desk = review_desk(tmp_path, {"new": (None, folder_node()), "new/a.txt": (None, "a")})
    page = await sent(desk, "accept", without=[("take", "0")])
    assert (page.status, desk.decisions) == (422, [])
    assert "What is ticked cannot be made without 'new'." in page.text


async def test_boxes_of_a_folder_and_its_files_are_ticked_each_by_itself(tmp_path: Path) -> None:
    desk = review_desk(tmp_path, {"gone": (folder_node(), None), "gone/a.txt": ("a", None), "z.txt": (None, "z")})
    page = await sent(desk, "look", without=[("take", "1")])
    assert page.status == 200
    form = review_form(page)
    assert [one for one in form.pairs if one[0] == "take"] == [("take", "0"), ("take", "2")]
    page = await sent(desk, "accept", without=[("take", "1")])
    assert (page.status, desk.decisions) == (422, [])
    assert "What is ticked cannot be made without 'gone/a.txt'." in page.text
    await sent(desk, "accept", without=[("take", "0")])
    args = decided(desk).args
    assert args is not None
    assert args["accept"] == ["gone/a.txt", "z.txt"]


async def test_an_edit_ticks_no_folder(tmp_path: Path) -> None:
    desk = review_desk(tmp_path, {"new": (None, folder_node()), "new/a.txt": (None, "one\n")})
    browser = await desk.browser()
    page = await browser.open(A1)
    form = review_form(page)
    edit = await browser.send_pairs(page, form, step_pairs(form, "edit:1", without=[("take", "0")]))
    area = review_form(edit)
    kept = await browser.send_pairs(edit, area, step_pairs(area, "keep:1", text="two\n"))
    assert [one for one in review_form(kept).pairs if one[0] == "take"] == [("take", "1")]
    refused = await browser.send_pairs(kept, review_form(kept), step_pairs(review_form(kept), "accept"))
    assert "What is ticked cannot be made without 'new'." in refused.text
    assert desk.decisions == []


async def test_a_conflict_is_not_ticked_and_is_accepted_by_name(tmp_path: Path) -> None:
    desk = review_desk(tmp_path, {"a.txt": ("theirs\n", "mine\n"), "b.txt": (None, "b")}, conflicts={"a.txt": "edited"})
    page = await (await desk.browser()).open(A1)
    assert "1 conflict: somebody else has changed this path" in page.text
    assert ("take", "0") not in review_form(page).pairs
    await sent(desk, "accept", take="0")
    args = decided(desk).args
    assert args is not None
    assert args["accept"] == ["a.txt"]


async def test_an_edited_file_is_accepted_with_its_new_text(tmp_path: Path) -> None:
    desk = review_desk(tmp_path, {"a.txt": ("one\r\ntwo\r\n", "one\r\nthree\r\n"), "b.txt": (None, "b")})
    browser = await desk.browser()
    page = await browser.open(A1)
    form = review_form(page)
    edit = await browser.send_pairs(page, form, step_pairs(form, "edit:0", without=[("take", "1")]))
    area = review_form(edit)
    kept = await browser.send_pairs(edit, area, step_pairs(area, "keep:0", text="one\r\nfour\r\n"))
    assert "Edited by you" in kept.text
    assert ("take", "1") not in review_form(kept).pairs
    await browser.send_pairs(kept, review_form(kept), step_pairs(review_form(kept), "accept"))
    args = decided(desk).args
    assert args is not None
    assert args["accept"] == []
    assert desk.blobs.read(args["edits"]["a.txt"]) == b"one\r\nfour\r\n"


async def test_an_edit_can_be_taken_back_and_what_a_browser_would_change_is_not_edited_here(tmp_path: Path) -> None:
    desk = review_desk(
        tmp_path, {"a.txt": ("one\n", "two\n"), "mixed.txt": (None, "a\r\nb\n"), "gone.txt": ("x", None)}
    )
    browser = await desk.browser()
    page = await browser.open(A1)
    form = review_form(page)
    kept = await browser.send_pairs(page, form, [*step_pairs(form, "keep:0"), ("text", "three\n")])
    back = await browser.send_pairs(kept, review_form(kept), step_pairs(review_form(kept), "drop:0"))
    assert "Edited by you" not in back.text
    for number, reason in (("2", "mixed line ends"), ("1", "is gone in this change"), ("77", "no change '77'")):
        refused = await browser.send_pairs(page, form, step_pairs(form, f"edit:{number}"))
        assert refused.status == 422
        assert reason in refused.text


async def test_a_form_about_other_changes_is_told_so(desk: ReviewDesk) -> None:
    page = await sent(desk, "accept", changes="0" * 64)
    assert (page.status, desk.decisions) == (409, [])
    assert "The form is about other changes than this question" in page.text
    for draft in ("", "{}", "[" * 10_000):
        wrong = await sent(desk, "accept", draft=draft)
        assert (wrong.status, desk.decisions) == (422, [])


async def test_whoever_is_second_sees_who_decided_and_how(desk: ReviewDesk) -> None:
    browser = await desk.browser("bob")
    page = await browser.open(A1)
    await sent(desk, "accept")
    late = await browser.send_pairs(page, review_form(page), step_pairs(review_form(page), "reject", note="no"))
    assert late.status == 409
    assert "Accepted by ada" in late.text
    assert not any(form.fields.get("changes") and "note" in form.fields for form in late.forms)


async def test_where_several_must_agree_the_next_one_begins_with_what_the_first_has_chosen(tmp_path: Path) -> None:
    desk = review_desk(tmp_path, SIDES, quorum=2)
    (question,) = desk.questions_asked
    args = question.request.args | {"accept": ["gone.txt"]}
    vote = Verdict(decision=DecisionKind.MODIFY, args=args, by="bob", at=question.asked_at, door="update")
    desk.questions_asked[0] = replace(question, votes=(vote,))
    page = await (await desk.browser()).open(A1)
    assert [value for name, value in review_form(page).pairs if name == "take"] == ["1"]
    await sent(desk, "accept")
    assert (decided(desk).decision, (decided(desk).args or {})["accept"]) == (DecisionKind.MODIFY, ["gone.txt"])


async def test_who_may_not_decide_sees_it_all_without_boxes(tmp_path: Path) -> None:
    desk = review_desk(tmp_path, SIDES, approvers=("bob",))
    page = await (await desk.browser()).open(A1)
    assert "who may not decide this" in page.text
    assert "line thirty" in page.text
    assert 'type="checkbox" name="take"' not in page.html


async def test_where_the_changes_cannot_be_read_they_can_only_be_rejected(desk: ReviewDesk) -> None:
    browser = await desk.browser(workshop=False)
    page = await browser.open(A1)
    assert page.status == 200
    assert "The blob store with the changes is not where this page runs" in page.text
    assert "Accept" not in [value for form in page.forms for _, value in form.buttons]
    refused = await browser.send_pairs(page, review_form(page), step_pairs(review_form(page), "accept"))
    assert (refused.status, desk.decisions) == (422, [])
    await browser.send_pairs(page, review_form(page), step_pairs(review_form(page), "reject", note="unseen"))
    assert decided(desk).decision is DecisionKind.REJECT


async def test_the_parts_of_a_large_review_keep_what_was_chosen_on_others(tmp_path: Path) -> None:
    sides: dict[str, tuple[Side, Side]] = {f"src/{n // 50:03}/{n:05}.txt": (None, f"{n}\n") for n in range(250)}
    desk = review_desk(tmp_path, sides)
    browser = await desk.browser()
    first = await browser.open(A1)
    assert "Changes 1 to 100 of 250" in first.text
    form = review_form(first)
    second = await browser.send_pairs(first, form, step_pairs(form, "part:2", without=[("take", "7")]))
    assert "Changes 101 to 200 of 250" in second.text
    form = review_form(second)
    opened = await browser.send_pairs(second, form, step_pairs(form, "open:150", without=[("take", "101")]))
    assert '<span class="line add" data-n="1">' in opened.html
    form = review_form(opened)
    await browser.send_pairs(opened, form, step_pairs(form, "accept"))
    args = decided(desk).args
    assert args is not None
    accepted = set(reviews_of(desk.questions_asked, desk.blobs)[0].by_path) - {"src/000/00007.txt", "src/002/00101.txt"}
    layer = reviews_of(desk.questions_asked, desk.blobs)[0].layer
    assert set(ReviewAnswer.model_validate(args).paths(layer)) == accepted
    assert len(args["accept"]) < 110


async def test_links_folders_renames_and_modes_are_told(tmp_path: Path) -> None:
    sides: dict[str, tuple[Side, Side]] = {
        "out": (None, link_node("a\u202eb")),
        "folder": (None, folder_node()),
        "old/name.txt": ("the same text\n", None),
        "new-name.txt": (None, "the same text\n"),
    }
    page = await (await review_desk(tmp_path, sides).browser()).open(A1)
    assert "→ renamed old/name.txt → new-name.txt" in page.text
    assert "Not a line of it changes." in page.text
    assert 'a link to "a' in page.text
    assert "a folder after" in page.text


async def test_the_other_sections_of_the_review_are_a_click_away(tmp_path: Path) -> None:
    desk = review_desk(tmp_path, {"a.txt": (None, "a"), ".github/workflows/ci.yml": (None, "on: push\n")})
    page = await (await desk.browser()).open(A1)
    assert 'href="/runs/run-1/approvals/a2">version control' in page.html
