"""Pictures of numbers, in places that templates draw: stacked columns, points with intervals, differences. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH = 560
HEIGHT = 190
_COLUMNS_BASE = 165
"""Height at which bars stand; their labels are below."""
_COLUMNS_GAP = 0.3
"""Part of a column that stays empty."""
KINDS = ("first", "second", "third")
"""Classes of the series."""
_TOP = 20
"""Room for the value above a bar, or for the upper end of an interval."""
_BASE = 160
"""Height of the lower edge of the plot; labels are below."""
_LEFT = 46
"""Room for the numbers of the scale."""
_TICKS = 4
_MOST_LABELS = 8
_BAR = 26.0
"""Widest bar of a difference."""


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
    width = step * (1 - _COLUMNS_GAP)
    found: list[Column] = []
    for number, (label, stack) in enumerate(zip(labels, amounts, strict=True)):
        left, top, bars = number * step + step * _COLUMNS_GAP / 2, float(_COLUMNS_BASE), list[Rectangle]()
        for kind, amount in zip(KINDS, stack, strict=False):
            height = round((_COLUMNS_BASE - _TOP) * amount / most, 2)
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


@dataclass(frozen=True)
class PlottedValue:
    """Value that a point stands for."""

    label: str
    mean: float
    low: float | None = None
    """Lower end of its interval; None: it has none."""
    high: float | None = None
    is_new: bool = False
    """Whether it is of another version than the one before it."""
    words: str = ""
    """The whole in words, for a pointer that rests on it."""


@dataclass(frozen=True)
class Mark:
    """Point in the picture."""

    x: float
    y: float
    top: float | None
    """Upper end of its interval; None: it has none."""
    bottom: float | None
    label: str
    """Label below the picture; empty where there is no room."""
    words: str
    is_new: bool


@dataclass(frozen=True)
class ScaleLine:
    """Line of the scale."""

    y: float
    label: str


@dataclass(frozen=True)
class PointPlot:
    """Points from left to right, and their scale."""

    marks: tuple[Mark, ...]
    ticks: tuple[ScaleLine, ...]
    line: str
    """Points of the line through all marks, as SVG has them."""


def point_plot(readings: Sequence[PlottedValue], shown: Callable[[float], str], *, share: bool) -> PointPlot:
    """Return the points; a scale of shares is from 0 to 1, any other one fits the values."""
    low, high = (0.0, 1.0) if share else _bounds(readings)
    step = (WIDTH - _LEFT) / max(len(readings), 1)
    every = -(-len(readings) // _MOST_LABELS) or 1

    def height(value: float) -> float:
        return round(_BASE - (_BASE - _TOP) * (value - low) / (high - low), 2)

    marks = tuple(
        Mark(
            x=round(_LEFT + step * (place + 0.5), 2),
            y=height(one.mean),
            top=None if one.high is None else height(one.high),
            bottom=None if one.low is None else height(one.low),
            label=one.label if (len(readings) - 1 - place) % every == 0 else "",
            words=one.words,
            is_new=one.is_new,
        )
        for place, one in enumerate(readings)
    )
    values = [low + (high - low) * number / _TICKS for number in range(_TICKS + 1)]
    ticks = tuple(ScaleLine(height(value), shown(value)) for value in values)
    return PointPlot(marks, ticks, " ".join(f"{mark.x},{mark.y}" for mark in marks))


def _bounds(readings: Sequence[PlottedValue]) -> tuple[float, float]:
    ends = [end for one in readings for end in (one.mean, one.low, one.high) if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = (high - low) * 0.1 or abs(high) * 0.1 or 1.0
    return low - room, high + room


@dataclass(frozen=True)
class DeltaBar:
    """Difference of one case."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    """Class: `gain`, `loss` or `tie`."""
    words: str


@dataclass(frozen=True)
class DeltaPlot:
    """Differences from the worst to the best, above and below a line."""

    bars: tuple[DeltaBar, ...]
    zero: float
    """Height of the line."""
    top: str
    """Value of the upper edge."""
    bottom: str


def delta_plot(deltas: Sequence[tuple[str, float]], shown: Callable[[float], str]) -> DeltaPlot:
    """Return the bars of cases and their differences, in the order given; `shown` writes a difference shortly."""
    most = max((abs(delta) for _, delta in deltas), default=0.0) or 1.0
    step = (WIDTH - _LEFT) / max(len(deltas), 1)
    width = round(min(step * 0.8, _BAR), 2)
    zero = (_TOP + _BASE) / 2
    bars: list[DeltaBar] = []
    for place, (case, delta) in enumerate(deltas):
        height = max(round((_BASE - _TOP) / 2 * abs(delta) / most, 2), 1.0)
        kind = "gain" if delta > 0 else "loss" if delta < 0 else "tie"
        top = zero - height if delta > 0 else zero
        left = _LEFT + step * place + (step - width) / 2
        bars.append(DeltaBar(round(left, 2), round(top, 2), width, height, kind, f"{case}: {shown(delta)}"))
    return DeltaPlot(tuple(bars), zero, shown(most), shown(-most))
