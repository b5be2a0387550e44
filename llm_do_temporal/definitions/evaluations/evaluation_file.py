"""Evaluation file: read within bounds, its keys validated, every mistake collected with its line.

No attachment is read. That the worker and the judge exist is checked for a whole workshop alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

from llm_do_temporal.definitions.evaluations.keys import CaseKeys, EvaluationFile, read_evaluators
from llm_do_temporal.definitions.protection import check_protected
from llm_do_temporal.definitions.workers.places import EVALUATION_SUFFIX, PACKAGE_PREFIX, is_ignored
from llm_do_temporal.definitions.yaml.documents import (
    Document,
    KeyPath,
    Problem,
    did_you_mean,
    parse_yaml,
    raise_first,
    validate,
)
from llm_do_temporal.definitions.yaml.text_files import Unreadable, check_inside, decode, label_of, read_bytes
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.policy.evaluations.evaluators import EqualsExpected, Evaluator, Python
from llm_do_temporal.policy.evaluations.run_ids import case_in_id
from llm_do_temporal.policy.evaluations.spec import (
    FIGURES,
    EvaluationCase,
    EvaluationSettings,
    EvaluationSpec,
    JudgeSpec,
    Threshold,
    repeated_metric,
)
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
