"""Facts about one run of a case, which is everything that evaluators look at, and the scores that they give it.

Facts are read from the run's histories and its layer, so that a score never depends on spans, clocks or the memory of
a process.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import Field, StrictBool, StrictFloat, StrictStr

from llm_do_temporal.messages.base import Message, is_empty
from llm_do_temporal.policy.files.encodings import whole_characters
from llm_do_temporal.policy.models import CutReason
from llm_do_temporal.policy.values import Value

Json: TypeAlias = Any
"""Any JSON value."""


class CaseError(Value):
    """End of a case without an answer: it says nothing about the quality of answers."""

    type: str
    """Name of the error's class."""
    message: str

    @property
    def words(self) -> str:
        """Class and message together."""
        return f"{self.type}: {self.message}"


class CaseUsage(Value):
    """Amounts that a case spent, in its whole tree of invocations."""

    turns: int = Field(default=0, ge=0)
    tool_calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Cost in US dollars; None: the price of a model is not known."""

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


Outcome: TypeAlias = Literal["done", "failed", "refused", "unknown"]
"""End of a call: `refused` was never run (a rule or a person said no), `unknown` may or may not have happened."""


class CaseCall(Value):
    """Tool call of a case."""

    tool: str
    args: dict[str, Json] = Field(default_factory=dict)
    """Arguments with which it ran: those of the person who changed them, else those of the model."""
    path: str = "main"
    """Path of the invocation that called, like `main/reader-1`."""
    capabilities: tuple[str, ...] = ()
    decision: Literal["approved", "rejected", "changed"] | None = None
    """Answer of the person, or of the script of the case, that was asked; None: nobody was asked."""
    outcome: Outcome = "done"

    @property
    def ran(self) -> bool:
        """Whether the call was run, or may have been."""
        return self.outcome != "refused"


class CaseFile(Value):
    """File that a case wrote or deleted."""

    sha256: str | None
    """Digest of the file's bytes; None: the file was deleted."""
    bytes: int = Field(default=0, ge=0)
    text: str | None = None
    """Text of a small text file; None for others."""


class CaseFacts(Value):
    """Facts about one run of a case."""

    output: Json = None
    """The worker's text, or its structured value."""
    truncated: CutReason | None = None
    """Reason why the answer was cut; None: it was not."""
    error: CaseError | None = None
    usage: CaseUsage = CaseUsage()
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Seconds from start to end without the time for which people were waited for; None: not known."""
    calls: tuple[CaseCall, ...] = ()
    """Calls of all invocations, in the order in which they began."""
    files: dict[str, CaseFile] = Field(default_factory=dict)
    """Files that differ from those before the case, by their paths as workers name them."""


MAX_REASON_CHARS = 500
"""Longest reason of a score; the rest is cut off: reasons quote answers of models."""


class CaseScore(Value):
    """Score that an evaluator gave a case."""

    name: str
    """Name of the metric."""
    value: StrictBool | StrictFloat | StrictStr
    """Pass or fail, a number of which more is better, or a label."""
    reason: str = ""


class EvaluatorFailure(Value):
    """Evaluator that could not judge a case; the case has no score of it."""

    name: str
    message: str


class CaseScores(Value):
    """Scores and failures of a case, in the order of its evaluators."""

    scores: tuple[CaseScore, ...] = ()
    failures: tuple[EvaluatorFailure, ...] = ()

    def plus(self, other: CaseScores) -> CaseScores:
        """Return the scores and failures of both."""
        return CaseScores(scores=(*self.scores, *other.scores), failures=(*self.failures, *other.failures))


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
    """Key of this run by everything that it depends on; see `policy.experiment`. Empty: not known."""
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
    def name(self) -> str:
        """Text that names the repeat of the case within the experiment."""
        return f"{self.case}#{self.repeat}"

    @property
    def is_error(self) -> bool:
        """Whether the run ended in an error; it has no scores then."""
        return self.facts.error is not None

    @property
    def cost(self) -> float | None:
        """Cost of the worker's run in US dollars, without the judge's; None: not known."""
        return self.facts.usage.cost

    @property
    def seconds(self) -> float | None:
        """Seconds without waits for people; None: not known."""
        return self.facts.seconds

    @property
    def tokens(self) -> int:
        """Input and output tokens of the worker's run together."""
        return self.facts.usage.tokens

    @property
    def turns(self) -> int:
        """Turns of the worker's run, in its whole tree of invocations."""
        return self.facts.usage.turns

    def told(self) -> dict[str, Any]:
        """Return what programs are told of it, as JSON, without earlier attempts and the reason of a cut answer."""
        facts, scores = self.facts, self.scores
        return {
            "case": self.case,
            "repeat": self.repeat,
            "run": self.run,
            "origin": self.origin,
            "output": facts.output,
            "error": None if facts.error is None else facts.error.model_dump(mode="json"),
            "scores": {one.name: one.value for one in scores.scores},
            "reasons": {one.name: one.reason for one in scores.scores if one.reason},
            "failures": {one.name: one.message for one in scores.failures},
            "usage": facts.usage.model_dump(mode="json"),
            "seconds": facts.seconds,
        }

    def score(self, metric: str) -> bool | float | str | None:
        """Return the value of a metric; None: the case has no score of it."""
        return next((one.value for one in self.scores.scores if one.name == metric), None)


class EvaluatorProblem(Exception):
    """Reason for which an evaluator cannot judge a case; `str()` of it is for people."""


def shortened(text: str, limit: int = MAX_REASON_CHARS) -> str:
    """Return the text in whole characters, with dots in the place of its end where it has more than the limit."""
    text = whole_characters(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def scored(name: str, value: bool | float | str, reason: str = "") -> CaseScores:
    """Return one score, its reason shortened."""
    return CaseScores(scores=(CaseScore(name=name, value=value, reason=shortened(reason)),))


def failed(name: str, message: str) -> CaseScores:
    """Return the failure of an evaluator, and no score."""
    return CaseScores(failures=(EvaluatorFailure(name=name, message=shortened(message)),))
