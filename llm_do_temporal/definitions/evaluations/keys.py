"""Keys of evaluation files, as people write them: models, JSON Schema for editors, and entries of evaluators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, cast

from pydantic import Field

from llm_do_temporal.definitions.keys.toolsets import Text
from llm_do_temporal.definitions.yaml.documents import Document, KeyPath, Problem, did_you_mean, read_strictly
from llm_do_temporal.json_schema import find_schema_problems
from llm_do_temporal.json_schema.validation import pattern_problem
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.messages.definitions import Turns
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.evaluations.evaluators import EVALUATORS, BaseEvaluator, Evaluator, FitsSchema, Matches
from llm_do_temporal.policy.evaluations.facts import Json
from llm_do_temporal.policy.evaluations.spec import (
    DEFAULT_CONCURRENCY,
    MAX_CASES,
    MAX_CONCURRENCY,
    MAX_REPEATS,
    CaseId,
    DecideEntry,
    JudgeSpec,
)

EvaluatorEntry = str | dict[str, Any]
"""`Name`, `Name: argument` or `Name: {key: value}`."""


class ThresholdKeys(Strict):
    """Bound for a metric."""

    at_least: Annotated[float, Field(allow_inf_nan=False)] | None = None
    at_most: Annotated[float, Field(allow_inf_nan=False)] | None = None
    label: Text | None = None


class CaseKeys(Strict):
    """A case of an evaluation file."""

    name: CaseId | None = None
    inputs: Json = None
    prompt: str | None = None
    attachments: tuple[Text, ...] = ()
    expected_output: Json = None
    metadata: Json = None
    decide: tuple[DecideEntry, ...] | None = None
    evaluators: tuple[EvaluatorEntry, ...] = ()


class EvaluationFile(Strict):
    """An evaluation file."""

    name: Text | None = None
    worker: Text | None = None
    prompt: str = ""
    cases: tuple[CaseKeys, ...] = Field(default=(), max_length=MAX_CASES)
    repeats: int = Field(default=1, ge=1, le=MAX_REPEATS)
    evaluators: tuple[EvaluatorEntry, ...] = ()
    judge: JudgeSpec | None = None
    thresholds: dict[str, ThresholdKeys] = Field(default_factory=dict)
    decide: tuple[DecideEntry, ...] = ()
    concurrency: int = Field(default=DEFAULT_CONCURRENCY, ge=1, le=MAX_CONCURRENCY)
    model: Text | None = None
    turns: Turns | None = None
    limits: Limits = Limits()


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
    known = sorted([*EVALUATORS, *THEIRS])
    step = did_you_mean(name, known, "For one of your own write `Python: FILE.py:NAME`.")
    return Problem(file, line, f"unknown evaluator '{name[:80]}'; known: {', '.join(known)}", next_step=step)


def _names(kind: type[BaseEvaluator]) -> Sequence[str]:
    return [name for name in kind.model_fields if name != "kind"]


def _dotted(path: KeyPath) -> str:
    return ".".join(str(part) for part in path)


_Schema = dict[str, Any]
_ENTRY = "EvaluatorEntry"


def evaluation_schema() -> _Schema:
    """Return the JSON Schema of evaluation files."""
    schema: _Schema = EvaluationFile.model_json_schema()
    defs = cast("dict[str, _Schema]", schema["$defs"])
    forms: list[_Schema] = []
    for name, kind in EVALUATORS.items():
        forms += _forms(name, kind, defs, {})
    for name, (ours, renamed) in THEIRS.items():
        forms += _forms(name, EVALUATORS[ours], defs, {value: key for key, value in renamed.items()})
    defs[_ENTRY] = {"anyOf": forms}
    entries = {"type": "array", "items": {"$ref": f"#/$defs/{_ENTRY}"}}
    properties, case = schema["properties"], defs["CaseKeys"]["properties"]
    properties["evaluators"] = case["evaluators"] = entries
    properties["judge"] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/JudgeSpec"}]}
    bound = {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/ThresholdKeys"}]}
    properties["thresholds"] = {"type": "object", "additionalProperties": bound}
    properties["$schema"] = {"type": "string", "description": "Address of this schema, for editors."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "required": ["cases"]}


def _forms(name: str, kind: type[BaseEvaluator], defs: dict[str, _Schema], renamed: dict[str, str]) -> list[_Schema]:
    """Return the schemas of the spellings of one evaluator, whose inner definitions are added to `defs`."""
    keys: _Schema = kind.model_json_schema(ref_template="#/$defs/{model}")
    defs.update(keys.pop("$defs", {}))
    del keys["properties"]["kind"]
    keys["properties"] = {renamed.get(key, key): value for key, value in keys["properties"].items()}
    required = [renamed.get(key, key) for key in keys.get("required", ())]
    if required:
        keys["required"] = required
    about = str(keys.get("description", ""))
    forms: list[_Schema] = [_named(name, keys, about)]
    argument = kind.argument
    if argument is not None:
        shape = keys["properties"][renamed.get(argument, argument)]
        forms.append(_named(name, {**shape, "not": {"type": "object"}, "description": about}, about))
    if not required:
        forms.append({"const": name, "description": about})
    return forms


def _named(name: str, shape: _Schema, about: str) -> _Schema:
    return {
        "type": "object",
        "properties": {name: shape},
        "required": [name],
        "additionalProperties": False,
        "description": about,
    }
