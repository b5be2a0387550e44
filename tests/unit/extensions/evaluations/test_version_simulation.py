"""Made-up versions of a worker: equal ones are seldom called different, and others are found. `make power` has more."""

from __future__ import annotations

import pytest

from benchmarks.evaluations.__main__ import equal_lines, main, power_lines
from benchmarks.evaluations.simulation import PASSED, POINTS, Version, compared, middle_for
from llm_do_temporal.extensions.evaluations.policy.figures import LEVEL, share_interval

EQUAL = Version(middle_for(PASSED), 3.5)
BETTER = Version(middle_for(PASSED + POINTS), 3.9)


def test_equal_versions_are_called_different_no_more_often_than_is_said() -> None:
    tally = compared(50, 1, (EQUAL, EQUAL), seed=1, comparisons=150, metrics="abcdef")
    interval = share_interval(tally.different / tally.comparisons, tally.comparisons)
    assert interval is not None
    assert interval[0] <= LEVEL
    # Without the correction for six metrics it would be one comparison of six.
    assert tally.too_few == 0


@pytest.mark.thorough
def test_a_better_version_is_found_with_more_cases_and_more_repeats() -> None:
    found = {
        (cases, repeats): compared(cases, repeats, (EQUAL, BETTER), seed=2, comparisons=30)
        for cases, repeats in ((20, 1), (20, 3), (80, 3))
    }
    rights = [tally.right for tally in found.values()]
    assert rights == sorted(rights)
    assert rights[0] < rights[-1]
    assert rights[-1] > 15
    assert sum(tally.wrong for tally in found.values()) <= 2


def test_five_cases_are_always_too_few() -> None:
    tally = compared(5, 3, (EQUAL, Version(20.0, 5.0)), seed=3, comparisons=10)
    assert (tally.too_few, tally.different) == (10, 0)


def test_versions_pass_the_share_that_they_are_made_for() -> None:
    tally = compared(6, 1, (EQUAL, EQUAL), seed=4, comparisons=3)
    assert tally.comparisons == 3
    assert middle_for(0.5) == pytest.approx(0, abs=1e-3)


def test_the_tables_have_a_line_for_each_number_of_cases() -> None:
    assert [line.split("|")[1].strip() for line, _tally in equal_lines(3, cases=(6, 8))] == ["6", "8"]
    assert [line.split("|")[2].strip() for line, _tally in power_lines(3, cases=(6,))] == ["1", "3"]


def test_the_command_prints_both_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("benchmarks.evaluations.__main__.CASES", (6,))
    assert main(["--comparisons", "2"]) == 0
    assert "| 6 | 3 |" in capsys.readouterr().out
