"""Work of a validation, counted in steps and never in time: a replay must come to the same end.

A step is two to ten microseconds of an ordinary machine.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

MAX_STEPS = 150_000
"""Steps of a validation, less than a second: a workflow's task that computes for two is taken for one that hangs."""
MAX_VALUES = 100_000
"""Values in a value or in a schema; a megabyte of JSON seldom has more."""
MAX_DEPTH = 100
"""Keywords under way at the same time, well below Python's own limit, which depends on the caller's depth."""
MAX_VALUE_DEPTH = 250
"""Levels of nesting of a value or a schema: about as many as JSON readers take, and fewer than writing it out takes."""
CHARS_A_STEP = 400
_UNITS_A_STEP = 12


class UnusableSchema(Exception):
    """Schema that no value can be compared with: a pattern that is refused, a reference that leads nowhere."""


class TooMuchWork(Exception):
    """Validation that was given up. The message says why."""


@dataclass
class Steps:
    """Steps that are left, for one validation or for several together."""

    left: int = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Take a number of steps. Raises TooMuchWork where fewer are left, and from then on."""
        self.left -= steps
        if self.left <= 0:
            self.left = 0
            raise TooMuchWork("checking it takes more steps than are accepted; give a smaller or simpler value")


@dataclass
class Meter:
    """Work of a validation that is under way."""

    steps: Steps
    weights: dict[int, int] = field(default_factory=dict[int, int])
    """Steps for writing out each container in the value and the schema, by its `id`."""
    searched: int = 0
    """Number of places in the schema that are looked at for a name that is no path."""
    depth: int = 0

    def weight(self, value: object) -> int:
        """Return the steps for reading or writing `value` once."""
        if isinstance(value, str):
            return len(value) // CHARS_A_STEP
        return self.weights.get(id(value), 0)

    def enter(self) -> None:
        """Begin a keyword within another; `leave` ends it. Raises TooMuchWork where they never end."""
        if self.depth >= MAX_DEPTH:
            raise TooMuchWork(
                f"its schema leads more than {MAX_DEPTH} levels deep; a reference may go in a circle, or the value is "
                "nested too deeply"
            )
        self.depth += 1

    def leave(self) -> None:
        """End the keyword that `enter` began."""
        self.depth -= 1


_METER: ContextVar[Meter | None] = ContextVar("llm_do_schema_meter", default=None)


def meter() -> Meter:
    """Return the meter of the validation that is under way."""
    found = _METER.get()
    return Meter(Steps()) if found is None else found


@contextmanager
def metered(value: Any, steps: Steps, schema_weights: dict[int, int]) -> Generator[None]:
    """Meter a validation of `value`. Raises TooMuchWork for a value that is too large or too deep to begin with."""
    weights = weigh(value)
    steps.spend(1 + 3 * weights.get(id(value), 0))
    token = _METER.set(Meter(steps, {**schema_weights, **weights}, len(schema_weights)))
    try:
        yield
    finally:
        _METER.reset(token)


def weigh(value: Any) -> dict[int, int]:
    """Return the steps for writing out each container in `value`, by its `id`. Raises TooMuchWork."""
    units: dict[int, int] = {}
    count = 1
    pending: list[tuple[Any, int, bool]] = [(value, 0, False)]
    while pending:
        node, depth, is_left = pending.pop()
        if not isinstance(node, dict | list | tuple):
            continue
        inner = _inner(cast("Any", node))
        if is_left:
            units[id(cast("Any", node))] = 1 + sum(_units(one, units) for one in inner)
            continue
        count += len(inner)
        if count > MAX_VALUES:
            raise TooMuchWork(f"it holds more than {MAX_VALUES:,} values; give less at once")
        if depth > MAX_VALUE_DEPTH:
            raise TooMuchWork(f"it is nested more than {MAX_VALUE_DEPTH} levels deep")
        pending.append((cast("Any", node), depth, True))
        pending.extend((one, depth + 1, False) for one in inner)
    return {key: found // _UNITS_A_STEP for key, found in units.items()}


def _units(value: Any, units: dict[int, int]) -> int:
    return 1 + len(value) // 32 if isinstance(value, str) else units.get(id(value), 1)


def _inner(node: Any) -> list[Any]:
    if isinstance(node, dict):
        known = cast("dict[Any, Any]", node)
        return [*known, *known.values()]
    return list(cast("list[Any]", node))
