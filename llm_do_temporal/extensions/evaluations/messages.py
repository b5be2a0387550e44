"""Evaluations on their way: the plan of an experiment, requests and results of its activities, and its record.

The plan, every result and the record are blobs. What crosses Temporal are their digests, so that an experiment of a
thousand cases has the history of a small one. Readers need the record alone: neither the histories of the cases, which
the server forgets, nor the files of the workshop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import ConfigDict, Field

from llm_do_temporal.extensions.evaluations.policy.experiment import ExperimentIdentity, case_run_id
from llm_do_temporal.extensions.evaluations.policy.figures import (
    EvaluationGate,
    MetricFigures,
    ThresholdVerdict,
    gate,
    known_sum,
)
from llm_do_temporal.extensions.evaluations.policy.scores import (
    CaseFacts,
    CaseResult,
    EvaluationCase,
    EvaluationSpec,
    Threshold,
)
from llm_do_temporal.messages.activities import ActivityRef
from llm_do_temporal.messages.base import Json, Message, is_empty, is_none
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.layers.layer import Digest

EVALUATION_WORKFLOW = "LlmDoEvaluation"
EVALUATION_MEMO = "llm_do_evaluation"
RECORD_VERSION = 1

ExperimentState: TypeAlias = Literal["running", "completed", "cancelled", "failed"]


def cost_of(results: Iterable[CaseResult]) -> float | None:
    """Return the US dollars of runs and judges whose prices are known; None: of none."""
    return known_sum(cost for one in results for cost in (one.cost, *(run.cost for run in one.judges)))


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
    def planned(self) -> int:
        """Number of results that a whole experiment has."""
        return len(self.spec.cases) * self.spec.repeats

    @property
    def gate(self) -> EvaluationGate:
        """Thresholds, each kept or not. An experiment that is not completed has not passed, whatever they allow."""
        found = gate(self.spec.thresholds, self.results, self.planned)
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


class ExperimentFigures(Message):
    """Figures of an experiment so far, which lists show."""

    model_config = ConfigDict(use_attribute_docstrings=True)
    worker: str
    model: str = ""
    judge: str = ""
    """Name of the judging worker; empty: there is none."""
    cases: int = 0
    repeats: int = 1
    done: int = 0
    """Number of repeats of cases that have a result, errors among them."""
    errors: int = 0
    """Number of these that ended in an error."""
    metrics: Mapping[str, MetricFigures] = Field(default_factory=dict)
    cost_usd: float | None = None
    """US dollars of cases and judges; null: no price is known."""
    passed: bool | None = None
    """Whether all thresholds hold; null: there are none, or it goes on."""


class EvaluationMemo(ExperimentFigures):
    """Facts about an experiment that are known without its record."""

    name: str
    digest: str
    """Digest of the identity, behind its version and a dash."""
    worker_version: str = ""
    round: int = 1
    """Times that the experiment was started, this one included."""
    started_at: datetime | None = None
    record: str = ""
    """Digest of the blob with the ExperimentRecord; empty: there is none yet."""


PLAN_VERSION = 1


class EvaluationUnit(Message):
    """Repeat of a case, as it stands in the plan."""

    case: str
    """Id of the case."""
    repeat: int = 1
    """Number of the repeat, from 1."""

    @property
    def name(self) -> str:
        """Text that names it within the experiment."""
        return f"{self.case}#{self.repeat}"


def units_of(spec: EvaluationSpec) -> tuple[EvaluationUnit, ...]:
    """Return the repeats of cases in the order in which they begin: every case once, then every case again."""
    repeats = range(1, spec.repeats + 1)
    return tuple(EvaluationUnit(case=case.id, repeat=repeat) for repeat in repeats for case in spec.cases)


class StartedExperiment(Message):
    """Experiment that was started, or found: the same files and settings are the same experiment."""

    model_config = ConfigDict(use_attribute_docstrings=True, json_schema_serialization_defaults_required=True)
    experiment: str
    """Id of the experiment."""
    how: Literal["started", "resumed", "attached", "finished"]
    total: int
    """Number of repeats of cases."""
    taken: int = 0
    """Number of results that were there already."""
    differs: tuple[str, ...] = ()
    """Differences from the newest experiment before, in words."""
    differs_from: str = ""
    """Id of that one; empty: there is none."""


class EvaluationPlan(Message):
    """Plan of an experiment: everything that it depends on, and the results that it takes over. It is a blob."""

    version: int = PLAN_VERSION
    workflow: str
    """Workflow id of the experiment."""
    spec: EvaluationSpec
    identity: ExperimentIdentity
    started_by: str = ""
    started_at: datetime
    round: int = 1
    """Number of this start of the experiment, from 1: it is started again to go on, or to retry errors."""
    attachments: Mapping[str, Attachment] = Field(default_factory=dict)
    """Attached files by the paths that the cases have."""
    environment_model: str | None = None
    """Model of `LLM_DO_MODEL` where the experiment was started; None: it named none."""
    retry_errors: bool = False
    """Whether cases that ended in an error are run again."""
    taken: Mapping[str, Digest] = Field(default_factory=dict)
    """Blobs with results of this experiment, or of earlier ones, that are taken over, by the names of units."""
    others: Mapping[str, Json] = Field(default_factory=dict)
    """Other answers of a judge's pairs, by the names of units."""

    @property
    def units(self) -> tuple[EvaluationUnit, ...]:
        """Repeats of cases in the order in which they begin."""
        return units_of(self.spec)

    @property
    def memo(self) -> EvaluationMemo:
        """Facts about the experiment as long as it has no results."""
        spec, identity = self.spec, self.identity
        return EvaluationMemo(
            name=spec.name,
            digest=identity.digest,
            worker=spec.worker,
            worker_version=digest_of(dict(identity.definitions)),
            model=identity.models.get(spec.worker, ""),
            judge="" if spec.judge is None else spec.judge.worker,
            cases=len(spec.cases),
            repeats=spec.repeats,
            round=self.round,
            started_at=self.started_at,
        )

    def case_of(self, unit: EvaluationUnit) -> EvaluationCase:
        """Return the case of a unit of this plan."""
        return next(case for case in self.spec.cases if case.id == unit.case)

    def run_of(self, unit: EvaluationUnit) -> str:
        """Return the workflow id of the run of a case, which no other one has."""
        return case_run_id(self.workflow, unit.case, unit.repeat, round_=self.round)


