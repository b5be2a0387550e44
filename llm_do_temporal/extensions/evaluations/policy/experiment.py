"""Identity of an experiment: digests of everything its results depend on, so that two experiments are never mixed.

The keys and digests are a wire contract: stored results are found by them. A change of what they are made of needs
another version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import Field

from llm_do_temporal.extension import RunPart
from llm_do_temporal.extensions.evaluations.policy.scores import (
    EvaluationCase,
    EvaluationSpec,
    Json,
    Python,
)
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.values import Value

EXPERIMENT_VERSION = 1
_SHOWN = 8
"""Characters of a digest that sentences show."""


class JudgeIdentity(Value):
    """Identity of a judge: what its verdicts depend on."""

    worker: str
    asked: str
    """Digest of what it is shown, and of which of its fields are scores."""
    definitions: dict[str, str]
    """Digest of each worker file involved, by its path."""
    models: dict[str, str]
    """Model of each worker involved, by its name."""

    @property
    def digest(self) -> str:
        """Digest of the whole, in hexadecimal."""
        return digest_of([EXPERIMENT_VERSION, self.model_dump(mode="json")])


class ExperimentIdentity(Value):
    """Identity of an experiment."""

    version: int = EXPERIMENT_VERSION
    worker: str
    cases: dict[str, str]
    """Digest of what each case gives the worker, by its id."""
    scoring: dict[str, str]
    """Digest of what each case's evaluators depend on, by its id."""
    repeats: int = Field(ge=1)
    definitions: dict[str, str]
    """Digest of each worker file involved, by its path."""
    models: dict[str, str]
    """Model of each worker involved, by its name."""
    settings: dict[str, Json]
    judge: JudgeIdentity | None = None

    @property
    def digest(self) -> str:
        """Digest of the whole: the version, a dash, and hexadecimal."""
        return f"{self.version}-{digest_of(self.model_dump(mode='json'))}"

    @property
    def conditions(self) -> str:
        """Digest of what all cases depend on, whichever cases these are."""
        return digest_of([self.version, self.worker, self.definitions, self.models, self.settings])


def experiment_identity(
    spec: EvaluationSpec,
    *,
    definitions: Mapping[str, str],
    models: Mapping[str, str],
    attachments: Mapping[str, str] | None = None,
    judge_definitions: Mapping[str, str] | None = None,
    judge_models: Mapping[str, str] | None = None,
    functions: Mapping[str, str] | None = None,
    settings: Mapping[str, Json] | None = None,
) -> ExperimentIdentity:
    """Return the identity of an evaluation.

    `definitions` are digests of the worker files involved, by path, `models` those that the workers run with, by name,
    `attachments` digests of the attached files, by the paths that the cases have, `functions` digests of the files of
    Python evaluators, by their references, and `settings` whatever else the results depend on, beside the evaluation's
    own settings.
    """
    files = attachments or {}
    judge, own = spec.judge, spec.settings
    limits = own.limits.model_dump(mode="json", exclude_none=True)
    return ExperimentIdentity(
        worker=spec.worker,
        cases={case.id: _given(case, files) for case in spec.cases},
        scoring={case.id: _scoring(spec, case, functions or {}) for case in spec.cases},
        repeats=spec.repeats,
        definitions=dict(definitions),
        models=dict(models),
        settings={"model": own.model, "turns": own.turns, "limits": limits, **(settings or {})},
        judge=None
        if judge is None
        else JudgeIdentity(
            worker=judge.worker,
            asked=digest_of(_said(judge.model_copy(update={"worker": ""}))),
            definitions=dict(judge_definitions or {}),
            models=dict(judge_models or {}),
        ),
    )


def _given(case: EvaluationCase, files: Mapping[str, str]) -> str:
    handed = [[path, files.get(path)] for path in case.attachments]
    return digest_of([case.prompt, case.input, handed, [_said(entry) for entry in case.decide]])


