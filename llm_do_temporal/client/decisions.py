"""Decisions about many questions at once: each is decided by itself, and the first decision wins.

What is decided was frozen before: ids, each with the digest of what was shown. A question that changed meanwhile, or
that somebody else was faster at, stays as it is; the answer says so, question by question.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.errors import ConnectionFailed, DecisionRefused, LlmDoError, UsageError
from llm_do_temporal.messages.approvals import Approval, Decision, DecisionKind, UndoInput, Verdict
from llm_do_temporal.messages.base import DECIDE_SIGNAL

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient

RUNS_AT_ONCE = 16
"""Runs that are decided about side by side; of one run one question after the other: it takes ten updates at a time."""
NOT_AS_SHOWN = "it asks about something else than what was shown"
"""Reason why a decision does not count whose digest is not that of the question."""


class FrozenQuestion(NamedTuple):
    """Question as it was shown to whoever decides."""

    run: str
    id: str
    digest: str
    """Digest of the question; empty if it has none."""

    def undo(self, by: str) -> UndoInput:
        """Return what takes back, or lets take effect, the decision of `by` on this question and on no other."""
        return UndoInput(id=self.id, by=by, digest=self.digest or None)


class Fate(StrEnum):
    """Outcome of a decision about one question."""

    TAKEN = "taken"
    AGREED = "agreed"
    """The vote counts, and the question waits for others."""
    SENT = "sent"
    """No worker service has answered yet; one that starts takes it up."""
    LATE = "late"
    """Decided by somebody else, who was faster."""
    CHANGED = "changed"
    """Asked about something else than what was shown."""
    GONE = "gone"
    """Needed by nobody any more."""
    REFUSED = "refused"
    """Forbidden to this person."""
    UNKNOWN = "unknown"
    """The connection was lost: it may have been taken."""

    @property
    def counts(self) -> bool:
        """Whether the decision is taken, or on its way."""
        return self in (Fate.TAKEN, Fate.AGREED, Fate.SENT)


@dataclass(frozen=True)
class QuestionOutcome:
    """Answer about one of the questions."""

    question: FrozenQuestion
    fate: Fate
    words: str
    """The reason, or the people who were faster or must agree; for a decision that was taken empty."""
    until: datetime | None = None
    """Time at which a decision that was taken takes effect, and until which it can be taken back; None: at once."""

    def as_json(self) -> dict[str, str]:
        """Return the outcome as the command line prints it."""
        question = self.question
        return {"run": question.run, "id": question.id, "outcome": self.fate.value, "details": self.words}


@dataclass(frozen=True)
class UndoOutcome:
    """Answer about a decision that somebody wanted to take back."""

    question: FrozenQuestion
    is_open: bool
    """Whether the question is open again, or will be; else the decision stands."""
    words: str
    """The reason; empty where it was taken back at once."""


def seconds_until(effect: datetime) -> int:
    """Return the whole seconds for which a decision that takes effect then can be taken back; 0 once it has."""
    return max(0, ceil((effect - datetime.now(UTC)).total_seconds()))


async def decide_each(
    client: LlmDoClient,
    questions: Iterable[FrozenQuestion],
    decision: Decision,
    *,
    told: Callable[[QuestionOutcome], None] | None = None,
) -> list[QuestionOutcome]:
    """Decide each question by itself, and return the outcomes in the order of the questions.

    `decision` names no question; `told` hears of each outcome at once. Raises UsageError for a change of the arguments.
    """
    if decision.decision is DecisionKind.MODIFY:
        raise UsageError("calls are changed one by one: each has arguments of its own")
    asked = list(dict.fromkeys(questions))
    by_run: dict[str, list[FrozenQuestion]] = defaultdict(list)
    for question in asked:
        by_run[question.run].append(question)
    sender, turn = _Sender(client, decision), asyncio.Semaphore(RUNS_AT_ONCE)
    outcomes: dict[FrozenQuestion, QuestionOutcome] = {}

    async def decide_run(of_run: Sequence[FrozenQuestion]) -> None:
        async with turn:
            for question in of_run:
                outcomes[question] = await sender.decide(question)
                if told is not None:
                    told(outcomes[question])

    async with asyncio.TaskGroup() as group:
        for of_run in by_run.values():
            group.create_task(decide_run(of_run))
    return [outcomes[question] for question in asked]


async def undo_each(client: LlmDoClient, questions: Iterable[FrozenQuestion], by: str) -> list[UndoOutcome]:
    """Take back the decision on each of these questions by itself, in their order. Raises ConnectionFailed."""
    turn = asyncio.Semaphore(RUNS_AT_ONCE)

    async def undo(question: FrozenQuestion) -> UndoOutcome:
        async with turn:
            try:
                open_again = await client.undo(question.run, question.undo(by))
            except (DecisionRefused, UsageError) as refused:
                return UndoOutcome(question, is_open=False, words=refused.message)
        words = "" if open_again is not None else "sent, but no worker service has answered yet"
        return UndoOutcome(question, is_open=True, words=words)

    return list(await asyncio.gather(*(undo(one) for one in dict.fromkeys(questions))))


def counted(outcomes: Iterable[QuestionOutcome]) -> dict[Fate, int]:
    """Return the number of outcomes of each kind, in the order of the kinds; those that there are."""
    fates = [outcome.fate for outcome in outcomes]
    return {fate: fates.count(fate) for fate in Fate if fate in fates}


class _Sender:
    """Sends decisions. Waits for the answers of worker services as long as there may be one."""

    def __init__(self, client: LlmDoClient, decision: Decision) -> None:
        self._client = client
        self._decision = decision
        self._is_answered = False
        self._silent: set[str] = set()
        """Runs for which no worker service answered."""

    async def decide(self, question: FrozenQuestion) -> QuestionOutcome:
        """Decide one question."""
        named = {"id": question.id, "digest": question.digest or None}
        decision = self._decision.model_copy(update=named)
        try:
            if question.run in self._silent or (self._silent and not self._is_answered):
                return await self._signal(question, decision)
            taken = await self._client.decide(question.run, decision)
        except DecisionRefused as refused:
            self._is_answered = True
            return await self._why(question, refused)
        except UsageError as gone:
            return QuestionOutcome(question, Fate.GONE, gone.message)
        except ConnectionFailed as lost:
            return QuestionOutcome(question, Fate.UNKNOWN, lost.message)
        except LlmDoError as error:
            return QuestionOutcome(question, Fate.REFUSED, error.message)
        if taken is None:
            self._silent.add(question.run)
            return QuestionOutcome(question, Fate.SENT, "")
        self._is_answered = True
        return _taken(question, taken)

    async def _signal(self, question: FrozenQuestion, decision: Decision) -> QuestionOutcome:
        """Send the decision without waiting for an answer."""
        await self._client.status(question.run)  # who has not the run's keys can tell it nothing
        async with translated(question.run):
            handle = self._client.temporal.get_workflow_handle(question.run)
            await handle.signal(DECIDE_SIGNAL, decision)
        return QuestionOutcome(question, Fate.SENT, "")

    async def _why(self, question: FrozenQuestion, refused: DecisionRefused) -> QuestionOutcome:
        """Return why a decision was refused, as the run's history tells it."""
        try:
            asked = await self._client.questions(question.run)
        except LlmDoError:
            return QuestionOutcome(question, Fate.REFUSED, refused.message)
        found = next((one for one in asked if one.id == question.id), None)
        fate, words = _reason(question, found)
        return QuestionOutcome(question, fate, words or refused.message)


