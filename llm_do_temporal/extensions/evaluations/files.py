"""Evaluation file: read within bounds, its keys validated, every mistake collected with its line.

No attachment is read. That the worker and the judge exist is checked for a whole workshop alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

from pydantic import Field

from llm_do_temporal.definitions.keys.toolsets import Text
from llm_do_temporal.definitions.protection import check_protected
from llm_do_temporal.definitions.schemas.published import Schema, explain
from llm_do_temporal.definitions.tools.authors_code import PythonFile
from llm_do_temporal.definitions.tools.python_tools import read_source
from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX, is_ignored
from llm_do_temporal.definitions.yaml.documents import (
    Document,
    KeyPath,
    Problem,
    Unreadable,
    check_inside,
    decode,
    did_you_mean,
    label_of,
    parse_yaml,
    raise_first,
    read_bytes,
    read_strictly,
    validate,
)
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.extensions.evaluations.policy import EVALUATION_SUFFIX
from llm_do_temporal.extensions.evaluations.policy.experiment import case_in_id
from llm_do_temporal.extensions.evaluations.policy.scores import (
    DEFAULT_CONCURRENCY,
    EVALUATORS,
    FIGURES,
    MAX_CASES,
    MAX_CONCURRENCY,
    MAX_REPEATS,
    BaseEvaluator,
    Bound,
    CaseId,
    DecideEntry,
    EqualsExpected,
    EvaluationCase,
    EvaluationSettings,
    EvaluationSpec,
    Evaluator,
    FitsSchema,
    Json,
    JudgeSpec,
    Matches,
    Python,
    Threshold,
    repeated_metric,
)
from llm_do_temporal.json_schema import find_schema_problems
from llm_do_temporal.json_schema.validation import pattern_problem
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.messages.definitions import Turns
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.identity import digest_of

MIN_SHAPE = "An evaluation file has `worker: NAME`, and `cases:` with a list of `name:` and `inputs:`."
_NO_DOCUMENT = Document(None)
_SCHEMA_KEY = "$schema"
_IGNORED = "report_evaluators"


@dataclass(frozen=True)
class ParsedEvaluation:
    """Evaluation file that was read."""

    label: str
    """Path of the file below the workshop."""
    sha256: str
    """Digest of the file's bytes; empty for a file that could not be read."""
    spec: EvaluationSpec | None
    """Evaluation; None for a file with mistakes."""
    problems: tuple[Problem, ...]
    document: Document = _NO_DOCUMENT
    """Keys as they stand in the file, with their lines."""


def read_evaluation(path: Path, root: Path, *, worker: str | None = None) -> ParsedEvaluation:
    """Read the evaluation file at `path` in the workshop `root`; its mistakes are in the result.

    `worker` is evaluated instead of the file's own.
    """
    label = label_of(path, root)
    try:
        check_protected(path, root, "an evaluation")
        content = read_bytes(path, root)
        text = decode(content, label)
    except Unreadable as error:
        return ParsedEvaluation(label, "", None, (Problem(label, None, str(error)),))
    parsed = _Reader(label, path.parent, root, text, worker).read()
    return replace(parsed, sha256=hashlib.sha256(content).hexdigest())


def load_evaluation(path: Path, root: Path, *, worker: str | None = None) -> EvaluationSpec:
    """Return the evaluation in the file at `path`. Raises DefinitionError for its first mistake."""
    parsed = read_evaluation(path, root, worker=worker)
    raise_first(parsed.problems)
    if parsed.spec is None:
        raise DefinitionError("the evaluation cannot be read", file=parsed.label)
    return parsed.spec


def evaluation_files(root: Path) -> list[Path]:
    """Return the evaluation files at the top of a workshop and below its `workers` folder, sorted."""
    places = [*root.glob(f"*{EVALUATION_SUFFIX}"), *(root / "workers").rglob(f"*{EVALUATION_SUFFIX}")]
    return sorted(path for path in places if path.is_file() and not is_ignored(path.relative_to(root)))


