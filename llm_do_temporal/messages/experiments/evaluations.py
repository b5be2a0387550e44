"""Evaluations on their way: the plan of an experiment, and requests and results of the activities that carry it out.

The plan and every result are blobs. What crosses Temporal are their digests, so that an experiment of a thousand cases
has the history of a small one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from llm_do_temporal.messages.base import Json, Message, is_empty, is_none
from llm_do_temporal.messages.experiments.results import EvaluationMemo, ExperimentState
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.evaluations.experiment import ExperimentIdentity
from llm_do_temporal.policy.evaluations.facts import CaseFacts
from llm_do_temporal.policy.evaluations.spec import EvaluationCase, EvaluationSpec
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.layers.layer import Digest

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
        """Repeats of cases in the order in which they begin: every case once, then every case again."""
        repeats = range(1, self.spec.repeats + 1)
        return tuple(EvaluationUnit(case=case.id, repeat=repeat) for repeat in repeats for case in self.spec.cases)

    def case_of(self, unit: EvaluationUnit) -> EvaluationCase:
        """Return the case of a unit of this plan."""
        return next(case for case in self.spec.cases if case.id == unit.case)


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


class EvaluationEnd(Message):
    """Result of `LlmDoEvaluation`."""

    record: Digest
    """Blob with the ExperimentRecord."""
    memo: EvaluationMemo


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
    """Result of `collect_results`."""

    record: Digest
    """Blob with the ExperimentRecord."""
    memo: EvaluationMemo
