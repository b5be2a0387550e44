"""Evaluators of what a case spent: turns, calls, dollars, seconds."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from llm_do_temporal.policy.evaluations.evaluators.base import BaseEvaluator, Finding, Seen
from llm_do_temporal.policy.evaluations.scores import EvaluatorProblem


class MaxTurns(BaseEvaluator):
    """Passes where all workers of the case together took at most so many turns of their models."""

    argument: ClassVar[str | None] = "turns"
    kind: Literal["MaxTurns"] = "MaxTurns"
    turns: int = Field(ge=0)
    """Most turns."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        turns = seen.facts.usage.turns
        return turns <= self.turns, f"{turns} turns"


class MaxToolCalls(BaseEvaluator):
    """Passes where at most so many calls of tools were run."""

    argument: ClassVar[str | None] = "max_calls"
    kind: Literal["MaxToolCalls"] = "MaxToolCalls"
    max_calls: int = Field(ge=0)
    """Most calls."""
    include_failed: bool = True
    """Whether calls that failed count."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        count = sum(call.outcome == "done" or (self.include_failed and call.ran) for call in seen.facts.calls)
        return count <= self.max_calls, f"{count} calls"


class MaxDollars(BaseEvaluator):
    """Passes where the case cost at most so many US dollars; where a price is not known, there is no score."""

    argument: ClassVar[str | None] = "dollars"
    kind: Literal["MaxDollars"] = "MaxDollars"
    dollars: float = Field(ge=0, allow_inf_nan=False)
    """Most US dollars."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        cost = seen.facts.usage.cost
        if cost is None:
            raise EvaluatorProblem("the cost is not known: a model has no price")
        return cost <= self.dollars, f"{cost:.4f} dollars"


class MaxSeconds(BaseEvaluator):
    """Passes where the case took at most so many seconds, without the time for which people were waited for."""

    argument: ClassVar[str | None] = "seconds"
    kind: Literal["MaxSeconds"] = "MaxSeconds"
    seconds: float = Field(ge=0, allow_inf_nan=False)
    """Most seconds."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        seconds = seen.facts.seconds
        if seconds is None:
            raise EvaluatorProblem("the time is not known")
        return seconds <= self.seconds, f"{seconds:.1f} seconds"
