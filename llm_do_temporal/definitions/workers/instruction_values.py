"""Values of instructions as a template: their weight, their combination, and the filters for them.

Texts, numbers, truth values, and lists and mappings of these; no other value can come to be, and no attribute or method
of a value is ever looked up. The cost of a value is paid through `Pay` before the value is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from llm_do_temporal.definitions.workers.instruction_syntax import TemplateMistake

LARGEST_NUMBER = 10**15
_WIDEST_INDENT = 200
Pay = Callable[[int], None]
"""Payment for a number of characters; raises TemplateMistake where they are more than a template may make."""


class NotDefined(TemplateMistake):
    """Missing name or key."""


class Items(list[Any]):
    """List that knows its weight, all the way down."""

    def __init__(self, items: Sequence[Any]) -> None:
        super().__init__(items)
        self.weight = sum(map(weight_of, items))


class Pairs(dict[Any, Any]):
    """Mapping that knows its weight."""

    def __init__(self, pairs: Mapping[Any, Any]) -> None:
        super().__init__(pairs)
        self.weight = sum(weight_of(key) + weight_of(value) for key, value in pairs.items())


def weight_of(value: Any) -> int:
    """Return the weight of a value, in characters; a list knows its own, however its parts hang together."""
    if isinstance(value, str | range):
        return len(value) + 1
    if isinstance(value, Items | Pairs):
        return value.weight + 2 * len(value) + 1
    return 20 if isinstance(value, int | float) else 8


def number_of(value: Any) -> int | float:
    """Return the value as a number of a sensible size. Raises TemplateMistake for any other value."""
    if not isinstance(value, int | float) or (isinstance(value, int) and abs(value) > LARGEST_NUMBER):
        raise TemplateMistake("an operator is used on what is no number, or on one that is too large")
    return value


def items_of(pay: Pay, value: Any) -> Sequence[Any]:
    """Return the items that a loop goes through. Raises TemplateMistake for a value that is no list."""
    if not isinstance(value, Items | Pairs | range | str):
        raise TemplateMistake("this needs a list")
    pay(len(value))
    return list(value)


def looked_up(value: Any, key: Any) -> Any:
    """Return `value[key]`. Raises NotDefined."""
    if isinstance(value, Pairs):
        if key in value:
            return value[key]
    elif isinstance(value, Items | range | str) and type(key) is int and -len(value) <= key < len(value):
        return cast("Sequence[Any]", value)[key]
    raise NotDefined(f"there is no '{str(key)[:80]}' in that value")


def as_text(pay: Pay, value: Any) -> str:
    """Return the value as it is written into the result."""
    if isinstance(value, str):
        return value
    pay(weight_of(value))
    return str(value)


def _changing(change: Callable[[str], str]) -> Callable[[Pay, Any], str]:
    def changed(pay: Pay, value: Any) -> str:
        text = as_text(pay, value)
        pay(3 * len(text))
        return change(text)

    return changed


def _end(where: int) -> Callable[[Pay, Any], Any]:
    def end(pay: Pay, value: Any) -> Any:
        items = items_of(pay, value)
        if not items:
            raise NotDefined("an empty list has no first and no last item")
        return items[where]

    return end


def _count(pay: Pay, value: Any) -> int:
    if not isinstance(value, Items | Pairs | range | str):
        raise TemplateMistake("only a text or a list has a length")
    return len(value)


def _indent(pay: Pay, value: Any, width: Any = 4, first: Any = False, blank: Any = False) -> str:
    if type(width) is not int or not 0 <= width <= _WIDEST_INDENT or not isinstance(value, str):
        raise TemplateMistake(f"indent takes a text and a number of at most {_WIDEST_INDENT}")
    lines = value.split("\n")
    pay(len(value) + len(lines) * (width + 1))
    space = " " * width
    head, *rest = lines
    return "\n".join([space * bool(first) + head, *(space * bool(line or blank) + line for line in rest)])


def _join(pay: Pay, value: Any, d: Any = "") -> str:
    items, between = items_of(pay, value), as_text(pay, d)
    pay(len(between) * len(items))
    parts = [as_text(pay, item) for item in items]
    pay(sum(map(len, parts)))
    return between.join(parts)


def _replace(pay: Pay, value: Any, old: Any, new: Any) -> str:
    if not (isinstance(value, str) and isinstance(old, str) and isinstance(new, str)):
        raise TemplateMistake("replace takes texts")
    pay(len(value))
    pay(len(value) + value.count(old) * len(new))
    return value.replace(old, new)


FILTER_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "capitalize": _changing(str.capitalize),
    "count": _count,
    "first": _end(0),
    "indent": _indent,
    "join": _join,
    "last": _end(-1),
    "length": _count,
    "lower": _changing(str.lower),
    "replace": _replace,
    "trim": _changing(str.strip),
    "upper": _changing(str.upper),
}
"""Functions of the filters; `default` is not among them, as it is for values that do not exist."""


def passes(test: str, value: Any) -> bool:
    """Return whether the value passes a test of `instruction_syntax.TESTS` that is not about its existence."""
    if test == "none":
        return value is None
    if test == "string":
        return isinstance(value, str)
    if test == "number":
        return isinstance(value, int | float)
    return number_of(value) % 2 == (test == "odd")
