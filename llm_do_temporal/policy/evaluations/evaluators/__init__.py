"""Evaluators: values with the keys of a file, which score the facts of a case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from llm_do_temporal.policy.evaluations.evaluators.amounts import (
    MaxDollars,
    MaxSeconds,
    MaxToolCalls,
    MaxTurns,
)
from llm_do_temporal.policy.evaluations.evaluators.answers import (
    Contains,
    Equals,
    EqualsExpected,
    FitsSchema,
    IsInstance,
    JsonPath,
    Matches,
)
from llm_do_temporal.policy.evaluations.evaluators.base import BaseEvaluator, Finding, Matchers, Seen
from llm_do_temporal.policy.evaluations.evaluators.calls import (
    ArgumentCorrectness,
    AskedFirst,
    Called,
    CallOrder,
    NeverCalled,
    ToolCorrectness,
    TrajectoryMatch,
)
from llm_do_temporal.policy.evaluations.evaluators.files import FileContains, FileEquals, FileUntouched, FileWritten
from llm_do_temporal.policy.evaluations.evaluators.functions import Python

_Any = (
    Equals
    | EqualsExpected
    | Contains
    | IsInstance
    | Matches
    | JsonPath
    | FitsSchema
    | FileEquals
    | FileContains
    | FileWritten
    | FileUntouched
    | Called
    | NeverCalled
    | AskedFirst
    | CallOrder
    | ToolCorrectness
    | TrajectoryMatch
    | ArgumentCorrectness
    | MaxTurns
    | MaxToolCalls
    | MaxDollars
    | MaxSeconds
    | Python
)
Evaluator: TypeAlias = Annotated[_Any, Field(discriminator="kind")]
"""Evaluator of any kind, told by `kind`."""
EVALUATORS: Mapping[str, type[BaseEvaluator]] = {kind.__name__: kind for kind in get_args(_Any)}
"""Evaluators by the names that files have for them, in the order of the docs."""

__all__ = ["EVALUATORS", "BaseEvaluator", "Evaluator", "Finding", "Matchers", "Python", "Seen"]
