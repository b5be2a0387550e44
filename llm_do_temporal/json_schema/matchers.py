"""Patterns and schemas of an evaluation's evaluators, run over answers of models with bounded work."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from llm_do_temporal.json_schema.patterns import Patterns
from llm_do_temporal.json_schema.steps import Steps, TooMuchWork, UnusableSchema
from llm_do_temporal.json_schema.validation import find_problems
from llm_do_temporal.policy.evaluations.scores import EvaluatorProblem


class BoundedMatchers:
    """Judge of texts and values for evaluators. Each raises EvaluatorProblem where it cannot judge."""

    def found(self, pattern: str, text: str) -> bool:
        """Return whether the regular expression matches any part of the text."""
        try:
            return _patterns(pattern).found(pattern, text, Steps())
        except (UnusableSchema, TooMuchWork) as error:
            raise EvaluatorProblem(str(error)) from error

    def schema_problems(self, schema: Mapping[str, Any], value: Any) -> list[str]:
        """Return the problems of a value with a JSON Schema, a line each."""
        try:
            return find_problems(schema, value)
        except UnusableSchema as error:
            raise EvaluatorProblem(f"its schema cannot be used: {error}") from error


def pattern_problem(pattern: str) -> str | None:
    """Return why a regular expression cannot be used; None for a usable one."""
    return _patterns(pattern).problem(pattern)


@lru_cache(maxsize=64)
def _patterns(pattern: str) -> Patterns:
    return Patterns([pattern])
