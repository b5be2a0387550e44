from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from llm_do_temporal.cli.tables import ago, ahead, format_table


def test_columns_are_aligned_and_lines_end_with_their_text() -> None:
    assert format_table(("ID", "RUN"), [("a1", "x"), ("a10", "longer")], None) == ["ID   RUN", "a1   x", "a10  longer"]


def test_a_pipe_gets_whole_lines_and_a_terminal_as_much_as_fits() -> None:
    rows = [("a1", "y" * 100)]
    assert format_table(("ID", "S"), rows, None)[1] == f"a1  {'y' * 100}"
    assert format_table(("ID", "S"), rows, 10)[1] == "a1  yyyyy…"


def test_a_cell_stays_in_its_line() -> None:
    assert format_table(("S",), [("a\nb\x1b[1m",)], None)[1] == "a\\nb\\x1b[1m"


NOW = datetime(2026, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s ago"), (59, "59s ago"), (60, "1m ago"), (7_300, "2h ago"), (200_000, "2d ago"), (-5, "0s ago")],
)
def test_how_long_ago(seconds: int, text: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "in 0s"), (3_599, "in 59m"), (300_000, "in 3d"), (-5, "in 0s")])
def test_how_far_ahead(seconds: int, text: str) -> None:
    assert ahead(NOW + timedelta(seconds=seconds), NOW) == text