class _Reader:
    """Reader of one file, which collects its problems."""

    def __init__(self, label: str, folder: Path, root: Path, text: str, worker: str | None) -> None:
        self._label, self._folder, self._root, self._worker = label, folder, root, worker
        document, self._problems = parse_yaml(text, file=label)
        self._document = _written_out(document)

    def read(self) -> ParsedEvaluation:
        """Return the evaluation, and all problems in the order of their lines."""
        values = self._values(self._document.value)
        keys, invalid = validate(EvaluationFile, self._without_evaluators(), file=self._label)
        self._problems += invalid
        evaluators = self._evaluators(values, ("evaluators",))
        cases = [
            self._case(case, place, self._values(one), keys)
            for place, (case, one) in enumerate(zip(keys.cases, self._list(values.get("cases")), strict=False))
        ]
        thresholds = tuple(Threshold(metric=name, **bound.model_dump()) for name, bound in keys.thresholds.items())
        worker = self._worker or keys.worker
        if isinstance(self._document.value, dict):
            self._check_whole(keys, cases, evaluators, worker)
        elif self._document.value is None and not self._problems:
            self._report((), "the file is empty", MIN_SHAPE)
        problems = tuple(sorted(self._problems, key=lambda problem: problem.line or 0))
        if any(problem.severity == "error" for problem in problems) or worker is None:
            return ParsedEvaluation(self._label, "", None, problems, self._document)
        spec = EvaluationSpec(
            name=keys.name or PurePosixPath(self._label).name.removesuffix(EVALUATION_SUFFIX),
            worker=worker,
            cases=tuple(cases),
            repeats=keys.repeats,
            evaluators=evaluators,
            judge=keys.judge,
            thresholds=thresholds,
            concurrency=keys.concurrency,
            settings=EvaluationSettings(model=keys.model, turns=keys.turns, limits=keys.limits),
        )
        return ParsedEvaluation(self._label, "", spec, problems, self._document)

    def _report(self, path: KeyPath, message: str, next_step: str | None = None, *, warning: bool = False) -> None:
        line = self._document.line_of(path)
        severity = "warning" if warning else "error"
        self._problems.append(Problem(self._label, line, message, severity, next_step))

    @staticmethod
    def _values(value: Any) -> dict[str, Any]:
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    @staticmethod
    def _list(value: Any) -> list[Any]:
        return cast("list[Any]", value) if isinstance(value, list) else []

    def _without_evaluators(self) -> Document:
        """Return the document without its evaluators, which are read by themselves, and without keys for editors."""
        if not isinstance(self._document.value, dict):
            return self._document
        values = self._values(self._document.value)
        if values.get(_IGNORED):
            self._report((_IGNORED,), f"'{_IGNORED}' is ignored: `eval compare` has its own", warning=True)
        plain = {key: value for key, value in values.items() if key not in ("evaluators", _SCHEMA_KEY, _IGNORED)}
        if isinstance(plain.get("cases"), list):
            plain["cases"] = [_without(one, "evaluators") for one in self._list(plain["cases"])]
        return replace(self._document, value=plain)

    def _evaluators(self, values: dict[str, Any], path: KeyPath) -> tuple[Evaluator, ...]:
        found, problems = read_evaluators(values.get("evaluators"), path, self._document, file=self._label)
        self._problems += problems
        return found

    def _case(self, keys: CaseKeys, place: int, values: dict[str, Any], whole: EvaluationFile) -> EvaluationCase:
        here: KeyPath = ("cases", place)
        prompt, given = keys.prompt, keys.inputs
        if isinstance(given, str):
            if prompt is not None:
                self._report(
                    (*here, "inputs"), "'inputs' is a text, and 'prompt' is given, too", "Leave one of them out."
                )
            prompt, given = given, None
        case = EvaluationCase(
            id=keys.name or "-",
            prompt=whole.prompt if prompt is None else prompt,
            input=given,
            attachments=tuple(self._attachments(keys.attachments, here)),
            expected=keys.expected_output,
            metadata=_metadata(keys.metadata),
            decide=whole.decide if keys.decide is None else keys.decide,
            evaluators=self._evaluators(values, (*here, "evaluators")),
        )
        if not (case.prompt or case.input is not None or keys.attachments):
            self._report(here, "the case gives the worker nothing", "Write `inputs:`, or `prompt:`.")
        if keys.name is not None:
            return case
        # Not its position: a case that is put before it would give it the results of another one.
        return case.model_copy(update={"id": f"case-{digest_of(case.model_dump(mode='json', exclude={'id'}))[:8]}"})

    def _attachments(self, given: tuple[str, ...], here: KeyPath) -> Iterator[str]:
        for place, name in enumerate(given):
            path: KeyPath = (*here, "attachments", place)
            relative = _below(self._folder.relative_to(self._root), name)
            if relative is None:
                self._report(path, f"'{name}' is not a path inside the workshop", "Paths begin at the file's folder.")
                continue
            try:
                check_inside(self._root / relative, self._root)
            except Unreadable as error:
                self._report(path, f"attachment {error}", "Paths begin at the evaluation file's folder.")
                continue
            yield relative.as_posix()

    def _check_whole(
        self,
        keys: EvaluationFile,
        cases: list[EvaluationCase],
        evaluators: tuple[Evaluator, ...],
        worker: str | None,
    ) -> None:
        """Report what the keys by themselves do not show."""
        values = self._values(self._document.value)
        if worker is None and not values.get("worker"):
            self._report((), "'worker' is missing: the name of the worker that is evaluated", MIN_SHAPE)
        if not values.get("cases"):
            self._report(("cases",), "there are no cases", MIN_SHAPE)
        seen: dict[str, int] = {}
        for place, case in enumerate(cases):
            # What stands for it in the ids of runs has some digits of a digest: names can be made that share them.
            named = case_in_id(case.id)
            if named in seen:
                first = self._document.line_of(("cases", seen[named]))
                message = f"two cases are called '{case.id}'; the other one stands in line {first}"
                self._report(("cases", place, "name"), message, "Give each case a name of its own.")
            seen.setdefault(named, place)
            self._check_expectation(place, (*evaluators, *case.evaluators))
            if problem := _unclear_metric((*evaluators, *case.evaluators), keys.judge):
                here: KeyPath = ("cases", place, "evaluators") if case.evaluators else ("evaluators",)
                self._report(here, problem, "Give one an `evaluation_name`.")
                break
        if all(problem.severity == "warning" for problem in self._problems):
            # An evaluator or a case with mistakes is not there, and its metrics would seem to be unknown.
            self._check_thresholds(keys, [*evaluators, *(one for case in cases for one in case.evaluators)])

    def _check_expectation(self, place: int, evaluators: Sequence[Evaluator]) -> None:
        """Warn of a case that is to be null by its words, and expects nothing by what they mean."""
        written = self._values(self._list(self._values(self._document.value).get("cases"))[place])
        is_null = "expected_output" in written and written["expected_output"] is None
        if is_null and any(isinstance(one, EqualsExpected) for one in evaluators):
            message = "'expected_output: null' expects nothing, so EqualsExpected gives the case no score"
            step = "Leave the key out; where the answer is to be null, give the case `Equals: {value: null}`."
            self._report(("cases", place, "expected_output"), message, step, warning=True)

    def _check_thresholds(self, keys: EvaluationFile, evaluators: list[Evaluator]) -> None:
        known = {evaluator.metric for evaluator in evaluators} | FIGURES
        prefixes = [f"{one.metric}." for one in evaluators if isinstance(one, Python)]
        if keys.judge is not None:
            prefixes.append(f"{keys.judge.worker}.")
        for name, bound in keys.thresholds.items():
            if bound.at_least is None and bound.at_most is None:
                self._report(
                    ("thresholds", name), f"the threshold '{name}' has no bound", "Write `at_least` or `at_most`."
                )
            if name in FIGURES and bound.label is not None:
                self._report(("thresholds", name, "label"), f"'{name}' is a number and has no labels", "Leave it out.")
            if name in known or name.startswith(tuple(prefixes)):
                continue
            message = f"no evaluator gives the metric '{name[:80]}'; known: {', '.join(sorted(known))}"
            self._report(("thresholds", name), message, did_you_mean(name, known))


