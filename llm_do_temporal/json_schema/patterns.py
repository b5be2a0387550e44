"""Work of a validation, counted in steps and never in time, and regular expressions that take a known number of them.

A replay must come to the same end. A step is two to ten microseconds of an ordinary machine. Patterns run in an engine
whose work grows linearly with the text. They are written as JSON Schema wants them (ECMA 262, `\\d` is 0 to 9).
Look-ahead, which no such engine has, is understood at the beginning of a pattern, where it is simply one more pattern:
Pydantic writes decimals so.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

import jsonschema_rs
from jsonschema_rs import RegexOptions

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
        known = cast("dict[Any, Any]", node)
        inner: list[Any] = [*known, *known.values()] if isinstance(node, dict) else list(cast("list[Any]", node))
        if is_left:
            sizes = (1 + len(one) // 32 if isinstance(one, str) else units.get(id(one), 1) for one in inner)
            units[id(known)] = 1 + sum(sizes)
            continue
        count += len(inner)
        if count > MAX_VALUES:
            raise TooMuchWork(f"it holds more than {MAX_VALUES:,} values; give less at once")
        if depth > MAX_VALUE_DEPTH:
            raise TooMuchWork(f"it is nested more than {MAX_VALUE_DEPTH} levels deep")
        pending.append((known, depth, True))
        pending.extend((one, depth + 1, False) for one in inner)
    return {key: found // _UNITS_A_STEP for key, found in units.items()}


MAX_PATTERN_CHARS = 4_000
MAX_LOOKAHEADS = 10
MAX_COMPILED = 8 * 1024 * 1024
"""Bytes of all compiled patterns of one schema together."""
MAX_COMPILING = 3 * MAX_COMPILED
"""Bytes that stand for the work of compiling the patterns of one schema: refused patterns were work as well."""
_SIZES = tuple(1024 * 2**power for power in range(14))
"""Bytes that a compiled pattern may have, tried in turn; the first that is enough tells the work for each character."""
_CACHE_BYTES = 512 * 1024
_SIZE_A_STEP = 16 * 1024
"""Bytes of a compiled pattern times bytes of text that at worst take as long as one step."""
_RUN = re.compile(r"\^(?:\.|\\[dDwWsS]|\[(?:[^\[\]\\]|\\.)+\])(?:[*+?]|\{\d+(?:,\d*)?\})?\$", re.ASCII)
"""Pattern of a single kind of character with a count: however large its compiled form is, each character of a text is
looked at once."""
_RUN_SIZE = 1024
_ATTEMPT_COST = 2 * 1024
"""Bytes that stand for the work of an attempt to compile, and of each class of characters, which has to be looked up,
and folded where upper and lower case are the same."""
_CLASS_COST, _FOLDED_COST = 512, 16 * 1024
_CLASS = re.compile(r"\\.|\[|-")
_SHORTHAND = re.compile(r"\\[dDwWsS]")
"""Short forms of classes. Each is written out in the text that the replacements before it made: their work is the third
power of their number."""
_FOLDED = re.compile(r"\(\?[a-zA-Z]*i")
_TOO_LARGE = "its patterns are too large together; use fewer of them, or smaller repetitions"
_AFTER_A_REFUSAL = "another of its patterns cannot be used"
_ELSEWHERE = "a pattern stands where no schema can"


@dataclass(frozen=True)
class _Part:
    validator: Any
    size: int
    work: int
    """Work for each character of a text, as a size in bytes."""
    wanted: bool


class Patterns:
    """Patterns of one schema, all of them compiled, or known to be unusable, before any text is seen."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._compiled: dict[str, tuple[_Part, ...] | str] = {}
        refused = False
        work = _Work()
        for pattern in dict.fromkeys(patterns):
            if refused:
                # The schema is of no use any more, however many follow.
                self._compiled[pattern] = _AFTER_A_REFUSAL
                continue
            try:
                self._compiled[pattern] = tuple(work.compile(part, wanted, pattern) for part, wanted in _split(pattern))
            except UnusableSchema as error:
                self._compiled[pattern] = str(error)
                refused = True

    def problem(self, pattern: str) -> str | None:
        """Return why the pattern cannot be used; None for a usable one, and for one after the first unusable one."""
        found = self._compiled.get(pattern, _ELSEWHERE)
        if found == _AFTER_A_REFUSAL:
            return None
        return found if isinstance(found, str) else None

    def found(self, pattern: str, text: str, steps: Steps) -> bool:
        """Return whether the pattern matches any part of the text. Raises UnusableSchema, TooMuchWork."""
        parts = self._compiled.get(pattern, _ELSEWHERE)
        if isinstance(parts, str):
            raise UnusableSchema(parts)
        # Half a character is none of the engine's; no pattern can mean it.
        data = text.encode("utf-8", errors="replace")
        steps.spend(1 + sum(part.work * len(data) // _SIZE_A_STEP for part in parts))
        plain = text if len(data) == len(text) and text.isascii() else data.decode()
        return all(part.validator.is_valid(plain) is part.wanted for part in parts)


class _Work:
    """Work of compiling so far, for all patterns of one schema."""

    def __init__(self) -> None:
        self._left = MAX_COMPILING
        self._size_left = MAX_COMPILED

    def compile(self, pattern: str, wanted: bool, whole: str) -> _Part:
        """Compile the pattern. Raises UnusableSchema."""
        cost = _attempt_cost(pattern)
        for size in _SIZES if len(pattern) <= MAX_PATTERN_CHARS else ():
            if size > self._size_left:
                break
            self._left -= size + cost
            if self._left < 0:
                raise UnusableSchema(_TOO_LARGE)
            options = RegexOptions(size_limit=size, dfa_size_limit=_CACHE_BYTES)
            try:
                validator = jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
            except ValueError:
                continue
            self._size_left -= size
            return _Part(validator, size, _RUN_SIZE if _RUN.fullmatch(pattern) else size, wanted)
        raise UnusableSchema(
            f"the pattern '{ascii(whole)[1:-1][:120]}' cannot be used: it is no regular expression, too large, or has "
            "what no engine can match in linear time (back-references, look-behind, look-ahead but at the beginning)"
        )


def _attempt_cost(pattern: str) -> int:
    pattern = pattern[:MAX_PATTERN_CHARS]
    classes, shorthands = len(_CLASS.findall(pattern)), len(_SHORTHAND.findall(pattern))
    return _ATTEMPT_COST + shorthands**3 + classes * (_FOLDED_COST if _FOLDED.search(pattern) else _CLASS_COST)


def _split(pattern: str) -> list[tuple[str, bool]]:
    """Return the look-aheads after a pattern's `^`, and its rest: parts that must match (True) or must not (False)."""
    rest = pattern.removeprefix("^")
    parts: list[tuple[str, bool]] = []
    while pattern.startswith("^") and rest.startswith(("(?=", "(?!")) and len(parts) < MAX_LOOKAHEADS:
        end = next((place for place, char, depth in _outside_classes(rest) if char == ")" and depth == 0), None)
        if end is None:
            break
        parts.append((f"^(?:{rest[3:end]})", rest[2] == "="))
        rest = rest[end + 1 :]
    # In `^(?=a)b|c` the look-ahead belongs to the first alternative alone.
    has_alternatives = any(char == "|" and depth == 0 for _place, char, depth in _outside_classes(rest))
    if not parts or has_alternatives or rest.startswith(("*", "+", "?", "{")):
        return [(pattern, True)]
    return [*parts, (f"^(?:{rest})", True)]


def _outside_classes(pattern: str) -> list[tuple[int, str, int]]:
    """Return every character that is neither escaped nor in a class: position, character, groups open after it."""
    found: list[tuple[int, str, int]] = []
    depth, in_class, place = 0, False, 0
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            place += 2
            continue
        if in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        else:
            depth += (char == "(") - (char == ")")
            found.append((place, char, depth))
        place += 1
    return found
