"""Places of bars on the timeline of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from llm_do_temporal.client.record.results import Period, PeriodKind, Track
from llm_do_temporal.client.views.tree import Branch
from llm_do_temporal.ui.content.timeline import MAX_ROWS, Window, axis_of, lane_of, seconds_words, window_of

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def branch(begin: float = 0, end: float | None = 100, status: str = "completed") -> Branch:
    ended = None if end is None else after(end)
    return Branch("r", "x", "main", "boss", "m", "running" if end is None else status, after(begin), ended)


def period(kind: PeriodKind, begin: float, end: float | None, label: str = "x") -> Period:
    return Period(kind, label, after(begin), None if end is None else after(end))


WHOLE = Window(START, after(100))


def test_bars_stand_where_their_times_are_in_the_window() -> None:
    track = Track((period("turn", 10, 30), period("wait", 50, None)))
    lane = lane_of(branch(end=None), track, START, WHOLE, after(100))
    assert [(bar.kind, bar.x, bar.width, bar.is_open) for bar in lane.bars] == [
        ("whole", 0, 100, True),
        ("turn", 10, 20, False),
        ("wait", 50, 50, True),
    ]
    assert lane.words == "took 1 min 40 s; 1 turn, 20 s; 1 wait for a person, 50 s"
    assert lane.zoom == "from=0.000&to=100.000"


def test_a_window_cuts_bars_and_leaves_out_what_lies_outside() -> None:
    track = Track((period("turn", 10, 30), period("turn", 60, 70)))
    lane = lane_of(branch(), track, START, Window(after(20), after(40)), after(100))
    assert [(bar.kind, bar.x, bar.width) for bar in lane.bars] == [("whole", 0, 100), ("turn", 0, 50)]


def test_calls_at_the_same_time_stand_below_each_other_and_share_the_last_row() -> None:
    track = Track(tuple(period("call", number, 50 + number) for number in range(10)))
    bars = [bar for bar in lane_of(branch(), track, START, WHOLE, after(100)).bars if bar.kind == "call"]
    assert len({bar.y for bar in bars}) == MAX_ROWS
    assert all(bar.height == 16 for bar in bars)


def test_what_waits_now_is_as_high_as_the_lane_and_what_waited_stands_below() -> None:
    track = Track((period("call", 0, 20), period("wait", 5, 20), period("wait", 50, None)))
    bars = lane_of(branch(end=None), track, START, WHOLE, after(100)).bars
    assert [(bar.kind, bar.y, bar.height) for bar in bars[1:]] == [
        ("call", 0, 64),
        ("wait", 64, 36),
        ("wait", 0, 100),
    ]


def test_thousands_of_turns_are_as_many_bars_as_somebody_can_tell_apart() -> None:
    track = Track(tuple(period("turn", number / 50, number / 50 + 0.015) for number in range(5_000)))
    bars = lane_of(branch(), track, START, WHOLE, after(100)).bars
    assert len(bars) < 1_000
    assert "turns, " in bars[1].title


def test_an_invocation_that_was_not_read_is_one_bar() -> None:
    lane = lane_of(branch(20, 60, "failed"), None, START, WHOLE, after(100))
    assert [(bar.kind, bar.x, bar.width, bar.failed) for bar in lane.bars] == [("whole", 20, 40, True)]
    assert lane.words == "took 40 s"


def test_what_was_not_read_of_a_long_conversation_is_marked() -> None:
    lane = lane_of(branch(), Track((period("turn", 80, 90),), (), after(75)), START, WHOLE, after(100))
    assert [(bar.kind, bar.x, bar.width) for bar in lane.bars] == [
        ("whole", 0, 100),
        ("earlier", 0, 75),
        ("turn", 80, 10),
    ]


@pytest.mark.parametrize(
    ("begin", "end", "seen"),
    [
        ("", "", (0, 100)),
        ("20", "40.5", (20, 40.5)),
        # what lies outside of the run is not shown
        ("-5", "1e9", (0, 100)),
        ("40", "20", (0, 100)),
        ("nan", "nan", (0, 100)),
        ("x", "2", (0, 100)),
        ("inf", "inf", (0, 100)),
    ],
)
def test_an_address_names_a_part_of_the_time(begin: str, end: str, seen: tuple[float, float]) -> None:
    window, is_part = window_of(START, after(100), begin, end)
    assert (window.begin, window.end) == (after(seen[0]), after(seen[1]))
    assert is_part == (seen != (0, 100))


def test_a_run_of_no_length_has_a_window() -> None:
    window, _ = window_of(START, START, "", "")
    assert window.seconds > 0
    assert axis_of(START, START, window).ticks


def test_an_axis_has_a_few_round_marks_and_ways_to_go() -> None:
    whole = axis_of(START, after(100), WHOLE)
    assert [tick.label for tick in whole.ticks] == ["0 s", "30 s", "1 min", "1 min 30 s"]
    assert (whole.wider, whole.earlier, whole.later) == (None, None, None)
    assert whole.closer == "from=25.000&to=75.000"
    part = axis_of(START, after(100), Window(after(40), after(60)))
    assert (part.wider, part.earlier, part.later) == (
        "from=30.000&to=70.000",
        "from=30.000&to=50.000",
        "from=50.000&to=70.000",
    )
    assert [tick.label for tick in axis_of(START, after(30 * 86_400), Window(START, after(30 * 86_400))).ticks] == [
        "0 s",
        "7 d",
        "14 d",
        "21 d",
        "28 d",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (9.5, "9.5 s"),
        (90, "1 min 30 s"),
        (3_600, "1 h"),
        (90_000, "1 d 1 h"),
        (-3, "0 s"),
    ],
)
def test_lengths_have_two_units_at_most(seconds: float, words: str) -> None:
    assert seconds_words(seconds) == words
