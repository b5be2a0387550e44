"""Filters of the list of runs, as people write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.client.views.server_list import stamp
from llm_do_temporal.policy.run_filter import RunFilter, moment_of

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("", None),
        ("7d", NOW - timedelta(days=7)),
        ("90s", NOW - timedelta(seconds=90)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T08:30", datetime(2026, 11, 1, 8, 30, tzinfo=UTC)),
        # a zone that is said counts
        ("2026-11-01T08:30+02:00", datetime(2026, 11, 1, 6, 30, tzinfo=UTC)),
    ],
)
def test_a_moment_is_an_age_or_a_time(written: str, moment: datetime | None) -> None:
    assert moment_of(written, now=NOW) == moment


@pytest.mark.parametrize("written", ["yesterday", "7w", "2026-13-01", "d", "٣d", "٢٠٢٦-11-01", "²d", "-1d"])
def test_what_is_no_moment_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is no time; write it like 7d"):
        moment_of(written, now=NOW)


@pytest.mark.parametrize(
    "written",
    [
        "0001-01-01",
        "0001-01-01T00:00:00+23:59",
        "0999-12-31",
        "1969-12-31T23:59:59",
        "1970-01-01T00:30+01:00",
        "9999-01-01",
        "9999-12-31",
        "9999-12-31T23:59:59-23:59",
        "9998-12-31T23:59:59-23:59",
    ],
)
@pytest.mark.parametrize("field", ["since", "until"])
def test_a_moment_outside_the_years_that_every_zone_has_is_refused(field: str, written: str) -> None:
    with pytest.raises(ValidationError, match=f"{re.escape(written)}' is not in the years 1970 to 9998; write it like"):
        RunFilter.model_validate({field: written})


@pytest.mark.parametrize("written", ["10001d", "240001h", "9999999999d", f"{'9' * 5_000}d", f"{'9' * 30}s"])
def test_an_age_longer_than_any_run_is_refused(written: str) -> None:
    with pytest.raises(ValidationError, match="is too long; a time is at most 10000 days"):
        RunFilter.model_validate({"since": written})


@pytest.mark.parametrize(
    "written", ["1970-01-01", "9998-12-31", "9998-12-31T23:59:59", "10000d", "0000000000000000007d"]
)
def test_the_outermost_moments_are_bounds(written: str) -> None:
    for bound in RunFilter(since=written, until=written).began_between(NOW):
        assert bound is not None
        assert len(stamp(bound)) == len("2026-11-01T00:00:00.000000Z")


def test_a_day_counts_whole_where_it_is_the_last() -> None:
    wanted = RunFilter(since="2026-11-01", until="2026-11-07")
    assert wanted.began_between(NOW) == (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 8, tzinfo=UTC))
    assert RunFilter(until="1d").began_between(NOW) == (None, NOW - timedelta(days=1))


def test_a_day_that_yaml_reads_as_a_date_is_a_day() -> None:
    assert RunFilter.model_validate({"since": date(2026, 11, 1)}).since == "2026-11-01"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, True),
        ({"who": "Ada"}, True),
        ({"who": "ad"}, False),
        ({"text": "every DECK"}, True),
        ({"text": "clerk-12"}, True),
        ({"text": "decks of"}, False),
        ({"begins": "clerk-"}, True),
        ({"begins": "'"}, False),
        ({"begins": "clerk-'"}, False),
        ({"begins": "'clerk-"}, False),
        # all of a filter must be true
        ({"text": "deck", "who": "bob"}, False),
    ],
)
def test_a_run_is_found_by_who_started_it_and_by_words(wanted: dict[str, str], found: bool) -> None:
    given = {"run": "clerk-1234", "task": "Evaluate every deck", "started_by": "ada"}
    assert RunFilter.model_validate(wanted).finds(**given) is found


def test_a_filter_says_what_is_asked_for() -> None:
    assert RunFilter().given == {}
    assert RunFilter(state="failed", text="deck").given == {"state": "failed", "text": "deck"}
    assert RunFilter.model_validate({"evaluations": "yes"}).given == {"evaluations": "yes"}


@pytest.mark.parametrize(
    ("written", "needs_memo"),
    [
        ({}, False),
        ({"state": "failed", "worker": "main", "since": "7d"}, False),
        ({"state": "waiting"}, True),
        ({"state": "partly failed"}, True),
        ({"who": "ann"}, True),
        ({"text": "deck"}, True),
    ],
)
def test_who_started_a_run_and_its_task_stand_in_its_memo(written: dict[str, str], needs_memo: bool) -> None:
    assert RunFilter.model_validate(written).needs_memo is needs_memo


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"state": "compleated"}, "did you mean 'completed'"),
        ({"begins": "a\0"}, "control characters"),
        ({"who": "ada\x7f"}, "control characters"),
        ({"state": "gone"}, "there is no state 'gone'; there are open, running"),
        ({"since": "soon"}, "'soon' is no time"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_a_filter_that_says_nothing_usable_is_refused(written: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RunFilter.model_validate(written)
