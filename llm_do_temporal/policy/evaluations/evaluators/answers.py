"""Evaluators of a case's answer: the worker's text, or its structured value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

from pydantic import field_validator

from llm_do_temporal.policy.evaluations.evaluators.base import BaseEvaluator, Finding, Seen
from llm_do_temporal.policy.evaluations.json_values import (
    json_path_steps,
    json_text,
    quoted,
    same_json,
    values_at,
)
from llm_do_temporal.policy.evaluations.scores import EvaluatorProblem

_PATH_FORM = "is no path like `$.scores[0].name`; names, positions and `*` are allowed"


def _checked_path(path: str) -> str:
    if json_path_steps(path) is None:
        raise ValueError(f"'{path[:80]}' {_PATH_FORM}")
    return path


class Equals(BaseEvaluator):
    """Passes where the answer is this value."""

    argument: ClassVar[str | None] = "value"
    kind: Literal["Equals"] = "Equals"
    value: Any
    """Value that the answer must be."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        return _equality(seen.facts.output, self.value)


class EqualsExpected(BaseEvaluator):
    """Passes where the answer is the expected one; a case that expects nothing has no score."""

    kind: Literal["EqualsExpected"] = "EqualsExpected"

    def evaluate(self, seen: Seen) -> Finding | None:
        """See BaseEvaluator."""
        return None if seen.expected is None else _equality(seen.facts.output, seen.expected)


def _equality(output: Any, wanted: Any) -> Finding:
    equal = same_json(output, wanted)
    return equal, "" if equal else f"{quoted(output)} is not {quoted(wanted)}"


class Contains(BaseEvaluator):
    """Passes where a text contains the value, a list has it as an item, or keys and values have all of its own."""

    argument: ClassVar[str | None] = "value"
    kind: Literal["Contains"] = "Contains"
    value: Any
    """Text, item, or keys and values, that the answer must have."""
    case_sensitive: bool = True
    """Whether capitals count, where texts are compared."""
    as_strings: bool = False
    """Whether both are compared as texts: anything but a text as its JSON."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        output = seen.facts.output
        if self.as_strings or (isinstance(self.value, str) and isinstance(output, str)):
            text, part = json_text(output), json_text(self.value)
            if not self.case_sensitive:
                text, part = text.casefold(), part.casefold()
            return _containment(part in text, output, self.value)
        if isinstance(output, Mapping):
            return _containment(_has_member(cast("Mapping[str, Any]", output), self.value), output, self.value)
        if isinstance(output, list | tuple):
            return _containment(
                any(same_json(item, self.value) for item in cast("list[Any]", output)), output, self.value
            )
        return _containment(False, output, self.value)


def _has_member(output: Mapping[str, Any], wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        members = cast("Mapping[str, Any]", wanted)
        return all(key in output and same_json(output[key], value) for key, value in members.items())
    return isinstance(wanted, str) and wanted in output


def _containment(found: bool, output: Any, wanted: Any) -> Finding:
    return found, "" if found else f"{quoted(output)} does not contain {quoted(wanted)}"


class IsInstance(BaseEvaluator):
    """Passes where the answer is of a type, by its name in Python: `str`, `int`, `float`, `bool`, `list`, `dict`."""

    argument: ClassVar[str | None] = "type_name"
    kind: Literal["IsInstance"] = "IsInstance"
    type_name: Literal["str", "int", "float", "bool", "list", "dict", "NoneType"]
    """Name of the type in Python."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        names = [one.__name__ for one in type(seen.facts.output).__mro__]
        return self.type_name in names, f"the answer is of type {names[0]}"


class Matches(BaseEvaluator):
    """Passes where a regular expression matches any part of the answer, or of the value at a path."""

    argument: ClassVar[str | None] = "pattern"
    kind: Literal["Matches"] = "Matches"
    pattern: str
    """Regular expression as JSON Schema has them: without back-references and look-behind, so that its work is linear.
    """
    path: str = "$"
    """Path of the value; all values that it leads to are looked at."""

    _check_path = field_validator("path")(_checked_path)

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        texts = [json_text(value) for value in values_at(seen.facts.output, json_path_steps(self.path) or ())]
        matched = any(seen.matchers.found(self.pattern, text) for text in texts)
        what = quoted(seen.facts.output) if texts else f"nothing is at {self.path}: {quoted(seen.facts.output)}"
        return matched, "" if matched else f"{what} does not match '{self.pattern[:100]}'"


class JsonPath(BaseEvaluator):
    """Judges the values at a path of a structured answer; without a comparison, the value itself is the score.

    With several values all of them must meet the comparisons.
    """

    argument: ClassVar[str | None] = "path"
    kind: Literal["JsonPath"] = "JsonPath"
    path: str
    """Path of the values, like `$.scores[*].value`."""
    equals: Any = None
    """Value that it must be; None: any."""
    one_of: tuple[Any, ...] | None = None
    """Values of which it must be one; None: any."""
    at_least: float | None = None
    """Smallest number that it may be."""
    at_most: float | None = None
    """Largest number that it may be."""
    exists: bool | None = None
    """Whether anything must be at the path, or nothing."""

    _check_path = field_validator("path")(_checked_path)

    @property
    def default_name(self) -> str:
        """See BaseEvaluator."""
        return f"JsonPath {self.path}"

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        found = values_at(seen.facts.output, json_path_steps(self.path) or ())
        if self.exists is not None and bool(found) is not self.exists:
            return False, f"there is {'nothing' if self.exists else quoted(found[0])} at {self.path}"
        if not self._compares:
            return (True, "") if self.exists is not None else self._score(found)
        if not found:
            return False, f"there is nothing at {self.path}"
        wrong = next((value for value in found if not self._fits(value)), None)
        fits = all(self._fits(value) for value in found)
        return fits, "" if fits else f"{quoted(wrong)} at {self.path}"

    @property
    def _compares(self) -> bool:
        return any(given is not None for given in (self.equals, self.one_of, self.at_least, self.at_most))

    def _fits(self, value: Any) -> bool:
        if self.equals is not None and not same_json(value, self.equals):
            return False
        if self.one_of is not None and not any(same_json(value, one) for one in self.one_of):
            return False
        if self.at_least is None and self.at_most is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def _score(self, found: list[Any]) -> Finding:
        if len(found) != 1:
            raise EvaluatorProblem(f"the score is one value, and there are {len(found)} at {self.path}")
        value = found[0]
        if isinstance(value, bool | str):
            return value, ""
        if not isinstance(value, int | float):
            raise EvaluatorProblem(f"a score is true, false, a number or a text, not {quoted(value)} at {self.path}")
        return float(value), ""


class FitsSchema(BaseEvaluator):
    """Passes where the answer fits a JSON Schema."""

    kind: Literal["FitsSchema"] = "FitsSchema"
    json_schema: dict[str, Any]
    """JSON Schema that the answer must fit."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        problems = seen.matchers.schema_problems(self.json_schema, seen.facts.output)
        return not problems, "; ".join(problems[:3])
