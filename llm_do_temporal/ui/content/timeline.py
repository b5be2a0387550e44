"""Timeline of a run: a window of its time, and the bars of its invocations in it. Pure.

Places are percent of the window's width and of a lane's height, so that a page draws them at any size without styles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from llm_do_temporal.client.record.results import Period, PeriodKind, Track
from llm_do_temporal.client.views.tree import Branch

BarKind = Literal["turn", "call", "wait", "whole", "earlier"]
MAX_ROWS = 4
"""Tool calls side by side that are drawn in rows of their own; more share these."""
_CALLS_PERCENT = 64
"""Part of a lane's height that calls have; waits for people are below."""
_MERGED_PERCENT = 0.15
"""Gap below which two bars of the same kind are drawn as one: nobody could see it."""
_LEAST_SECONDS = 0.01
_MOST_TICKS = 6
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800)
_LONG_STEPS = (21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000)
_WORDS: dict[BarKind, tuple[str, str]] = {
    "turn": ("turn", "turns"),
    "call": ("tool call", "tool calls"),
    "wait": ("wait for a person", "waits for people"),
    "whole": ("invocation", "invocations"),
    "earlier": ("earlier part", "earlier parts"),
}


@dataclass(frozen=True)
class Window:
    """Part of a run's time that a timeline shows; `end` comes after `begin`."""

    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return (self.end - self.begin).total_seconds()

    def percent(self, moment: datetime) -> float:
        """Return the place of a moment, 0 to 100; what lies outside is put at the edge."""
        return min(100.0, max(0.0, (moment - self.begin).total_seconds() / self.seconds * 100))

    def meets(self, begin: datetime, end: datetime) -> bool:
        """Whether a period lies in the window, in part at least."""
        return begin <= self.end and end >= self.begin


@dataclass(frozen=True)
class Bar:
    """Bar in a lane, in percent."""

    kind: BarKind
    x: float
    width: float
    y: float
    height: float
    title: str
    failed: bool = False
    is_open: bool = False
    """Whether it goes on."""


@dataclass(frozen=True)
class BarLane:
    """Bars of one invocation."""

    bars: tuple[Bar, ...]
    words: str
    """The lane in words, for people who do not see it."""
    zoom: str = ""
    """Part of an address that shows the time of this invocation alone."""


@dataclass(frozen=True)
class Tick:
    """Mark on the axis: its place in percent, and the time since the run began in words."""

    x: float
    label: str


@dataclass(frozen=True)
class Axis:
    """Axis of a timeline, with the parts of addresses that show another window; None where there is none to go to."""

    window: Window
    begin: float
    """Seconds from the run's start to the window's begin."""
    end: float
    ticks: tuple[Tick, ...]
    closer: str
    wider: str | None
    earlier: str | None
    later: str | None


def window_of(start: datetime, end: datetime, begin_text: str, end_text: str) -> tuple[Window, bool]:
    """Return the window that an address names by seconds since the start, and whether it is only a part of the run.

    An address that makes no sense stands for the whole run.
    """
    whole = Window(start, max(end, start + timedelta(seconds=_LEAST_SECONDS)))
    try:
        begin, until = float(begin_text), float(end_text)
    except ValueError:
        return whole, False
    begin, until = max(0.0, begin), min(until, whole.seconds)
    if not until - begin >= _LEAST_SECONDS:
        return whole, False
    part = Window(start + timedelta(seconds=begin), start + timedelta(seconds=until))
    return part, part != whole


def axis_of(start: datetime, whole_end: datetime, window: Window) -> Axis:
    """Return the axis of a window of a run that began at `start` and has lasted until `whole_end`."""
    whole = max((whole_end - start).total_seconds(), _LEAST_SECONDS)
    begin, end = (window.begin - start).total_seconds(), (window.end - start).total_seconds()
    half, quarter = window.seconds / 2, window.seconds / 4
    is_whole = begin <= 0 and end >= whole
    return Axis(
        window=window,
        begin=begin,
        end=end,
        ticks=tuple(_ticks(begin, end)),
        closer=window_query(begin + quarter, end - quarter),
        wider=None if is_whole else window_query(max(0, begin - half), min(whole, end + half)),
        earlier=None if begin <= 0 else window_query(max(0, begin - half), max(0, begin - half) + window.seconds),
        later=None if end >= whole else window_query(min(whole, end + half) - window.seconds, min(whole, end + half)),
    )


def window_query(begin: float, end: float) -> str:
    """Return the part of an address that names a window, in seconds since the run's start."""
    return f"from={begin:.3f}&to={end:.3f}"


def lane_of(branch: Branch, track: Track | None, start: datetime, window: Window, now: datetime) -> BarLane:
    """Return the lane of an invocation; without its track, one bar for all of it. `now` ends what goes on."""
    end = branch.ended_at or now
    zoom = window_query((branch.started_at - start).total_seconds(), (end - start).total_seconds())
    whole = _whole_bar(branch, window, now)
    if track is None:
        return BarLane(whole, f"took {span_words(branch.started_at, end)}", zoom)
    bars = [*whole, *_earlier_bar(branch, track, window)]
    for kind in ("turn", "call", "wait"):
        found = [one for one in track.periods if one.kind == kind]
        bars += _bars(kind, [one for one in found if window.meets(one.begin, one.end or now)], window, now)
    return BarLane(tuple(bars), _words(branch, track, now), zoom)


