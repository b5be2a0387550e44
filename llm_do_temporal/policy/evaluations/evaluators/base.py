"""Base of the evaluators: values with a name, each of which scores what it sees of a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pydantic import Field

from llm_do_temporal.policy.evaluations.facts import CaseFacts
from llm_do_temporal.policy.values import Value

Finding = tuple[bool | float | str, str]
"""Value of a score, and its reason."""


class Matchers(Protocol):
    """Judges of texts and values whose work is bounded. Each raises EvaluatorProblem where it cannot judge."""

    def found(self, pattern: str, text: str) -> bool:
        """Return whether the regular expression matches any part of the text."""
        ...

    def schema_problems(self, schema: Mapping[str, Any], value: Any) -> list[str]:
        """Return the problems of a value with a JSON Schema, a line each."""
        ...


@dataclass(frozen=True)
class Seen:
    """Case as an evaluator sees it."""

    expected: Any
    """Expected answer; None: the case has none."""
    facts: CaseFacts
    matchers: Matchers


class BaseEvaluator(Value):
    """Evaluator: keys as they stand in a file, and the score that follows from the facts of a case."""

    argument: ClassVar[str | None] = None
    """Key that is meant by `Name: value`; None: there is no such spelling."""

    evaluation_name: str | None = Field(default=None, min_length=1, max_length=100)
    """Name of the metric; None: it follows from the evaluator."""

    @property
    def metric(self) -> str:
        """Name of the metric that thresholds and comparisons know."""
        return self.evaluation_name or self.default_name

    @property
    def default_name(self) -> str:
        """Name of the metric where the file gives none."""
        return type(self).__name__

    def evaluate(self, seen: Seen) -> Finding | None:
        """Return the score and its reason; None: it does not apply to this case. Raises EvaluatorProblem."""
        raise NotImplementedError
