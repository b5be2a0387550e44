"""Evaluation: cases for a worker, evaluators of what it does with them, and what is expected of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from llm_do_temporal.extensions.evaluations.policy.evaluators import Evaluator, Python
from llm_do_temporal.extensions.evaluations.policy.facts import Json
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.values import Value

DEFAULT_CONCURRENCY = 4
MAX_CASES = 5_000
MAX_REPEATS = 100
MAX_CONCURRENCY = 200
EXPECTED = "expected"
"""`against:` of a judge that compares each answer with the expected one."""
COUNTED = ("errors", "failures", "missing")
"""Names of thresholds that are numbers of runs of cases, none of them a metric."""
BESIDE = ("cost", "seconds", "tokens", "turns")
"""Names of thresholds that are amounts, none of them a metric."""
FIGURES = frozenset({*COUNTED, *BESIDE})
"""Names that no metric has. A number is the most that is allowed of these, as less of them is better."""

CaseId = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Shown: TypeAlias = Literal["prompt", "input", "output", "expected", "metadata", "files", "calls"]
"""Part of a case that a judge is shown."""


class DecideEntry(Value):
    """Answer to the questions of a case, in the place of a person's; the first entry that fits is taken."""

    tool: str = ""
    """Tool of the question; empty: any."""
    decision: Literal["approve", "reject", "modify"]
    note: str = ""
    """Reason that the model is told, for `reject`."""
    args: dict[str, Json] | None = None
    """Arguments in the place of the model's, for `modify`."""
    times: int | None = Field(default=None, ge=1)
    """Number of questions that it answers; None: all that it fits."""


class JudgeSpec(Value):
    """Worker that judges answers: its rubric is in its file, its scores are in its structured output."""

    worker: str = Field(min_length=1)
    model: str | None = None
    """Model of the judge; None: as its file and the workshop say."""
    shows: tuple[Shown, ...] = ("prompt", "input", "output", "expected")
    """Parts of the case that it is shown."""
    scores: tuple[str, ...] | None = None
    """Fields of its output that are scores; None: all that are true, false or a number."""
    against: str | None = None
    """Other answer of a pair, which it is shown in both orders: `expected`, or the id of an evaluation's run; None: it
    is shown the answer alone."""

    def metric(self, field: str) -> str:
        """Return the name of the metric that a field of its output is."""
        return f"{self.worker}.{field}"


class Bound(Value):
    """Bound for a metric."""

    at_least: float | None = Field(default=None, allow_inf_nan=False)
    at_most: float | None = Field(default=None, allow_inf_nan=False)
    label: str | None = Field(default=None, min_length=1)
    """Label whose share of the cases is bounded; None: the mean is, and the share that passed."""


class Threshold(Bound):
    """Bound for a metric of all cases, or for their errors or cost: what is beyond it fails the evaluation."""

    metric: str


class EvaluationSettings(Value):
    """Settings under which all cases run."""

    model: str | None = None
    """Model of the worker under test, instead of that of its file; None: as its file and the workshop say."""
    turns: Literal["now", "batch"] | None = None
    """Whether turns of models are asked at once, or in the batches of providers that sell them for less; None: as the
    workers and the workshop say."""
    limits: Limits = Limits()
    """Limits of each case."""


class EvaluationCase(Value):
    """Task for the worker, and what is known of a good answer."""

    id: CaseId
    prompt: str = ""
    input: Json = None
    attachments: tuple[str, ...] = ()
    """Files handed to the worker, by their paths below the workshop."""
    expected: Json = None
    """Expected answer; None: nothing is expected."""
    metadata: dict[str, Json] = Field(default_factory=dict)
    decide: tuple[DecideEntry, ...] = ()
    """Answers to the questions that the case asks. A question that none fits is rejected."""
    evaluators: tuple[Evaluator, ...] = ()
    """Evaluators of this case, beside those of all cases."""


class EvaluationSpec(Value):
    """Evaluation as its file describes it."""

    name: str
    worker: str
    cases: tuple[EvaluationCase, ...] = Field(max_length=MAX_CASES)
    repeats: int = Field(default=1, ge=1, le=MAX_REPEATS)
    """Times that each case is run."""
    evaluators: tuple[Evaluator, ...] = ()
    """Evaluators of all cases."""
    judge: JudgeSpec | None = None
    thresholds: tuple[Threshold, ...] = ()
    concurrency: int = Field(default=DEFAULT_CONCURRENCY, ge=1, le=MAX_CONCURRENCY)
    """Cases that run at a time."""
    settings: EvaluationSettings = EvaluationSettings()

    def case(self, case_id: str) -> EvaluationCase | None:
        """Return the case with this id; None where there is none."""
        return next((case for case in self.cases if case.id == case_id), None)

    def evaluators_of(self, case: EvaluationCase) -> tuple[Evaluator, ...]:
        """Return the evaluators of a case: those of all cases, then its own."""
        return (*self.evaluators, *case.evaluators)


def repeated_metric(evaluators: Sequence[Evaluator], judge: JudgeSpec | None = None) -> str | None:
    """Return the first metric that two of these can give; None where all have names of their own.

    A Python function gives metrics below its name, too, and a judge below that of its worker.
    """
    judges = [] if judge is None else [judge.worker]
    above = tuple(f"{one}." for one in [*judges, *(one.metric for one in evaluators if isinstance(one, Python))])
    names = set(judges)
    for evaluator in evaluators:
        if evaluator.metric in names or evaluator.metric.startswith(above):
            return evaluator.metric
        names.add(evaluator.metric)
    return None
