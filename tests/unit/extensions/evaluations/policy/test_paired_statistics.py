"""Statistics of pairs against scipy's, and against what is known of versions that are equal or differ."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any, cast

import pytest

from llm_do_temporal.extensions.evaluations.policy.figures import (
    LEVEL,
    MAX_EXACT,
    MAX_RESAMPLED,
    cases_needed,
    holm,
    mcnemar,
    mean_interval,
    share_interval,
    sign_test,
    smallest_p,
)


def scipy_stats() -> Any:
    """Import scipy, which takes a second, where a test needs it."""
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    return cast("Any", stats)


def drawn(count: int, *, seed: int, mean: float = 0.3) -> list[float]:
    """Return differences of scores, of as many cases."""
    chance = random.Random(seed)
    return [chance.gauss(mean, 1) for _ in range(count)]


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (0, 5), (6, 0), (5, 5), (12, 3), (40, 61), (300, 240)])
def test_mcnemars_test_is_that_of_scipy(wins: int, losses: int) -> None:
    expected = scipy_stats().binomtest(wins, wins + losses, 0.5).pvalue if wins + losses else 1.0
    assert mcnemar(wins, losses) == pytest.approx(expected, abs=1e-12)
    assert sign_test([1.0] * wins + [-1.0] * losses + [0.0] * 7) == mcnemar(wins, losses)


@pytest.mark.parametrize("count", [2, 5, 9, MAX_EXACT])
def test_all_changes_of_signs_are_those_of_scipy(count: int) -> None:
    deltas = drawn(count, seed=count)
    assert sign_test(deltas) == pytest.approx(_permuted(deltas, 2**count + 1), abs=1e-12)


@pytest.mark.parametrize("count", [MAX_EXACT + 1, 33, 64])
def test_random_changes_of_signs_come_near_to_those_of_scipy(count: int) -> None:
    deltas = drawn(count, seed=count, mean=0.2)
    expected = _permuted(deltas, 40_000)
    # Four standard errors of both samples together.
    assert sign_test(deltas) == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 13_000) ** 0.5 + 1e-4)


def _permuted(deltas: Sequence[float], resamples: int) -> float:
    # scipy counts what is as extreme on one side, and doubles; with symmetric changes of signs that is the same.
    found = scipy_stats().permutation_test(
        (deltas,),
        mean_fn,
        permutation_type="samples",
        n_resamples=resamples,
        vectorized=True,
        rng=1,
    )
    return float(found.pvalue)


@pytest.mark.parametrize(("count", "seed"), [(8, 1), (20, 2), (50, 3), (200, 4), (MAX_RESAMPLED + 1, 5)])
def test_intervals_of_means_come_near_to_those_of_scipy(count: int, seed: int) -> None:
    deltas = drawn(count, seed=seed)
    found = mean_interval(deltas)
    assert found is not None
    expected = scipy_stats().bootstrap((deltas,), mean_fn, n_resamples=20_000, method="BCa", rng=1).confidence_interval
    width = expected.high - expected.low
    # The end of an interval is known to some hundredths of its width from 5,000 samples.
    assert found[0] == pytest.approx(expected.low, abs=0.08 * width)
    assert found[1] == pytest.approx(expected.high, abs=0.08 * width)


def mean_fn(values: Any, axis: int) -> Any:
    return values.mean(axis=axis)


def test_a_skewed_mean_has_a_skewed_interval() -> None:
    values = [0.0] * 18 + [1.0, 5.0]
    found = mean_interval(values)
    assert found is not None
    expected = scipy_stats().bootstrap((values,), mean_fn, n_resamples=20_000, method="BCa", rng=1).confidence_interval
    assert found == pytest.approx((expected.low, expected.high), abs=0.1)
    assert found[1] - fmean(values) > fmean(values) - found[0]


@pytest.mark.parametrize(("passed", "cases"), [(0, 10), (10, 10), (7, 10), (45, 200)])
def test_intervals_of_shares_are_those_of_scipy(passed: int, cases: int) -> None:
    expected = scipy_stats().binomtest(passed, cases).proportion_ci(method="wilson")
    assert share_interval(passed / cases, cases) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_corrected_p_values_are_those_of_holm() -> None:
    # Worked example: 0.01 x 4, 0.02 x 3, 0.03 x 2 is less than the one before, 0.5 x 1.
    given = {"c": 0.03, "a": 0.01, "d": 0.5, "b": 0.02}
    assert holm(given) == pytest.approx({"c": 0.06, "a": 0.04, "d": 0.5, "b": 0.06})
    assert list(holm(given)) == list(given)
    assert holm({"a": 0.4, "b": 0.9}) == pytest.approx({"a": 0.8, "b": 0.9})
    assert holm({}) == {}


def test_no_interval_where_there_is_too_little_to_tell() -> None:
    assert mean_interval([0.1, 0.2, 0.3, 0.4, 0.5]) is None
    assert mean_interval([0.5] * 30) is None
    assert share_interval(1.0, 5) is None


def test_few_cases_can_show_nothing() -> None:
    for cases in range(1, 30):
        assert smallest_p(cases) == mcnemar(cases, 0)
    assert smallest_p(0) == 1.0
    for metrics in (1, 2, 3, 8, 20):
        needed = cases_needed(metrics)
        assert smallest_p(needed) * metrics <= LEVEL < smallest_p(needed - 1) * metrics


def test_the_same_cases_give_the_same_figures() -> None:
    deltas = drawn(40, seed=9)
    assert sign_test(deltas) == sign_test(list(deltas))
    assert mean_interval(deltas) == mean_interval(list(deltas))
    # Written down once: other figures for old experiments would be another version of the statistics.
    assert sign_test(deltas) == pytest.approx(0.05345, abs=1e-12)
    assert mean_interval(deltas) == pytest.approx((0.01047199199539269, 0.5891049824294526), rel=1e-9)
