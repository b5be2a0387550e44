"""Time that the questions of a run waited until they were decided; pure."""

from __future__ import annotations

from llm_do_temporal.messages.approvals import DeskState
from llm_do_temporal.messages.budget import Waits


def waits_of(state: DeskState) -> Waits:
    """Return the sum over all questions so far; those that a grant or a rule answers do not wait."""
    total = state.waited
    for approval in state.approvals:
        if approval.verdict is None or approval.verdict.door in ("grant", "rule"):
            continue
        seconds = max(0, round((approval.verdict.at - approval.asked_at).total_seconds()))
        total = total.plus(Waits(questions=1, seconds=seconds, longest=seconds))
    return total
