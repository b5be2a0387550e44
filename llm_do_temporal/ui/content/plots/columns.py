"""Columns: stacked bars above a label each, in a picture of fixed size. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH = 560
HEIGHT = 190
_TOP = 20
"""Room for the value above a bar."""
_BASE = 165
"""Height at which bars stand; their labels are below."""
_GAP = 0.3
"""Part of a column that stays empty."""
KINDS = ("first", "second", "third")
"""Classes of the series."""


@dataclass(frozen=True)
class Rectangle:
    """Part of a column in the picture."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    """Class of the series: `first`, `second` or `third`."""


@dataclass(frozen=True)
class Column:
    """Bars above one label, stacked."""

    label: str
    value: str
    """Text above the bars."""
    middle: float
    top: float
    bars: tuple[Rectangle, ...]


def columns(labels: Sequence[str], amounts: Sequence[Sequence[float]], shown: Callable[[float], str]) -> list[Column]:
    """Return a column for each label, with its amounts stacked in the order of KINDS; `shown` writes their sum."""
    most = max((sum(stack) for stack in amounts), default=0) or 1
    step = WIDTH / max(len(labels), 1)
    width = step * (1 - _GAP)
    found: list[Column] = []
    for number, (label, stack) in enumerate(zip(labels, amounts, strict=True)):
        left, top, bars = number * step + step * _GAP / 2, float(_BASE), list[Rectangle]()
        for kind, amount in zip(KINDS, stack, strict=False):
            height = round((_BASE - _TOP) * amount / most, 2)
            top -= height
            if height:
                bars.append(Rectangle(round(left, 2), round(top, 2), round(width, 2), height, kind))
        total = sum(stack)
        found.append(Column(label, shown(total) if total else "", round(left + width / 2, 2), top - 5, tuple(bars)))
    return found


def spread(values: Sequence[float], bins: int, low: float, high: float) -> list[int]:
    """Return how many values lie in each of so many equal parts of a range; the ends belong to the outer parts."""
    counts = [0] * bins
    width = (high - low) / bins or 1
    for value in values:
        counts[min(max(int((value - low) / width), 0), bins - 1)] += 1
    return counts
