"""Keys of evaluation files, as people write them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from llm_do_temporal.definitions.keys.base import Text
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.messages.definitions import Turns
from llm_do_temporal.policy.budget import Limits
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