def _written_out(document: Document) -> Document:
    """Return the document with the short spellings of `judge` and `thresholds` written out."""
    if not isinstance(document.value, dict):
        return document
    values = dict(cast("dict[str, Any]", document.value))
    if isinstance(values.get("judge"), str):
        values["judge"] = {"worker": values["judge"]}
    if isinstance(values.get("thresholds"), dict):
        bounds = cast("dict[str, Any]", values["thresholds"])
        values["thresholds"] = {
            name: {"at_most" if name in FIGURES else "at_least": bound}
            if isinstance(bound, int | float) and not isinstance(bound, bool)
            else bound
            for name, bound in bounds.items()
        }
    return replace(document, value=values)


def _unclear_metric(evaluators: Sequence[Evaluator], judge: JudgeSpec | None) -> str | None:
    """Return what is wrong with the names of the metrics of a case; None where each is that of one evaluator."""
    taken = next((one.metric for one in evaluators if one.metric in FIGURES), None)
    if taken is not None:
        return f"an evaluator is called '{taken}', which is a figure of every run"
    twice = repeated_metric(evaluators, judge)
    return None if twice is None else f"two evaluators are called '{twice}', or give scores of that name"


def _metadata(given: Any) -> dict[str, Any]:
    """Return metadata by name; a value without names, which pydantic-evals allows, has the name `metadata`."""
    if given is None:
        return {}
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {"metadata": given}


