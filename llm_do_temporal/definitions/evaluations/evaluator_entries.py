"""Entries of `evaluators:` in their three spellings, each read into the evaluator that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, cast

from llm_do_temporal.definitions.yaml.lines import Document, KeyPath
from llm_do_temporal.definitions.yaml.problems import Problem
from llm_do_temporal.definitions.yaml.validation import read_strictly
from llm_do_temporal.json_schema import find_schema_problems
from llm_do_temporal.json_schema.validation import pattern_problem
from llm_do_temporal.policy.evaluations.evaluators import EVALUATORS, BaseEvaluator, Evaluator, FitsSchema, Matches

THEIRS = {"MaxModelRequests": ("MaxTurns", {"max_requests": "turns"}), "MaxDuration": ("MaxSeconds", dict[str, str]())}
"""Evaluators of pydantic-evals that have another name here: that name, and the names of their keys."""
_JUDGES = ("LLMJudge", "GEval")
_SPANS = "HasMatchingSpan"
_FORMS = "Write `Name`, `Name: argument` or `Name: {key: value}`."


def read_evaluators(
    entries: Any, path: KeyPath, document: Document, *, file: str
) -> tuple[tuple[Evaluator, ...], list[Problem]]:
    """Return the evaluators that stand at `path` of a document, and the problems of the others."""
    if entries is None:
        return (), []
    if not isinstance(entries, list):
        message = f"'{_dotted(path)}' should be a list of evaluators"
        return (), [Problem(file, document.line_of(path), message, next_step=_FORMS)]
    found: list[Evaluator] = []
    problems: list[Problem] = []
    for place, entry in enumerate(cast("list[Any]", entries)):
        evaluator, wrong = _evaluator(entry, (*path, place), document, file)
        problems += wrong
        if evaluator is not None:
            found.append(cast("Evaluator", evaluator))
    return tuple(found), problems


def _evaluator(entry: Any, path: KeyPath, document: Document, file: str) -> tuple[BaseEvaluator | None, list[Problem]]:
    line = document.line_of(path)
    if isinstance(entry, str):
        name, given = entry, dict[str, Any]()
    elif isinstance(entry, dict) and len(cast("dict[str, Any]", entry)) == 1:
        ((name, given),) = cast("dict[str, Any]", entry).items()
    else:
        return None, [Problem(file, line, f"'{_dotted(path)}' is no evaluator", next_step=_FORMS)]
    ours, renamed = THEIRS.get(name, (name, {}))
    kind = EVALUATORS.get(ours)
    if kind is None:
        return None, [_unknown(name, file, line)]
    keys = _keys(kind, given)
    if keys is None:
        message = f"'{name}' takes keys: {', '.join(_names(kind))}"
        return None, [Problem(file, line, message, next_step=f"Write `{name}: {{key: value}}`.")]
    values = {renamed.get(key, key): value for key, value in keys.items()}
    here: KeyPath = (*path, name)
    inner = _inner(document, here, values)
    evaluator, problems = read_strictly(kind, inner, file=file)
    problems = [replace(problem, message=f"{name}: {problem.message}") for problem in problems]
    if evaluator is not None:
        problems += [
            Problem(file, inner.line_of(where) or line, f"{name}: {message}") for where, message in _unusable(evaluator)
        ]
    return (None, problems) if problems else (evaluator, [])


def _keys(kind: type[BaseEvaluator], given: Any) -> dict[str, Any] | None:
    """Return the keys that an entry gives; None for an argument where the evaluator has none by itself."""
    if isinstance(given, dict):
        return cast("dict[str, Any]", given)
    return None if kind.argument is None else {kind.argument: given}


def _inner(document: Document, here: KeyPath, values: dict[str, Any]) -> Document:
    """Return the keys of one evaluator as a document of their own, with the lines of the whole one."""
    size = len(here)
    lines = {path[size:]: line for path, line in document.lines.items() if path[:size] == here}
    lines[()] = document.line_of(here) or 1
    lines |= {(key,): lines[()] for key in values if (key,) not in lines}
    return Document(values, lines)


def _unusable(evaluator: BaseEvaluator) -> Iterator[tuple[KeyPath, str]]:
    """Yield what only those who run patterns and schemas know to be wrong."""
    if isinstance(evaluator, Matches):
        problem = pattern_problem(evaluator.pattern)
        if problem is not None:
            yield ("pattern",), problem
    if isinstance(evaluator, FitsSchema):
        for path, message in find_schema_problems(evaluator.json_schema):
            yield ("json_schema", *path), f"'json_schema': {message}"


def _unknown(name: str, file: str, line: int | None) -> Problem:
    if name in _JUDGES:
        message = f"'{name}' is not read: here a judge is a worker"
        return Problem(file, line, message, next_step="Write its rubric into a worker file, and `judge: NAME` here.")
    if name == _SPANS:
        message = f"'{name}' is not read: evaluators look at calls, not at spans"
        return Problem(file, line, message, next_step="Write `Called: TOOL` or `CallOrder: [TOOL, TOOL]`.")
    close = get_close_matches(name, _all_names(), n=1)
    step = f"Did you mean '{close[0]}'?" if close else "For one of your own write `Python: FILE.py:NAME`."
    return Problem(file, line, f"unknown evaluator '{name[:80]}'; known: {', '.join(_all_names())}", next_step=step)


def _all_names() -> list[str]:
    return sorted([*EVALUATORS, *THEIRS])


def _names(kind: type[BaseEvaluator]) -> Sequence[str]:
    return [name for name in kind.model_fields if name != "kind"]


def _dotted(path: KeyPath) -> str:
    return ".".join(str(part) for part in path)
