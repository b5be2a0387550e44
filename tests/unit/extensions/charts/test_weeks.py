"""Sums of the weeks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from llm_do_temporal.extensions.charts.weeks import (
    EndedRun,
    Outcome,
    add_outcomes,
    last_weeks,
    shares_by_model,
    shares_by_worker,
)
from llm_do_temporal.messages.budget import Waits

NOW = datetime(2026, 11, 25, 13, 30, tzinfo=UTC)
"""A Wednesday."""


def ended(run: str, worker: str, days_ago: int) -> EndedRun:
    moment = NOW - timedelta(days=days_ago)
    return EndedRun(run, f"{run}-1", worker, "completed", moment, moment)


def test_weeks_begin_on_monday_and_the_last_is_the_present_one() -> None:
    weeks = last_weeks(NOW, 3)
    assert [f"{week.begin:%a %d %b %H:%M}" for week in weeks] == [
        "Mon 09 Nov 00:00",
        "Mon 16 Nov 00:00",
        "Mon 23 Nov 00:00",
    ]
    assert weeks[2].begin == weeks[1].end


def test_costs_and_waits_count_in_the_week_of_the_end() -> None:
    weeks = last_weeks(NOW, 2)
    add_outcomes(
        weeks,
        [
            (ended("a", "boss", 0), Outcome(Decimal(1), waited=Waits(questions=1, seconds=60, longest=60))),
            (ended("b", "boss", 1), Outcome(Decimal(2), waited=Waits(questions=3, seconds=30, longest=20))),
            (ended("c", "boss", 3), Outcome(Decimal(4))),
            # no week is left for it
            (ended("d", "boss", 30), Outcome(Decimal(8))),
        ],
    )
    assert [week.cost for week in weeks] == [4, 3]
    assert weeks[1].waited == Waits(questions=4, seconds=90, longest=60)


def test_costs_are_shared_by_worker_and_by_model_the_dearest_first() -> None:
    outcomes = [
        (ended("a", "cheap", 0), Outcome(Decimal(1), {"m:x": Decimal(1)})),
        (ended("b", "dear", 0), Outcome(Decimal(3), {"m:x": Decimal(1), "m:y": Decimal(2)}, is_partial=True)),
        (ended("c", "free", 0), Outcome(Decimal(0))),
        (ended("d", "cheap", 0), Outcome(None)),
    ]
    workers = [(one.name, one.runs, one.cost, one.is_partial) for one in shares_by_worker(outcomes)]
    assert workers == [("dear", 1, 3, True), ("cheap", 2, 1, False), ("free", 1, 0, False)]
    assert [(one.name, one.runs, one.cost) for one in shares_by_model(outcomes)] == [("m:x", 2, 2), ("m:y", 1, 2)]
