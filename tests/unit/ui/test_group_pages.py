"""Many decisions on the page, without JavaScript: groups in the inbox, their tables, one more look, the outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest

from llm_do_temporal.client.decisions import Fate, FrozenQuestion, QuestionOutcome
from llm_do_temporal.client.open_questions import InboxEntry
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.policy.groups import CallGroup
from llm_do_temporal.ui.access import TokenAccess
from llm_do_temporal.ui.page_server import build_app
from llm_do_temporal.ui.pages.groups import PAGE_ROWS
from llm_do_temporal.ui.requests import UiSettings
from tests.support.people.inbox import NOW, Waiting, waiting_entry
from tests.support.people.signed_in import TOKENS, browser_with

KEY = "0123456789abcdef"
SCRIPT = "<script>alert(1)</script>"


def entry(number: int, **more: Any) -> InboxEntry:
    cells = {"path": f"/notes/{number}.md", "content": "x"}
    facts: dict[str, Any] = {"run": f"run-{number % 3}", "id": f"a{number}", "summary": f"wish {number}."}
    facts |= {"asked_at": NOW + timedelta(seconds=number), "task": f"task {number % 3}", "digest": f"digest-{number}"}
    facts |= {"group": CallGroup(key=KEY, title="write_file *.md in /notes", cells=cells)}
    return waiting_entry(**facts | more)


@dataclass
class Deciding(Waiting):
    """A client with these questions; decides all of them, but for those that are told otherwise."""

    fates: dict[str, tuple[Fate, str]] = field(default_factory=dict[str, tuple[Fate, str]])
    decided: list[tuple[FrozenQuestion, Decision]] = field(default_factory=list[tuple[FrozenQuestion, Decision]])

    async def decide_many(
        self,
        questions: Iterable[FrozenQuestion],
        decision: Decision,
        *,
        told: Callable[[QuestionOutcome], None],
    ) -> None:
        """See LlmDoClient."""
        for question in questions:
            self.decided.append((question, decision))
            told(QuestionOutcome(question, *self.fates.get(question.id, (Fate.TAKEN, ""))))


@pytest.fixture
def waiting() -> Deciding:
    """Twelve equal questions of three runs, and another one."""
    other = CallGroup(key="f" * 16, title="shell make", cells={"command": "make"})
    return Deciding([*(entry(number) for number in range(12)), entry(12, group=other, summary="shell make")])


async def test_equal_questions_are_one_entry_of_the_inbox_with_their_number(waiting: Deciding) -> None:
    page = await (ada := await browser_with(waiting)).open("/")
    assert "13 calls wait for a person" in page.text
    assert "12 similar: Write files: *.md in /notes They differ in path (12 values)." in page.text
    assert "of 3 runs oldest asked" in page.text
    assert "wish 0." in page.text
    assert "wish 11." not in page.text
    assert "7 more in the table" in page.text
    assert "Run the command make" in page.text
    each = await ada.open("/?view=each")
    assert all(f"wish {number}." in each.text for number in range(12))
    assert "similar:" not in each.text


async def test_the_page_says_how_many_contents_are_approved() -> None:
    """Attack: one of many harmless contents is another one, and so is the name of an argument."""
    cells = [{"path": f"/{number}.md", "<b>t\u202e": "buy bread" if number != 7 else "sell"} for number in range(12)]
    groups = [CallGroup(key=KEY, title="t", cells=each) for each in cells]
    ada = await browser_with(Deciding([entry(number, group=one) for number, one in enumerate(groups)]))
    words = "path (12 values) and <b>t \\u202e (2 values)"
    assert f"They differ in {words}." in (await ada.open("/")).text
    page = await ada.open(f"/groups/{KEY}")
    assert f"12 differ in {words}." in page.text
    assert f"12 differ in {words}." in (await ada.send(page, page.form(scope="group"), what="approve-all")).text
    ticked = [("question", json.dumps(["run-1", f"a{one}", f"digest-{one}"])) for one in (4, 7)]
    fields = page.form(scope="group").fields.items()
    two = await ada.send_pairs(page, page.form(scope="group"), [*fields, ("what", "approve"), *ticked])
    assert "2 differ in path (2 values) and <b>t \\u202e (2 values)." in two.text
    same = CallGroup(key=KEY, title="t", cells=cells[0])
    ada = await browser_with(Deciding([entry(number, group=same) for number in range(2)]))
    assert "Every argument listed is the same." in (await ada.open("/")).text


async def test_an_entry_names_the_run_by_its_task_and_no_two_look_equal() -> None:
    waiting = Deciding([entry(0, summary="same"), entry(3, summary="same", group=None), entry(6, summary="same")])
    page = await (await browser_with(waiting)).open("/?view=each")
    assert "task 0" in page.text
    assert all(f"run-0 a{number}" in page.text for number in (0, 3, 6))


async def test_a_count_of_the_oldest_runs_alone_says_so(waiting: Deciding) -> None:
    waiting.further = 7
    assert (
        "12+ similar: Write files: *.md in /notes They differ in path (12 values). of 3+ runs"
        in (await (await browser_with(waiting)).open("/")).text
    )


async def test_what_is_ticked_is_shown_once_more_and_decided_as_it_was_shown(waiting: Deciding) -> None:
    ada = await browser_with(waiting)
    page = await ada.open(f"/groups/{KEY}")
    assert "12 questions of 3 runs" in page.text
    assert "content: x in all" in page.text
    form = page.form(scope="group")
    review = await ada.send(page, form, what="reject", question=json.dumps(["run-1", "a4", "digest-4"]))
    assert "Reject this question?" in review.text
    assert "/notes/4.md" in review.text
    assert "/notes/5.md" not in review.text
    assert waiting.decided == []
    without = await ada.send(review, review.form(decision="reject"), note=" ")
    assert (without.status, waiting.decided) == (422, [])
    assert "Say why" in without.text
    done = await ada.send(without, without.form(decision="reject"), note="not this one")
    ((question, decision),) = waiting.decided
    assert question == FrozenQuestion("run-1", "a4", "digest-4")
    assert (decision.decision, decision.note, decision.by) == (DecisionKind.REJECT, "not this one", "ada")
    assert "1 of 1 rejected" in done.text


async def test_all_are_the_whole_group_and_each_has_its_answer(waiting: Deciding) -> None:
    ada = await browser_with(waiting)
    waiting.fates = {"a3": (Fate.LATE, "approved by bob at 12:00:00 UTC"), "a5": (Fate.CHANGED, SCRIPT)}
    page = await ada.open(f"/groups/{KEY}")
    waiting.entries.append(entry(30))
    review = await ada.send(page, page.form(scope="group"), what="approve-all")
    assert "The page before had 12; there are 13 now, and these are all of them." in review.text
    waiting.entries.append(entry(33))  # after the selection was frozen
    done = await ada.send(review, review.form(decision="approve"))
    assert len(waiting.decided) == 13
    assert "11 of 13 approved" in done.text
    assert "late: somebody was faster: approved by bob at 12:00:00 UTC" in done.text
    assert "changed meanwhile, and not decided" in done.text
    assert SCRIPT not in done.html
    again = await ada.open(done.address)
    assert (again.status, len(waiting.decided)) == (200, 13)


async def test_what_has_changed_or_gone_since_is_left_out_and_counted(waiting: Deciding) -> None:
    ada = await browser_with(waiting)
    page = await ada.open(f"/groups/{KEY}")
    waiting.entries[4] = entry(4, digest="another")
    review = await ada.send(
        page, page.form(scope="group"), what="approve", question=json.dumps(["run-1", "a4", "digest-4"])
    )
    assert "1 of those that were chosen has changed, or needs no answer any more." in review.text
    assert review.forms == []


async def test_a_long_table_is_in_parts_and_says_what_its_ticks_are_for() -> None:
    waiting = Deciding([entry(number) for number in range(PAGE_ROWS + 5)])
    ada = await browser_with(waiting)
    first = await ada.open(f"/groups/{KEY}")
    assert f"Rows 1 to {PAGE_ROWS} of {PAGE_ROWS + 5}." in first.text
    assert first.html.count('name="question"') == PAGE_ROWS
    second = await ada.open(f"/groups/{KEY}?page=2")
    assert second.html.count('name="question"') == 5
    review = await ada.send(second, second.form(scope="group"), what="approve-all")
    assert f"Approve these {PAGE_ROWS + 5} questions?" in review.text


async def test_outcomes_are_shown_to_who_decided_alone(waiting: Deciding) -> None:
    app = build_app(UiSettings(TokenAccess(TOKENS), ("127.0.0.1:8234",)), cast("Any", waiting))
    ada, bob = await browser_with(app), await browser_with(app, "bob")
    page = await ada.open(f"/groups/{KEY}")
    review = await ada.send(page, page.form(scope="group"), what="approve-all")
    done = await ada.send(review, review.form(decision="approve"))
    assert (await ada.open(done.address)).status == 200
    assert (await bob.open(done.address)).status == 404


async def test_a_group_that_is_gone_says_so(waiting: Deciding) -> None:
    waiting.entries.clear()
    page = await (await browser_with(waiting)).open(f"/groups/{KEY}")
    assert page.status == 200
    assert "Nothing of it waits any more" in page.text


@pytest.mark.parametrize(
    "fields",
    [
        {"what": "modify"},
        {"what": "approve-some"},
        {"what": "approve", "question": "[1]"},
        {"what": "approve", "question": "["},
        {"what": "approve", "question": "[" * 100_000},
        {"what": "approve-all", "scope": "everything"},
        {"what": "approve-all", "of": ""},
    ],
)
async def test_a_form_that_makes_no_sense_decides_nothing(waiting: Deciding, fields: dict[str, str]) -> None:
    ada = await browser_with(waiting)
    page = await ada.open(f"/groups/{KEY}")
    assert (await ada.send(page, page.form(scope="group"), **fields)).status == 400
    review = await ada.send(page, page.form(scope="group"), what="approve-all")
    for selection in ("", "{}", "[[1]]", "[" * 100_000, "[]"):
        assert (await ada.send(review, review.form(decision="approve"), selection=selection)).status == 400
    assert waiting.decided == []


async def test_nothing_ticked_is_said_and_text_of_models_is_text(waiting: Deciding) -> None:
    hostile = CallGroup(key="a" * 16, title=SCRIPT, cells={SCRIPT: SCRIPT})
    other = CallGroup(key="a" * 16, title=SCRIPT, cells={SCRIPT: "\u202e"})
    waiting.entries += [entry(20, group=hostile, task=SCRIPT), entry(21, group=other, summary=SCRIPT)]
    ada = await browser_with(waiting)
    for address in ("/", "/?view=each", f"/groups/{'a' * 16}"):
        page = await ada.open(address)
        assert SCRIPT in page.text
        assert SCRIPT not in page.html
        assert "\u202e" not in page.html
    page = await ada.open(f"/groups/{KEY}")
    said = await ada.send(page, page.form(scope="group"), what="approve")
    assert said.status == 422
    assert "Tick the questions" in said.text


async def test_after_many_decisions_the_oldest_question_that_is_left_comes_next(waiting: Deciding) -> None:
    ada = await browser_with(waiting)
    waiting.fates = {"a3": (Fate.CHANGED, "")}
    page = await ada.open(f"/groups/{KEY}")
    review = await ada.send(page, page.form(scope="group"), what="approve-all")
    done = await ada.send(review, review.form(decision="approve"))
    # The list has them a moment longer; what has changed waits again.
    assert 'href="/runs/run-0/approvals/a3" data-key="j"' in done.html
    del waiting.entries[3]
    assert 'href="/runs/run-0/approvals/a12" data-key="j"' in (await ada.open(done.address)).html
    del waiting.entries[-1]
    assert 'data-key="j"' not in (await ada.open(done.address)).html


async def test_a_group_of_one_run_names_it_by_its_task_once() -> None:
    ada = await browser_with(Deciding([entry(number, run="only", task="tidy up") for number in range(4)]))
    assert (
        "4 similar: Write files: *.md in /notes They differ in path (4 values). of tidy up only oldest asked"
        in (await ada.open("/")).text
    )
    table = await ada.open(f"/groups/{KEY}")
    # In the head of the table, and hidden with each row for those who hear the page.
    assert table.text.count("tidy up") == 1
    assert "content: x in all" in table.text