def _without(value: Any, key: str) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: one for name, one in cast("dict[str, Any]", value).items() if name != key}


def _below(folder: Path, name: str) -> PurePosixPath | None:
    """Return the path that `name` is below the workshop, seen from `folder`; None where it leads out."""
    pure = PurePosixPath(name)
    if not name or "\0" in name or pure.is_absolute():
        return None
    parts: list[str] = list(folder.parts)
    for part in pure.parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            return None
    return PurePosixPath(*parts) if parts else None


def evaluation_problems(root: Path, workers: Collection[str]) -> Iterator[Problem]:
    """Yield the problems of all evaluation files of a workshop, whose workers have these names."""
    for path in evaluation_files(root):
        parsed = read_evaluation(path, root)
        yield from parsed.problems
        spec = parsed.spec
        if spec is None:
            continue
        named: list[tuple[KeyPath, str]] = [(("worker",), spec.worker)]
        if spec.judge is not None:
            named.append((("judge",), spec.judge.worker))
        for key, name in named:
            if name.removeprefix(PACKAGE_PREFIX) not in workers:
                step = did_you_mean(name, workers, f"Make workers/{name}.worker.")
                yield Problem(
                    parsed.label, parsed.document.line_of(key), f"there is no worker '{name}'", next_step=step
                )


EvaluatorEntry = str | dict[str, Any]
"""`Name`, `Name: argument` or `Name: {key: value}`."""


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
    thresholds: dict[str, Bound] = Field(default_factory=dict)
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


_ENTRY = "EvaluatorEntry"


