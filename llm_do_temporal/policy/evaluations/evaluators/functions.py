"""Evaluator that is a Python function of the workshop: named here, run elsewhere."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_do_temporal.policy.evaluations.evaluators.base import BaseEvaluator, Finding, Seen
from llm_do_temporal.policy.evaluations.scores import EvaluatorProblem


class Python(BaseEvaluator):
    """Calls a Python function with the facts of the case; what it returns is the score, or keys and scores."""

    argument: ClassVar[str | None] = "function"
    kind: Literal["Python"] = "Python"
    function: str = Field(min_length=1, max_length=200)
    """Reference like `evaluators.py:is_polite` or `evaluators.is_polite`: a file of the workshop, and a name in it."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the function, by their names."""

    @property
    def default_name(self) -> str:
        """See BaseEvaluator."""
        return self.function.rpartition(":")[2].rpartition(".")[2]

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        raise EvaluatorProblem("a Python function is run by an activity, and was not")
