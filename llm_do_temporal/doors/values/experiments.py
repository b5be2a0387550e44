"""Evaluations as doors show them: experiments, the results of their cases, comparisons of two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from llm_do_temporal.client.evaluations.experiments import ExperimentListing
from llm_do_temporal.client.evaluations.start import BegunExperiment
from llm_do_temporal.doors.values.base import RequestBody, ResponseValue
from llm_do_temporal.messages.base import Json
from llm_do_temporal.messages.experiments.evaluations import CaseResult, MetricFigures
from llm_do_temporal.policy.evaluations.comparison import Comparison
from llm_do_temporal.policy.evaluations.facts import CaseError, CaseUsage
from llm_do_temporal.policy.evaluations.figures import ThresholdVerdict
from llm_do_temporal.policy.evaluations.spec import MAX_REPEATS
from llm_do_temporal.policy.models import CutReason
from llm_do_temporal.redaction.configured_keys import without_keys

_Name = Annotated[str, Field(min_length=1, max_length=200)]


class ExperimentStart(RequestBody):
    """Evaluation to be run, or gone on with."""

    evaluation: _Name
    """Name of an evaluation file of the workshop, without `.eval.yaml`."""
    repeats: int | None = Field(default=None, ge=1, le=MAX_REPEATS)
    """Times that each case is run; null: as the file says."""
    cases: Annotated[tuple[_Name, ...], Field(max_length=10_000)] = ()
    """Ids of the cases that are run; none: all."""
    worker: str | None = Field(default=None, min_length=1, max_length=500)
    """Worker to evaluate; null: the file's."""
    retry_errors: bool = False
    """Whether cases are run again that ended in an error."""


class StartedExperiment(ResponseValue):
    """Experiment that was started, or found: the same files and settings are the same experiment."""

    experiment: str
    """Id of the experiment."""
    how: Literal["started", "resumed", "attached", "finished"]
    total: int
    """Number of repeats of cases."""
    taken: int
    """Number of results that were there already."""
    differs: tuple[str, ...]
    """Differences from the newest experiment before, in words."""

    @classmethod
    def of(cls, begun: BegunExperiment) -> StartedExperiment:
        """Return what doors tell of it."""
        return cls(
            experiment=begun.workflow, how=begun.how, total=begun.total, taken=begun.taken, differs=tuple(begun.differs)
        )


class ExperimentFacts(ResponseValue):
    """Experiment as it is now."""

    experiment: str
    """Id of the experiment."""
    evaluation: str
    worker: str
    model: str
    judge: str
    """Name of the judging worker; empty: there is none."""
    state: str
    """`running`, `completed`, `failed`, `cancelled`, `terminated` or `timed out`."""
    started_at: AwareDatetime
    ended_at: AwareDatetime | None
    cases: int
    repeats: int
    total: int
    """Number of repeats of cases."""
    done: int
    """Number of these that have a result, errors among them."""
    errors: int
    passed: bool | None
    """Whether all thresholds hold; null: there are none, or it goes on."""
    cost_usd: float | None
    metrics: Mapping[str, MetricFigures]
    has_results: bool
    """Whether results of cases can be read already."""

    @classmethod
    def of(cls, listed: ExperimentListing) -> ExperimentFacts:
        """Return the experiment as the server lists it."""
        facts = listed.facts
        return cls(
            experiment=listed.workflow,
            evaluation=facts.name,
            worker=facts.worker,
            model=facts.model,
            judge=facts.judge,
            state=listed.state,
            started_at=listed.started_at,
            ended_at=listed.ended_at,
            cases=facts.cases,
            repeats=facts.repeats,
            total=listed.total,
            done=facts.done,
            errors=facts.errors,
            passed=facts.passed,
            cost_usd=facts.cost_usd,
            metrics=facts.metrics,
            has_results=bool(facts.record),
        )


class ExperimentCaseResult(ResponseValue):
    """Result of one repeat of a case."""

    case: str
    repeat: int
    run: str
    """Id of its run."""
    origin: str
    """Experiment that it was taken over from; empty: it was run for this one."""
    output: Json
    truncated: CutReason | None = None
    """Reason why the answer was cut; null: it was not."""
    error: CaseError | None
    scores: dict[str, bool | float | str]
    reasons: dict[str, str]
    """Reasons of scores, by their metrics."""
    failures: dict[str, str]
    """Evaluators that could not judge it, with the reasons."""
    usage: CaseUsage
    seconds: float | None

    @classmethod
    def of(cls, result: CaseResult) -> ExperimentCaseResult:
        """Return the result without configured keys."""
        facts, scores = result.facts, result.scores
        return cls(
            case=result.case,
            repeat=result.repeat,
            run=result.run,
            origin=result.origin,
            output=without_keys(facts.output),
            truncated=facts.truncated,
            error=None if facts.error is None else CaseError.model_validate(without_keys(facts.error.model_dump())),
            scores={one.name: one.value for one in scores.scores},
            reasons=without_keys({one.name: one.reason for one in scores.scores if one.reason}),
            failures=without_keys({one.name: one.message for one in scores.failures}),
            usage=facts.usage,
            seconds=facts.seconds,
        )


class ExperimentResults(ResponseValue):
    """Part of the results of an experiment, in the order of its cases."""

    experiment: str
    thresholds: tuple[ThresholdVerdict, ...]
    """Thresholds, each kept or not, over all results so far."""
    results: tuple[ExperimentCaseResult, ...]
    following: int | None
    """`after` of the next part; null: there is no more."""


class ExperimentComparison(ResponseValue):
    """Comparison of two experiments, of which the second is judged."""

    one: ExperimentFacts
    other: ExperimentFacts
    is_worse: bool
    """Whether the second is worse by any metric."""
    differences: tuple[str, ...]
    """Differences of what they depend on, in words."""
    comparison: Comparison