def span_words(begin: datetime, end: datetime) -> str:
    """Return a length of time in words, exact to a tenth of a second below ten seconds."""
    return seconds_words((end - begin).total_seconds())


def seconds_words(seconds: float) -> str:
    """Return a number of seconds in words of two units at most, like `1 min 30 s`."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"
    left, words = round(seconds), list[str]()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if left >= size and len(words) < 2:
            words.append(f"{left // size} {unit}")
            left %= size
        elif words:
            break
    return " ".join(words)


def _whole_bar(branch: Branch, window: Window, now: datetime) -> tuple[Bar, ...]:
    end = branch.ended_at or now
    if not window.meets(branch.started_at, end):
        return ()
    failed = branch.status not in ("running", "waiting", "completed")
    title = f"{branch.status}, {span_words(branch.started_at, end)}"
    return (_bar("whole", branch.started_at, end, window, title, failed=failed, is_open=branch.is_open),)


def _earlier_bar(branch: Branch, track: Track, window: Window) -> tuple[Bar, ...]:
    if track.read_from is None or not window.meets(branch.started_at, track.read_from):
        return ()
    title = "earlier turns; zoom to see them"
    return (_bar("earlier", branch.started_at, track.read_from, window, title),)


def _bars(kind: PeriodKind, periods: Sequence[Period], window: Window, now: datetime) -> Iterator[Bar]:
    """Yield bars for periods of one kind: calls at the same time below each other, neighbours too close as one."""
    rows = _rows(periods, now) if kind == "call" else [list(periods)]
    height = (_CALLS_PERCENT if kind == "call" else 100) / max(1, len(rows))
    for number, row in enumerate(rows):
        for group in _groups(row, window, now):
            first, end = group[0], max(one.end or now for one in group)
            is_open = any(one.end is None for one in group)
            # What waited stands below the calls that it held up; what waits now is as high as the lane.
            y = _CALLS_PERCENT if kind == "wait" and not is_open else number * height
            yield _bar(
                kind,
                first.begin,
                end,
                window,
                _title(kind, group, first.begin, end),
                y=y,
                height=100 - y if kind == "wait" else height,
                failed=any(one.failed for one in group),
                is_open=is_open,
            )


def _rows(periods: Sequence[Period], now: datetime) -> list[list[Period]]:
    """Return the periods in rows in which none overlaps another, as far as `MAX_ROWS` allow."""
    rows: list[list[Period]] = []
    for one in periods:
        free = [row for row in rows if (row[-1].end or now) <= one.begin]
        if free:
            free[0].append(one)
        elif len(rows) < MAX_ROWS:
            rows.append([one])
        else:
            min(rows, key=lambda row: row[-1].end or now).append(one)
    return rows


def _groups(periods: Sequence[Period], window: Window, now: datetime) -> Iterator[list[Period]]:
    group: list[Period] = []
    until = 0.0
    for one in periods:
        x, end = window.percent(one.begin), window.percent(one.end or now)
        if group and x - until >= _MERGED_PERCENT:
            yield group
            group, until = [], 0.0
        group.append(one)
        until = max(until, end)
    if group:
        yield group


def _bar(
    kind: BarKind,
    begin: datetime,
    end: datetime,
    window: Window,
    title: str,
    *,
    y: float = 0,
    height: float = 100,
    failed: bool = False,
    is_open: bool = False,
) -> Bar:
    x = window.percent(begin)
    return Bar(
        kind, round(x, 3), round(window.percent(end) - x, 3), round(y, 2), round(height, 2), title, failed, is_open
    )


def _title(kind: PeriodKind, group: Sequence[Period], begin: datetime, end: datetime) -> str:
    if len(group) > 1:
        return f"{len(group)} {_WORDS[kind][1]}, {span_words(begin, end)}"
    (one,) = group
    first = {"turn": f"turn of {one.label}" if one.label else "turn", "call": one.label}.get(
        kind, f"asked: {one.label}"
    )
    going = " so far" if one.end is None else ""
    return f"{first}, {span_words(begin, end)}{going}" + (f": {one.outcome}" if one.outcome else "")


def _words(branch: Branch, track: Track, now: datetime) -> str:
    """Return a lane in words: how much of each kind, and how long in all."""
    said = [f"took {span_words(branch.started_at, branch.ended_at or now)}"]
    for kind in ("turn", "call", "wait"):
        found = [one for one in track.periods if one.kind == kind]
        if found:
            seconds = sum(((one.end or now) - one.begin).total_seconds() for one in found)
            said.append(f"{len(found)} {_WORDS[kind][len(found) > 1]}, {seconds_words(seconds)}")
    return "; ".join(said)


def _ticks(begin: float, end: float) -> Iterator[Tick]:
    length = end - begin
    steps = (*_STEPS, *_LONG_STEPS)
    step = next(
        (one for one in steps if length / one <= _MOST_TICKS), steps[-1] * max(1, round(length / steps[-1] / 6))
    )
    number = int(begin // step) + (1 if begin % step > 1e-9 else 0)
    while number * step <= end + 1e-9:
        yield Tick(round((number * step - begin) / length * 100, 3), seconds_words(number * step))
        number += 1
