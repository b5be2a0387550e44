"""Many decisions at once: each question is decided by itself, and each has its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import RUNS_AT_ONCE, Fate, FrozenQuestion, QuestionOutcome, counted
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.errors import ConnectionFailed, DecisionRefused, LlmDoError, UsageError
from llm_do_temporal.messages.approvals import (
    Approval,
    Decision,
    DecisionKind,
    RequestApprovalInput,
    Verdict,
)
from llm_do_temporal.policy.identity import IDENTITY_VERSION

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
APPROVE = Decision(decision=DecisionKind.APPROVE, by="ada")


def asked(run: str, number: int = 1, **request: Any) -> Question:
    told = {"invocation": run, "key": f"k{number}", "worker": "w", "path": "main", "tool": "t", "args": {"x": 1}}
    facts = told | {"capabilities": (), "summary": "s", "identity_version": IDENTITY_VERSION} | request
    return Question(f"a{number}", run, RequestApprovalInput.model_validate(facts), NOON)


def verdict(by: str = "bob", **more: Any) -> Verdict:
    facts = {"decision": "reject", "args": {"x": 1}, "by": by, "at": NOON, "door": "update"} | more
    return Verdict.model_validate(facts)


def held() -> Verdict:
    return verdict().model_copy(update={"effective_at": NOON})


def frozen(question: Question) -> FrozenQuestion:
    return FrozenQuestion(question.run, question.id, question.request.digest)


class Desks(LlmDoClient):
    """Desks of runs with these questions. `failures` has what becomes of decisions about a run instead."""

    def __init__(self, questions: Iterable[Question], failures: dict[str, LlmDoError | None] | None = None) -> None:
        super().__init__(cast("Any", None))
        self._questions = {(one.run, one.id): one for one in questions}
        self._failures = failures or {}
        self.taken: list[Decision] = []
        self.sent: list[Decision] = []
        self.at_once = self.most_at_once = 0
        self.under_way: set[str] = set()

    async def decide(self, run: str, decision: Decision, *, is_sent_only: bool = False) -> Approval | None:
        """See LlmDoClient."""
        if is_sent_only:
            self.sent.append(decision)
            return None
        assert run not in self.under_way, "of one run, one question after the other"
        self.under_way.add(run)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        for _ in range(3):
            await asyncio.sleep(0)
        self.at_once -= 1
        self.under_way.remove(run)
        if run in self._failures:
            failure = self._failures[run]
            if failure is not None:
                raise failure
            return None
        question = self._questions.get((run, str(decision.id)))
        if question is None or not question.is_open or question.request.digest != decision.digest or question.votes:
            raise DecisionRefused("no")
        self.taken.append(decision)
        is_decided = question.request.quorum == 1
        by = verdict(decision.by, decision=decision.decision)
        return Approval(
            id=question.id,
            asked_at=NOON,
            request=question.request,
            votes=() if is_decided else (by,),
            verdict=by if is_decided else None,
        )

    async def questions(self, run: str) -> list[Question]:
        """See LlmDoClient."""
        return [one for one in self._questions.values() if one.run == run]


async def test_each_question_is_decided_as_it_was_shown() -> None:
    questions = [asked("one", 1), asked("two", 1), asked("one", 2)]
    desks, told = Desks(questions), list[QuestionOutcome]()
    outcomes = await desks.decide_many(map(frozen, questions), APPROVE, told=told.append)
    assert [one.question for one in outcomes] == [frozen(one) for one in questions]
    assert {one.fate for one in outcomes} == {Fate.TAKEN}
    assert sorted((one.id, one.digest) for one in desks.taken) == sorted(
        (one.id, one.request.digest) for one in questions
    )
    assert {one.question for one in told} == set(map(frozen, questions))


@pytest.mark.parametrize(
    ("now", "fate", "words"),
    [
        (replace(asked("one"), verdict=verdict()), Fate.LATE, "rejected by bob at 12:00:00 UTC"),
        (replace(asked("one"), held=held()), Fate.LATE, "rejected by bob at 12:00:00 UTC"),
        (replace(asked("one"), held=held(), withdrawn=True), Fate.GONE, "no answer"),
        (replace(asked("one"), withdrawn=True), Fate.GONE, "no answer"),
        (asked("one", args={"x": 2}), Fate.CHANGED, "something else"),
        (replace(asked("one"), votes=(verdict("eve", args={"x": 3}),)), Fate.CHANGED, "eve has changed the arguments"),
        (replace(asked("one"), votes=(verdict("eve"),)), Fate.REFUSED, "no"),
        (asked("one", 2), Fate.GONE, "no"),
    ],
)
async def test_what_is_not_taken_says_why(now: Question, fate: Fate, words: str) -> None:
    (outcome,) = await Desks([now]).decide_many([frozen(asked("one"))], APPROVE)
    assert outcome.fate is fate
    assert words in outcome.words
    assert not outcome.fate.counts


async def test_a_vote_counts_and_waits_for_others() -> None:
    question = asked("one", quorum=2)
    (outcome,) = await Desks([question]).decide_many([frozen(question)], APPROVE)
    assert (outcome.fate, outcome.words) == (Fate.AGREED, "1 of 2 people have agreed")


async def test_what_is_taken_back_is_told_question_by_question() -> None:
    class Held(Desks):
        async def decide(self, run: str, decision: Decision, *, is_sent_only: bool = False) -> Approval | None:
            assert (decision.by, decision.decision) == ("ada", None)
            if run == "late":
                raise DecisionRefused("it has taken effect")
            asked_so = self._questions[run, decision.id or ""]
            return None if run == "asleep" else Approval(id="a1", asked_at=NOON, request=asked_so.request)

    questions = [asked(run) for run in ("fine", "late", "asleep")]
    outcomes = await Held(questions).decide_many(
        [*map(frozen, questions), frozen(questions[0])], Decision(decision=None, by="ada")
    )
    assert [(one.question.run, one.fate.counts, one.words) for one in outcomes] == [
        ("fine", True, ""),
        ("late", False, "it has taken effect"),
        ("asleep", True, ""),
    ]


async def test_one_failure_hides_no_other_outcome() -> None:
    questions = [asked(run) for run in ("lost", "gone", "fine")]
    failures: dict[str, LlmDoError | None] = {
        "lost": ConnectionFailed("no answer"),
        "gone": UsageError("there is no run 'gone'"),
    }
    outcomes = await Desks(questions, failures).decide_many(map(frozen, questions), APPROVE)
    assert [one.fate for one in outcomes] == [Fate.UNKNOWN, Fate.GONE, Fate.TAKEN]
    assert counted(outcomes) == {Fate.TAKEN: 1, Fate.GONE: 1, Fate.UNKNOWN: 1}


async def test_runs_are_decided_side_by_side_up_to_a_bound() -> None:
    questions = [asked(f"run-{number}", each) for number in range(3 * RUNS_AT_ONCE) for each in (1, 2)]
    desks = Desks(questions)
    await desks.decide_many(map(frozen, questions), APPROVE)
    assert desks.most_at_once == RUNS_AT_ONCE
    assert len(desks.taken) == len(questions)


async def test_where_no_worker_service_answers_the_rest_is_sent_without_waiting() -> None:
    questions = [asked(f"run-{number}", each) for number in range(2 * RUNS_AT_ONCE) for each in (1, 2)]
    desks = Desks(questions, dict.fromkeys({one.run for one in questions}))
    outcomes = await desks.decide_many(map(frozen, questions), APPROVE)
    assert counted(outcomes) == {Fate.SENT: len(questions)}
    assert len(desks.sent) == len(questions) - RUNS_AT_ONCE
    digests = {one.request.digest for one in questions}
    assert all(one.digest in digests for one in desks.sent)


async def test_a_question_that_is_named_twice_is_decided_once() -> None:
    question = asked("one")
    assert len(await Desks([question]).decide_many([frozen(question)] * 2, APPROVE)) == 1


async def test_arguments_are_not_changed_by_the_dozen() -> None:
    desks = Desks([asked("one")])
    with pytest.raises(UsageError, match="one by one"):
        await desks.decide_many([frozen(asked("one"))], APPROVE.model_copy(update={"decision": DecisionKind.MODIFY}))
    assert desks.taken == []
