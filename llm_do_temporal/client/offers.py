"""Kinds that fit the call of a question, each with the calls of the run that it would have covered so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.policy.kinds.entries import GrantedKind, KindGrant
from llm_do_temporal.policy.kinds.kind import CallKind
from llm_do_temporal.policy.kinds.lessons import kinds_of


@dataclass(frozen=True)
class OfferedKind:
    """Kind that fits the call of a question."""

    kind: CallKind
    covered: tuple[Question, ...]
    """Other questions of the run that a grant of it would have answered, in order."""

    @property
    def refused(self) -> tuple[Question, ...]:
        """Questions among them that somebody rejected, or agreed to with other arguments only."""
        return tuple(
            one for one in self.covered if one.verdict is not None and one.verdict.decision is not DecisionKind.APPROVE
        )

    @property
    def so_far(self) -> str:
        """Number of calls that it would have covered so far, in words."""
        if not self.covered:
            return "no other call so far"
        calls = f"{len(self.covered)} {'call' if len(self.covered) == 1 else 'calls'} so far"
        if not self.refused:
            return calls
        return f"{calls}, {len(self.refused)} of them rejected or changed"

    def as_json(self) -> dict[str, Any]:
        """The object that `approvals RUN ID --kinds --json` prints."""
        ids, refused = [one.id for one in self.covered], [one.id for one in self.refused]
        kind = self.kind.as_mapping()
        return {"kind": kind, "sentence": self.kind.sentence, "covered": ids, "rejected_or_changed": refused}


async def read_kinds(client: LlmDoClient, run: str, approval_id: str) -> list[OfferedKind]:
    """Return the kinds that the call of this approval is one of, with what each would have covered so far in the run.

    Raises UsageError where there is no such approval. Needs no worker service.
    """
    questions = await client.questions(run)
    asked = next((one for one in questions if one.id == approval_id), None)
    if asked is None:
        raise UsageError(f"run '{run}' has asked nothing that is called '{approval_id}'")
    return offered_kinds(asked, questions)


def offered_kinds(question: Question, questions: Sequence[Question]) -> list[OfferedKind]:
    """Return the kinds that fit the call of the question, the most specific first; `questions` are those of its run."""
    request = question.request
    offers: list[OfferedKind] = []
    for kind in kinds_of(request.call):
        granted = GrantedKind.of(KindGrant(kind=kind), request.call, request.whom)
        covered = (
            one for one in questions if one.id != question.id and granted.covers(one.request.call, one.request.whom)
        )
        offers.append(OfferedKind(kind, tuple(covered)))
    return offers
