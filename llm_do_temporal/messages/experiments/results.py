"""Results of an experiment: everything that is known of its cases, in one value that is kept as a blob.

Readers need nothing else: neither the histories of the cases, which the server forgets, nor the files of the workshop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import Field

from llm_do_temporal.messages.base import Message, is_empty, is_none
from llm_do_temporal.policy.evaluations.experiment import ExperimentIdentity
from llm_do_temporal.policy.evaluations.facts import CaseFacts
from llm_do_temporal.policy.evaluations.outcomes import CaseOutcome, MetricKind
from llm_do_temporal.policy.evaluations.scores import CaseScores
from llm_do_temporal.policy.evaluations.spec import EvaluationSpec, Threshold
from llm_do_temporal.policy.evaluations.thresholds import EvaluationGate, ThresholdVerdict, gate

EVALUATION_WORKFLOW = "LlmDoEvaluation"
EVALUATION_MEMO = "llm_do_evaluation"
RECORD_VERSION = 1

ExperimentState: TypeAlias = Literal["running", "completed", "cancelled", "failed"]


class JudgeRun(Message):
    """Run of the judge for one answer."""

    run: str
    """Workflow id of the run."""
    seconds: float | None = None
    """Seconds that it took; None: not known."""
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """Cost in US dollars; None: the price of a model is not known."""


class CaseResult(Message):
    """Result of one repeat of a case: facts of its run, and what evaluators and judge say of them."""

    case: str
    """Id of the case."""
    repeat: int = 1
    """Number of the repeat, from 1."""
    run: str
    """Workflow id of its run."""
    key: str = Field(default="", exclude_if=is_empty)
    """Key of this run by everything that it depends on; see `policy.evaluations.experiment`. Empty: not known."""
    judgement: str = Field(default="", exclude_if=is_empty)
    """Key of the judgement; empty: it is not judged."""
    judged: CaseScores = CaseScores()
    """Scores of the judge, which are among `scores`."""
    origin: str = Field(default="", exclude_if=is_empty)
    """Experiment that it was taken over from, by its workflow id; empty: it was run for this one."""
    facts: CaseFacts
    scores: CaseScores = CaseScores()
    """Scores of evaluators and judge; those of a case that ended in an error are empty."""
    judges: tuple[JudgeRun, ...] = Field(default=(), exclude_if=is_empty)
    earlier: tuple[CaseResult, ...] = Field(default=(), exclude_if=is_empty)
    """Attempts before this one, the first one first: a case is tried again only after an error, and keeps them."""

    @property
    def outcome(self) -> CaseOutcome:
        """Outcome for statistics: costs are those of the worker's run, without the judge's."""
        usage = self.facts.usage
        return CaseOutcome(
            case=self.case,
            repeat=self.repeat,
            error=self.facts.error is not None,
            scores=self.scores,
            cost=usage.cost,
            seconds=self.facts.seconds,
            tokens=usage.tokens,
            turns=usage.turns,
        )

    def score(self, metric: str) -> bool | float | str | None:
        """Return the value of a metric; None: the case has no score of it."""
        return next((one.value for one in self.scores.scores if one.name == metric), None)


class ExperimentRecord(Message):
    """Experiment: an evaluation that was run under one identity, finished or not."""

    version: int = RECORD_VERSION
    name: str
    """Name of the evaluation."""
    digest: str
    """Digest of the identity, behind its version and a dash."""
    identity: ExperimentIdentity
    """Digests of all that the results depend on."""
    round: int = 1
    """Times that the experiment was started, this one included."""
    workflow: str
    """Workflow id of the experiment."""
    spec: EvaluationSpec
    worker_version: str = ""
    """Digest of the worker's definition, as the identity has it."""
    model: str = ""
    """Model of the worker; empty: not known."""
    judge_version: str = ""
    """Digest of the judge's definition; empty: there is no judge."""
    started_at: datetime
    ended_at: datetime | None = Field(default=None, exclude_if=is_none)
    """End of the experiment; None: it goes on."""
    state: ExperimentState = "running"
    results: tuple[CaseResult, ...] = ()
    """Results so far, in the order of the cases and their repeats."""

    @property
    def outcomes(self) -> list[CaseOutcome]:
        """Outcomes of all results, for statistics."""
        return [result.outcome for result in self.results]

    @property
    def planned(self) -> int:
        """Number of results that a whole experiment has."""
        return len(self.spec.cases) * self.spec.repeats

    @property
    def gate(self) -> EvaluationGate:
        """Thresholds, each kept or not. An experiment that is not completed has not passed, whatever they allow."""
        found = gate(self.spec.thresholds, self.outcomes, self.planned)
        if self.state == "completed":
            return found
        sentence = f"the experiment is {self.state}: {len(self.results):,} of {self.planned:,} runs are done"
        ended = ThresholdVerdict(metric="experiment", passed=False, value=None, sentence=sentence)
        return EvaluationGate(passed=False, verdicts=(*found.verdicts, ended))

    def judged_by(self, thresholds: tuple[Threshold, ...]) -> ExperimentRecord:
        """Return the record with these thresholds in the place of its own: they are judged on what is kept."""
        return self.model_copy(update={"spec": self.spec.model_copy(update={"thresholds": thresholds})})

    def results_of(self, case: str) -> Iterator[CaseResult]:
        """Yield the repeats of a case, in their order."""
        return (result for result in self.results if result.case == case)


class MetricFigures(Message):
    """Figures of one metric over an experiment's cases, each the mean of its repeats."""

    kind: MetricKind = "scores"
    mean: float
    """Mean over the cases that have the score; of pass and fail the share that passed."""
    low: float | None = None
    """Lower end of the 95 % interval of the mean; None: too few cases for one."""
    high: float | None = None
    """Upper end of that interval; None: too few cases for one."""
    cases: int = 0
    """Number of cases with the score."""
    missing: int = 0
    """Number of cases without."""


class EvaluationMemo(Message):
    """Facts about an experiment that lists show: they are known without its record."""

    name: str
    digest: str
    """Digest of the identity, behind its version and a dash."""
    worker: str
    worker_version: str = ""
    model: str = ""
    judge: str = ""
    """Name of the judging worker; empty: there is none."""
    cases: int = 0
    repeats: int = 1
    done: int = 0
    """Number of repeats of cases that have a result, errors among them."""
    errors: int = 0
    """Number of these that ended in an error."""
    round: int = 1
    """Times that the experiment was started, this one included."""
    started_at: datetime | None = None
    metrics: Mapping[str, MetricFigures] = Field(default_factory=dict)
    cost_usd: float | None = None
    """US dollars of cases and judges; None: no price is known."""
    passed: bool | None = None
    """Whether all thresholds hold; None: there are none, or it goes on."""
    record: str = ""
    """Digest of the blob with the ExperimentRecord; empty: there is none yet."""
