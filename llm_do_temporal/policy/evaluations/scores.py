"""Scores of a case, and failures of evaluators, which are no scores."""

from __future__ import annotations

from pydantic import StrictBool, StrictFloat, StrictStr

from llm_do_temporal.policy.files.encodings import whole_characters
from llm_do_temporal.policy.values import Value

MAX_REASON_CHARS = 500
"""Longest reason of a score; the rest is cut off: reasons quote answers of models."""


class CaseScore(Value):
    """Score that an evaluator gave a case."""

    name: str
    """Name of the metric."""
    value: StrictBool | StrictFloat | StrictStr
    """Pass or fail, a number of which more is better, or a label."""
    reason: str = ""


class EvaluatorFailure(Value):
    """Evaluator that could not judge a case; the case has no score of it."""

    name: str
    message: str


class CaseScores(Value):
    """Scores and failures of a case, in the order of its evaluators."""

    scores: tuple[CaseScore, ...] = ()
    failures: tuple[EvaluatorFailure, ...] = ()

    def plus(self, other: CaseScores) -> CaseScores:
        """Return the scores and failures of both."""
        return CaseScores(scores=(*self.scores, *other.scores), failures=(*self.failures, *other.failures))


class EvaluatorProblem(Exception):
    """Reason for which an evaluator cannot judge a case; `str()` of it is for people."""


def shortened(text: str, limit: int = MAX_REASON_CHARS) -> str:
    """Return the text in whole characters, with dots in the place of its end where it has more than the limit."""
    text = whole_characters(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