def evaluation_schema() -> Schema:
    """Return the JSON Schema of evaluation files, with the meanings of keys."""
    schema: Schema = EvaluationFile.model_json_schema()
    defs = cast("dict[str, Schema]", schema["$defs"])
    forms: list[Schema] = []
    for name, kind in EVALUATORS.items():
        forms += _forms(name, kind, defs, {})
    for name, (ours, renamed) in THEIRS.items():
        forms += _forms(name, EVALUATORS[ours], defs, {value: key for key, value in renamed.items()})
    defs[_ENTRY] = {"anyOf": forms}
    entries = {"type": "array", "items": {"$ref": f"#/$defs/{_ENTRY}"}}
    properties, case = schema["properties"], defs["CaseKeys"]["properties"]
    properties["evaluators"], case["evaluators"] = entries, dict(entries)
    properties["judge"] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/JudgeSpec"}]}
    bound = {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/Bound"}]}
    properties["thresholds"] = {"type": "object", "additionalProperties": bound}
    explain(schema, EvaluationFile.__name__)
    properties["$schema"] = {"type": "string", "description": "Address of this schema, for editors."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "required": ["cases"]}


def _forms(name: str, kind: type[BaseEvaluator], defs: dict[str, Schema], renamed: dict[str, str]) -> list[Schema]:
    """Return the schemas of the spellings of one evaluator, whose inner definitions are added to `defs`."""
    keys: Schema = kind.model_json_schema(ref_template="#/$defs/{model}")
    defs.update(keys.pop("$defs", {}))
    del keys["properties"]["kind"]
    explain(keys, kind.__name__)
    keys["properties"] = {renamed.get(key, key): value for key, value in keys["properties"].items()}
    required = [renamed.get(key, key) for key in keys.get("required", ())]
    if required:
        keys["required"] = required
    about = str(keys.get("description", ""))
    forms: list[Schema] = [_named(name, keys, about)]
    argument = kind.argument
    if argument is not None:
        shape = keys["properties"][renamed.get(argument, argument)]
        forms.append(_named(name, {**shape, "not": {"type": "object"}, "description": about}, about))
    if not required:
        forms.append({"const": name, "description": about})
    return forms


def _named(name: str, shape: Schema, about: str) -> Schema:
    return {
        "type": "object",
        "properties": {name: shape},
        "required": [name],
        "additionalProperties": False,
        "description": about,
    }


_CALLS = frozenset(
    {"Called", "NeverCalled", "AskedFirst", "CallOrder", "ToolCorrectness", "TrajectoryMatch", "ArgumentCorrectness"}
)
"""Evaluators that name tools: a callee is a tool of its name."""
_CONTENT = frozenset({"args", "expected_arguments"})


def tool_texts(worker: str, spans: Sequence[Any]) -> list[Any]:
    """Return the texts of a file that name tools or metrics, of which some may have the name of this worker."""
    judges = any(one.text == worker and one.path in (("judge",), ("judge", "worker")) for one in spans)
    return [one for one in spans if _names_tools(one, judges=judges)]


def _names_tools(span: Any, *, judges: bool) -> bool:
    path = span.path
    if path[:1] == ("thresholds",) and len(path) == 2:
        return span.role == "key" and judges
    if "decide" in path and path[-1] == "tool":
        return span.role == "value"
    named = any(part in _CALLS for part in path)
    return named and span.role == "value" and not _CONTENT.intersection(str(part) for part in path)


def evaluator_source(reference: str, *, root: Path) -> PythonFile:
    """Read the file of the workshop that has the function of a `Python` evaluator, as it is now.

    `reference` is like `checks.py:is_polite` or, for a module of the workshop, `checks.is_polite`. A function that no
    file of the workshop has is refused, whatever is installed: a file's words would choose what the service runs.
    Raises DefinitionError.
    """
    place, colon, _ = reference.rpartition(":")
    if colon:
        return read_source(place, root=root)
    parts = reference.split(".")[:-1]
    with suppress(OSError):  # a name that no file can have; the text of the error has the path on this machine
        for path in (Path(*parts).with_suffix(".py"), Path(*parts, "__init__.py")) if parts and all(parts) else ():
            if (root / path).is_file():
                return read_source(path.as_posix(), root=root)
    raise DefinitionError(
        f"the evaluator '{reference}' names no function of the workshop",
        next_step="Name a file of the workshop and a function in it, like `checks.py:is_polite`.",
    )
