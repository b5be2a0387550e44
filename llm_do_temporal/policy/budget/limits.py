"""Limits on the spending of a run, or of a worker with everything below it.

A limit is a number for one of six dimensions. Spending is kept as `Amounts`; time is not among them, it is measured by
a clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_UP, Context, Decimal
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from llm_do_temporal.policy.values import Value


class Dimension(StrEnum):
    """Dimension that can be limited."""

    TURNS = "turns"
    TOOL_CALLS = "tool_calls"
    TOKENS = "tokens"
    COST = "cost"
    INVOCATIONS = "invocations"
    TIME = "time"


COUNTED = tuple(dimension for dimension in Dimension if dimension is not Dimension.TIME)
"""Dimensions of `Amounts`."""
MEASURED = (Dimension.TOKENS, Dimension.COST)
"""Dimensions whose amount for a turn is known only when the turn has ended."""
RESERVED = (Dimension.TURNS, Dimension.TOOL_CALLS, Dimension.INVOCATIONS)
"""Dimensions whose amount is known beforehand."""
NOTHING = Decimal(0)

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WORDS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_DURATION = re.compile(r"(\d+)([smhd])", re.ASCII)
LONGEST_DURATION = 10 * 366 * 86400
"""Most seconds of a limit, and of any other time that is not an age."""
LONGEST_AGE = 10_000 * 86400
"""Most seconds since something that is looked for, or cleared away."""


def read_duration(value: Any, *, longest: int = LONGEST_DURATION) -> Any:
    """Return the seconds of `90s`, `30m`, `2h`, `3d`; any value but text is returned as it is.

    Raises ValueError for another text, and for more than `longest` seconds.
    """
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value)
    if found is None:
        raise ValueError(f"'{value[:40]}' is not a time; write it like 90s, 30m, 2h or 3d")
    digits = found[1].lstrip("0") or "0"
    # Python reads no number of thousands of digits, and its clocks count no more than some billion days.
    seconds = int(digits) * _UNITS[found[2]] if len(digits) <= len(str(longest)) else longest + 1
    if seconds > longest:
        raise ValueError(f"'{value[:40]}' is too long; a time is at most {longest // 86400} days")
    return seconds


DurationText = Annotated[str, StringConstraints(pattern=rf"^{_DURATION.pattern}$")]
_MOST = 10**12
_MOST_DOLLARS = 10**9
_PLACES = 20
"""Most places behind the point of a cost; a sum of Python's floats has up to so many."""
_SMALLEST = Decimal(1).scaleb(-_PLACES)


def _is_long(cost: Decimal) -> bool:
    """Return whether a cost has more places than are kept."""
    exponent = cost.as_tuple().exponent
    return isinstance(exponent, int) and exponent < -_PLACES


def _check_places(cost: Decimal) -> Decimal:
    if _is_long(cost):
        raise ValueError(f"it has more than {_PLACES} places behind the point")
    return cost


Count = Annotated[int, Field(ge=1, le=_MOST)]
Dollars = Annotated[Decimal, Field(gt=0, le=_MOST_DOLLARS, allow_inf_nan=False), AfterValidator(_check_places)]
"""Cost in US dollars, within what decimal arithmetic adds, divides and compares."""
Duration = Annotated[
    int, Field(ge=1, le=LONGEST_DURATION), BeforeValidator(read_duration, json_schema_input_type=int | DurationText)
]
"""Duration in whole seconds."""


class Limits(Value):
    """`limits:` of a workshop or a worker; None is no limit."""

    turns: Count | None = None
    tool_calls: Count | None = None
    tokens: Count | None = None
    """Input and output tokens together."""
    cost: Dollars | None = None
    """Cost in US dollars."""
    invocations: Count | None = None
    """Invocations, the worker's own included."""
    time: Duration | None = None
    """Seconds since the start, whatever they are spent on."""

    @property
    def set_ones(self) -> tuple[Dimension, ...]:
        """The dimensions that have a limit."""
        return tuple(dimension for dimension in Dimension if getattr(self, dimension) is not None)

    def of(self, dimension: Dimension) -> Decimal | None:
        """Return the limit of one dimension; None without a limit."""
        limit: int | Decimal | None = getattr(self, dimension)
        return None if limit is None else Decimal(limit)

    def over(self, other: Limits) -> Limits:
        """Return these limits, with those of `other` where these have none."""
        return other.model_copy(update={name: getattr(self, name) for name in self.set_ones})

    def with_limit(self, dimension: Dimension, limit: Decimal) -> Limits:
        """Return these limits with another limit for one dimension, or the highest that is below it."""
        if dimension is not Dimension.COST:
            return self.model_copy(update={dimension: min(int(limit), _MOST)})
        cost = min(limit, Decimal(_MOST_DOLLARS))
        # A person may agree to more places than are kept.
        cost = cost.quantize(_SMALLEST, ROUND_UP, Context(prec=40)) if _is_long(cost) else cost
        return self.model_copy(update={dimension: cost})


class Amounts(Value):
    """Amounts that were spent, are reserved or are wanted."""

    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: Decimal = NOTHING
    """Cost in US dollars."""
    invocations: int = 0

    def of(self, dimension: Dimension) -> Decimal:
        """Return the amount of one counted dimension."""
        return Decimal(getattr(self, dimension))

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum of both."""
        return Amounts(**{name: getattr(self, name) + getattr(other, name) for name in COUNTED})

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference of both."""
        return Amounts(**{name: getattr(self, name) - getattr(other, name) for name in COUNTED})

    def largest(self, other: Amounts) -> Amounts:
        """Return the larger of both, dimension by dimension."""
        return Amounts(**{name: max(getattr(self, name), getattr(other, name)) for name in COUNTED})

    @property
    def needs(self) -> tuple[Dimension, ...]:
        """The dimensions in which an amount must be left for a grant: a turn takes tokens and money too."""
        counts = tuple(name for name in COUNTED if self.of(name) > 0)
        return tuple(dict.fromkeys((*counts, *MEASURED))) if self.turns else counts


def limited_by(limits: Limits, above: tuple[Dimension, ...] = ()) -> tuple[Dimension, ...]:
    """Return the dimensions that are limited for an invocation with `limits`, below others that limit `above`."""
    return tuple(dict.fromkeys((*above, *limits.set_ones)))


def agreed_limit(dimension: Dimension, given: Mapping[str, Any], asked: Mapping[str, Any]) -> Decimal:
    """Return the limit in the decision's arguments (`given`), else the one in the question's (`asked`).

    Raises ValueError where neither is a limit.
    """
    for arguments in (given, asked):
        try:
            limit = Decimal(str(arguments.get("next")))
        except ArithmeticError:
            continue
        if limit.is_finite() and 0 < limit <= highest_limit(dimension):
            return limit
    raise ValueError("the question names no limit to go on to")


def highest_limit(dimension: Dimension) -> int:
    """Return the highest limit that a person can agree to: seconds for time, else the dimension's own unit."""
    return LONGEST_DURATION if dimension is Dimension.TIME else 10**15


def described(dimension: Dimension, amount: Decimal) -> str:
    """Return an amount in words: `200 turns`, `$2.50`, `90 minutes`."""
    if dimension is Dimension.COST:
        return f"${amount:.2f}" if amount == round(amount, 2) else f"${amount.normalize():f}"
    if dimension is Dimension.TIME:
        seconds = int(amount)
        unit, word = next(one for one in _WORDS if seconds % one[0] == 0)
        return _counted(seconds // unit, word)
    return _counted(int(amount), dimension.replace("_", " ").removesuffix("s"))


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word if number == 1 else word + 's'}"