def _taken(question: FrozenQuestion, taken: Approval) -> QuestionOutcome:
    if taken.held is not None:
        return QuestionOutcome(question, Fate.TAKEN, "", taken.held.until)
    if taken.verdict is not None:
        return QuestionOutcome(question, Fate.TAKEN, "")
    agreed = f"{len(taken.votes)} of {taken.request.quorum} people have agreed"
    return QuestionOutcome(question, Fate.AGREED, agreed)


def _reason(question: FrozenQuestion, found: Question | None) -> tuple[Fate, str]:
    """Return what became of a question, and words about it; no words where the refusal has the best."""
    if found is None:
        return Fate.GONE, ""
    if question.digest and found.request.digest != question.digest:
        return Fate.CHANGED, NOT_AS_SHOWN
    if found.verdict is not None:
        return Fate.LATE, _who(found.verdict)
    if found.held is not None and not found.withdrawn:
        return Fate.LATE, _who(found.held.vote)
    if found.withdrawn:
        return Fate.GONE, "it needs no answer any more"
    if found.args != found.request.args:
        return Fate.CHANGED, f"{found.votes[-1].by or 'somebody'} has changed the arguments"
    return Fate.REFUSED, ""


def _who(verdict: Verdict) -> str:
    return f"{verdict.decision.done} by {verdict.by or 'somebody'} at {verdict.at:%H:%M:%S} UTC"
