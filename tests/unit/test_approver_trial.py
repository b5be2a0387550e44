"""The trial with forty questions: what it asks, what counts as right, and that its judge finds what is wrong."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from benchmarks.approver.judgement import opinion_on
from benchmarks.approver.score import score_of
from benchmarks.approver.stories import Story, Wish, stories
from llm_do_temporal.client import Question
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from tests.support.workflow.desk_questions import request

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def answered(story: Story, wish: Wish, number: int, kind: str = "", args: dict[str, Any] | None = None) -> Question:
    asked = request(key=str(number), worker=story.worker, tool=wish.tool, args=wish.args, capabilities=(), summary="s")
    given = args or {**wish.args, **wish.changed}
    verdict = Verdict(decision=DecisionKind(kind or wish.answer), by="ada", at=NOW, door="update", args=given)
    return Question(f"a{number}", story.run, asked, NOW, verdict=verdict)


def test_forty_questions_of_three_runs_of_which_three_are_wrong_and_two_to_be_changed() -> None:
    told = stories()
    wishes = [wish for story in told for wish in story.wishes]
    assert (len(told), len(wishes)) == (3, 40)
    assert Counter(wish.answer for wish in wishes) == {"approve": 35, "reject": 3, "modify": 2}
    assert all(bool(wish.changed) == (wish.answer == "modify") for wish in wishes)


def test_the_judge_knows_each_call_by_the_brief_from_its_arguments_alone() -> None:
    for story in stories():
        for wish in story.wishes:
            seen = {name: str(value).replace("**", "") for name, value in wish.args.items()}
            opinion = opinion_on(f"{wish.tool} {seen.get('path', seen.get('command', ''))}", seen)
            kind = "reject" if opinion.reason else "modify" if opinion.argument else "approve"
            assert kind == wish.answer, (story.run, wish, opinion)
            if opinion.argument:
                changed = wish.args[opinion.argument].replace(opinion.old, opinion.new, 1)
                assert changed == wish.changed[opinion.argument]


def test_an_answer_is_right_or_the_score_says_what_became_of_it() -> None:
    told = stories()
    asked = {story.run: [answered(story, wish, number) for number, wish in enumerate(story.wishes)] for story in told}
    right = score_of(asked, told)
    assert (right.right, right.decided, right.misses) == (40, 40, [])
    decks = told[0]
    number, changed = next((at, wish) for at, wish in enumerate(decks.wishes) if wish.answer == "modify")
    for question, words in (
        (answered(decks, changed, number, "approve"), "approve by ada"),
        (answered(decks, changed, number, args={**changed.args, "content": "x"}), "changed to another content"),
        (answered(decks, changed, number, args={**changed.args, **changed.changed, "path": "/x"}), "another path"),
    ):
        wrong = score_of({**asked, "decks": [*asked["decks"][:number], question, *asked["decks"][number + 1 :]]}, told)
        assert wrong.right == 39
        assert words in str(wrong.misses[0])
    missing = score_of({**asked, "billing": []}, told)
    assert missing.right == 25
    assert "not answered" in str(missing.misses[0])
