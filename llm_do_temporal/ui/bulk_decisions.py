"""Decisions about many questions that the page is taking, or has taken: each person finds the outcomes of their own.

Held in memory: what was decided stands in the histories of the runs, whatever becomes of this page.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from llm_do_temporal.client import FrozenQuestion, LlmDoClient, QuestionOutcome
from llm_do_temporal.client.decisions import UndoOutcome, undo_each
from llm_do_temporal.messages.approvals import Decision, DecisionKind

MOST_KEPT = 100
"""Finished decisions whose outcomes are kept, the newest ones."""


@dataclass
class BulkDecision:
    """Decision about many questions, as far as it has come."""

    id: str
    by: str
    kind: DecisionKind
    questions: list[FrozenQuestion]
    outcomes: list[QuestionOutcome] = field(default_factory=list[QuestionOutcome])
    undone: dict[FrozenQuestion, UndoOutcome] = field(default_factory=dict[FrozenQuestion, UndoOutcome])
    """Answers about decisions that were to be taken back."""
    task: asyncio.Task[None] | None = None

    @property
    def is_done(self) -> bool:
        """Whether every question has an outcome, or none will follow."""
        return self.task is None or self.task.done()

    @property
    def held(self) -> list[QuestionOutcome]:
        """Outcomes of decisions that were held, and that nobody wanted to take back."""
        return [one for one in self.outcomes if one.until is not None and one.question not in self.undone]

    def is_undone(self, question: FrozenQuestion) -> bool:
        """Whether the decision on this question was taken back."""
        return question in self.undone and self.undone[question].is_open

    async def undo(self, client: LlmDoClient) -> None:
        """Take all of it back that has not taken effect."""
        questions = [one.question for one in self.held]
        for outcome in await undo_each(client, questions, self.by):
            self.undone[outcome.question] = outcome


class BulkDecisions:
    """The decisions of one page, by id."""

    def __init__(self) -> None:
        self._known: dict[str, BulkDecision] = {}

    def begin(self, client: LlmDoClient, questions: Sequence[FrozenQuestion], decision: Decision) -> BulkDecision:
        """Begin to decide these questions, and return what becomes of it."""
        self._forget_old()
        bulk = BulkDecision(secrets.token_urlsafe(16), decision.by, decision.decision, list(questions))
        bulk.task = asyncio.create_task(_decide(client, bulk, decision))
        self._known[bulk.id] = bulk
        return bulk

    def find(self, bulk_id: str, by: str) -> BulkDecision | None:
        """Return a decision of this person; None where there is none, or it is no longer kept."""
        found = self._known.get(bulk_id)
        return found if found is not None and found.by == by else None

    def _forget_old(self) -> None:
        done = [bulk.id for bulk in self._known.values() if bulk.is_done]
        for old in done[: max(len(done) - MOST_KEPT + 1, 0)]:
            del self._known[old]


async def _decide(client: LlmDoClient, bulk: BulkDecision, decision: Decision) -> None:
    await client.decide_many(bulk.questions, decision, told=bulk.outcomes.append)