def _scoring(spec: EvaluationSpec, case: EvaluationCase, functions: Mapping[str, str]) -> str:
    evaluators: list[list[Any]] = []
    for one in spec.evaluators_of(case):
        code = [functions[one.function]] if isinstance(one, Python) and one.function in functions else []
        evaluators.append([one.kind, _said(one), *code])
    return digest_of([case.expected, case.metadata, evaluators])


def _said(value: Value) -> dict[str, Json]:
    """Return what a value says beside its defaults: a key that later versions add changes no digest of before."""
    return value.model_dump(mode="json", exclude_defaults=True)


def case_key(identity: ExperimentIdentity, case: str, repeat: int) -> str:
    """Return the key of one run of a case: everything that it depends on, and which draw it is."""
    return f"{identity.version}-{digest_of([identity.conditions, case, identity.cases[case], repeat])}"


def judgement_key(identity: ExperimentIdentity, key: str, request: Any) -> str:
    """Return the key of one judgement: the judge, the run of the case with its key, and what the judge is shown."""
    judge = None if identity.judge is None else identity.judge.digest
    return f"{identity.version}-{digest_of([judge, key, request])}"


def differences(one: ExperimentIdentity, other: ExperimentIdentity) -> tuple[str, ...]:
    """Return in words how the second identity differs from the first; empty for the same."""
    words = [] if one.version == other.version else [f"versions of the identity: {one.version}, then {other.version}"]
    if one.worker != other.worker:
        words.append(f"the worker: '{one.worker}', then '{other.worker}'")
    words += _value_words("the definition", one.definitions, other.definitions, digests=True)
    words += _value_words("the model of", one.models, other.models)
    words += _value_words("the setting", one.settings, other.settings)
    ours, theirs = one.cases.keys(), other.cases.keys()
    for said, names in (("new", theirs - ours), ("gone", ours - theirs)):
        words += [f"{said}: {_named(names)}"] if names else []
    words += _changed_words("what is given to the worker in", one.cases, other.cases)
    words += _changed_words("the evaluators, the expected answer or the metadata of", one.scoring, other.scoring)
    words += [f"repeats: {one.repeats}, then {other.repeats}"] if one.repeats != other.repeats else []
    return (*words, *_judge_words(one.judge, other.judge))


def _value_words(what: str, one: Mapping[str, Any], other: Mapping[str, Any], *, digests: bool = False) -> list[str]:
    words: list[str] = []
    for name in sorted({*one, *other}):
        before, now = (_value(values, name, digests=digests) for values in (one, other))
        if before != now:
            words.append(f"{what} '{name}': {before}, then {now}")
    return words


def _value(values: Mapping[str, Any], name: str, *, digests: bool) -> str:
    if values.get(name) is None:
        return "none"
    return str(values[name])[:_SHOWN] if digests else f"'{values[name]}'"