class ContinuedEvaluation(Message):
    """State of an experiment that its workflow takes along when it is continued as new."""

    next: int
    """Number of the first unit that was not begun, from 0."""
    record: str = ""
    """Blob with the ExperimentRecord of the first results; empty: there is none yet."""
    recorded: int = 0
    """Number of results in it."""
    newer: tuple[Digest, ...] = ()
    """Blobs with further results."""
    memo: EvaluationMemo


class RunEvaluationInput(Message):
    """Input of `LlmDoEvaluation`."""

    plan: Digest
    """Blob with the EvaluationPlan."""
    units: int
    """Number of repeats of cases."""
    concurrency: int
    """Number of these that run at a time."""
    continued: ContinuedEvaluation | None = Field(default=None, exclude_if=is_none)
    """State to go on from; None for a new start."""


class PrepareCaseInput(Message):
    """Input of `prepare_case`."""

    plan: Digest
    unit: int
    """Number of the unit in the plan, from 0."""


class PreparedCase(Message):
    """Result of `prepare_case`."""

    run: str = ""
    """Workflow id of the run to start; empty: its result is taken over."""
    start: StartRunInput | None = Field(default=None, exclude_if=is_none)
    """Start of that run; None: its result is taken over."""
    taken: str = ""
    """Blob with a result that is taken over, or with the attempt before this one; empty: there is none."""


class CaseReading(Message):
    """Case as its histories tell it."""

    facts: CaseFacts
    definitions: Mapping[str, str] = Field(default_factory=dict)
    """Digests of the worker files that its invocations were made from, by path."""


class ScoreCaseInput(Message):
    """Input of `score_case`."""

    plan: Digest
    unit: int
    run: str
    """Workflow id of the run that has ended; empty: the result `taken` is taken over."""
    taken: str = ""
    """Blob with a result that is taken over, or with the attempt before this one; empty: there is none."""


class JudgeStart(Message):
    """Run of a judge to be started."""

    run: str
    """Workflow id."""
    start: StartRunInput


class ScoredCase(Message):
    """Result of `score_case` and of `judge_case`."""

    result: Digest
    """Blob with the CaseResult."""
    error: bool = False
    """Whether the case ended in an error."""
    cost: float | None = None
    """US dollars that were spent on it now; None: not known."""
    taken: bool = False
    """Whether the case was not run for this experiment."""
    judges: tuple[JudgeStart, ...] = Field(default=(), exclude_if=is_empty)
    """Runs of the judge that are still needed; two for a pair, in both orders."""


class JudgeCaseInput(Message):
    """Input of `judge_case`."""

    plan: Digest
    result: Digest
    """Blob with the CaseResult."""
    runs: tuple[str, ...]
    """Workflow ids of the judge's runs, which have ended."""


class CollectResultsInput(Message):
    """Input of `collect_results`."""

    plan: Digest
    record: str = ""
    """Blob with the ExperimentRecord so far; empty: there is none yet."""
    newer: tuple[Digest, ...] = ()
    """Blobs with further results."""
    state: ExperimentState = "running"


class CollectedResults(Message):
    """Result of `collect_results`, and of `LlmDoEvaluation`."""

    record: Digest
    """Blob with the ExperimentRecord."""
    memo: EvaluationMemo


PREPARE_CASE = ActivityRef("prepare_case", PrepareCaseInput, PreparedCase)
"""Make the start of the run of a case, from the plan of its experiment."""
SCORE_CASE = ActivityRef("score_case", ScoreCaseInput, ScoredCase, runs_authors_code=True)
"""Read the histories of a case that has ended, score it, and keep its result."""
JUDGE_CASE = ActivityRef("judge_case", JudgeCaseInput, ScoredCase)
"""Add what a judge has said of a case to its result."""
COLLECT_RESULTS = ActivityRef("collect_results", CollectResultsInput, CollectedResults)
"""Put the results of an experiment together in its record."""