def _changed_words(what: str, one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    changed = _changed(one, other)
    return [f"{what} {_named(changed)}"] if changed else []


def _changed(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    return {case for case, digest in one.items() if other.get(case, digest) != digest}


def _named(cases: set[str]) -> str:
    names = [f"'{name}'" for name in sorted(cases)]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{'case' if len(names) == 1 else 'cases'} {', '.join(names[:5])}{more}"


def _judge_words(one: JudgeIdentity | None, other: JudgeIdentity | None) -> list[str]:
    before, now = ("none" if judge is None else f"'{judge.worker}'" for judge in (one, other))
    words = [] if before == now else [f"the judge: {before}, then {now}"]
    if one is None or other is None:
        return words
    words += _value_words("the judge's definition", one.definitions, other.definitions, digests=True)
    words += _value_words("the judge's model of", one.models, other.models)
    return [*words, *(["what the judge is shown, or its scores"] if one.asked != other.asked else [])]


def refusals(one: ExperimentIdentity, other: ExperimentIdentity) -> tuple[str, ...]:
    """Return in words why two experiments cannot be compared; empty where they can.

    Cases that only one of them has are no reason, nor is a judge that only one of them has: they are left out.
    """
    reasons: list[str] = []
    if one.version != other.version:
        reasons.append(f"their identities are of versions {one.version} and {other.version}; run the older one again")
    if not one.cases.keys() & other.cases.keys():
        reasons.append("they have no case in common")
    given, scoring = _changed(one.cases, other.cases), _changed(one.scoring, other.scoring)
    if given:
        reasons.append(f"{_named(given)}: the worker was given something else; run one of them again with these cases")
    if scoring:
        reasons.append(f"{_named(scoring)}: the evaluators, the expected answer or the metadata are others")
    if one.judge is not None and other.judge is not None and one.judge != other.judge:
        words = "; ".join(_judge_words(one.judge, other.judge))
        reasons.append(f"their judges differ ({words}); judge one of them again")
    return tuple(reasons)


EXPERIMENT_PREFIX = "eval-"
"""Beginning of the workflow id of every experiment."""
_NAME_CHARS = 40
"""Most characters of an evaluation's name, and of a case's id, in an id."""
_DIGEST_CHARS = 12
_ENDING = re.compile(
    r"(?P<case>.+)-r(?P<repeat>\d{1,9})(?:-(?P<round>\d{1,9}))?(?P<judge>-judge(?:-\d{1,9})?(?:-other-order)?)?",
    re.DOTALL,
)


def experiment_id(name: str, digest: str) -> str:
    """Return the workflow id of the experiment of an evaluation with this digest."""
    plain = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-")[:_NAME_CHARS] or "evaluation"
    return f"{EXPERIMENT_PREFIX}{plain}-{digest.partition('-')[2][:_DIGEST_CHARS]}"


def case_run_id(experiment: str, case: str, repeat: int, *, round_: int = 1) -> str:
    """Return the id of the run of a case, which no other one has; `round_` counts the starts of the experiment."""
    return f"{experiment}-{case_in_id(case)}-r{repeat}" + (f"-{round_}" if round_ > 1 else "")


def judge_run_id(case_run: str, *, attempt: int = 1, other_order: bool = False) -> str:
    """Return the id of the run that judges a case's run; `attempt` is the number of the case's attempt, from 1."""
    again = f"-{attempt}" if attempt > 1 else ""
    return f"{case_run}-judge{again}{'-other-order' if other_order else ''}"


def case_in_id(case: str) -> str:
    """Return a case's id as part of the id of a run: as it is, or its letters and digits and a digest."""
    if re.fullmatch(rf"[A-Za-z0-9_.-]{{1,{_NAME_CHARS}}}", case):
        return case
    plain = re.sub(r"[^A-Za-z0-9_.]+", "-", case).strip("-")[: _NAME_CHARS - 9]
    return f"{plain}-{hashlib.sha256(case.encode()).hexdigest()[:8]}"


def part_of(run: str, parent: str) -> RunPart | None:
    """Return the part of a run in an experiment; None where its parent, "" for none, is no experiment."""
    if not parent.startswith(EXPERIMENT_PREFIX) or not run.startswith(f"{parent}-"):
        return None
    found = _ENDING.fullmatch(run, len(parent) + 1)
    if found is None:
        return None
    case, number, judges = found["case"], int(found["repeat"]), found["judge"] is not None
    kind, repeat = "judge of case" if judges else "case", f", repeat {number}" if number > 1 else ""
    return RunPart(
        kind="case",
        words=f"{kind} {case}{repeat}",
        whole=f"experiment {parent}",
        facts={"experiment": parent, "case": case, "repeat": number, "is_judge": judges},
        links=(
            (f"{kind} ", ""),
            (case, f"{experiment_address(parent)}?{urlencode({'case': case})}"),
            (f"{repeat} of ", ""),
            (parent, experiment_address(parent)),
        ),
    )


def experiment_address(experiment: str) -> str:
    """Return the address of the page of an experiment, named by its id or the beginning of its digest."""
    return f"/evaluations/{quote(experiment, safe='')}"


def comparison_address(one: str, other: str) -> str:
    """Return the address of the page that shows two experiments beside each other."""
    return f"{experiment_address(one)}/compare/{quote(other, safe='')}"
