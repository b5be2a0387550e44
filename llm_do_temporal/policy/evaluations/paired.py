"""Statistics of pairs: the differences that two versions made in the same cases.

Every function takes one difference, or one mean, for each case. Chance comes from SHAKE-256 of a fixed seed, so that
the same cases give the same figures on every machine and in every version of Python.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist

LEVEL = 0.05
"""Share of comparisons of equal versions that may be called different."""
RESAMPLES = 5_000
"""Samples of a bootstrap."""
SHUFFLES = 19_999
"""Random changes of signs, where there are too many to try all."""
MAX_EXACT = 14
"""Differences of which all changes of signs are tried: 2 to this power."""
MAX_RESAMPLED = 1_000
"""Cases up to which intervals are bootstrapped."""
MIN_CASES = 6
"""Cases below which no interval is given: as few as cannot show a difference, however large."""
_SEED = b"llm-do-temporal evaluations 1"
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf(1 - LEVEL / 2)
_SLACK = 1e-9
"""Relative difference below which sums are the same: they are added up in other orders."""


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of some values, of which there is at least one."""
    return math.fsum(values) / len(values)


def mcnemar(wins: int, losses: int) -> float:
    """Return the p-value of McNemar's exact test: how likely so uneven a share of wins is, if each was a coin's toss.

    Two-sided; 1 where there is neither.
    """
    count = wins + losses
    tail = sum(math.comb(count, least) for least in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / 2**count)


def sign_test(deltas: Sequence[float]) -> float:
    """Return the p-value of the differences: how likely so large a sum is, if each could as well be the other way.

    Two-sided, and exact for up to `MAX_EXACT` differences; for more, of random changes of signs, of which that of the
    real differences is one. For differences that are all 1 or -1 it is McNemar's test.
    """
    sizes = [delta for delta in deltas if delta]
    if not sizes:
        return 1.0
    if len({abs(delta) for delta in sizes}) == 1:
        wins = sum(delta > 0 for delta in sizes)
        return mcnemar(wins, len(sizes) - wins)
    reached = abs(math.fsum(sizes)) - _SLACK * math.fsum(map(abs, sizes))
    if len(sizes) <= MAX_EXACT:
        sums = _all_sums(sizes)
        return sum(abs(total) >= reached for total in sums) / len(sums)
    extreme = sum(abs(total) >= reached for total in _random_sums(sizes))
    return (1 + extreme) / (1 + SHUFFLES)


def _all_sums(sizes: Sequence[float]) -> list[float]:
    sums = [0.0]
    for size in sizes:
        sums = [total + sign * size for total in sums for sign in (1, -1)]
    return sums


def _random_sums(sizes: Sequence[float]) -> Iterator[float]:
    """Yield sums of the differences with random signs: a byte of chance for every eight of them."""
    groups = [_all_sums(sizes[start : start + 8]) for start in range(0, len(sizes), 8)]
    # A last group of fewer than eight has fewer sums, of which each is as likely.
    masks = [len(group) - 1 for group in groups]
    chance = _chance(SHUFFLES * len(groups))
    for start in range(0, len(chance), len(groups)):
        yield math.fsum(
            group[byte & mask]
            for group, mask, byte in zip(groups, masks, chance[start : start + len(groups)], strict=True)
        )


def smallest_p(cases: int) -> float:
    """Return the smallest p-value that so many cases can have: that of differences that all go one way."""
    return min(1.0, 2.0 ** (1 - cases))


def cases_needed(metrics: int) -> int:
    """Return the number of cases from which on a difference can be shown, where so many metrics are compared."""
    return math.ceil(1 + math.log2(max(1, metrics) / LEVEL))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return the p-values after Holm's correction for their number, by the same names."""
    ordered = sorted(p_values.items(), key=lambda item: item[1])
    adjusted: dict[str, float] = {}
    highest = 0.0
    for place, (name, p_value) in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - place) * p_value))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean: bias-corrected and accelerated bootstrap (BCa) over the cases.

    For more than `MAX_RESAMPLED` values the normal one, which is then the same. None for fewer than `MIN_CASES` values,
    and for values that are all equal: they do not show by how much they might differ.
    """
    count = len(values)
    if count < MIN_CASES or max(values) == min(values):
        return None
    mean = mean_of(values)
    if count > MAX_RESAMPLED:
        half = _Z * math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
        return mean - half, mean + half
    means = sorted(_resampled_means(values))
    below = sum(one < mean for one in means) + sum(one == mean for one in means) / 2
    bias = _NORMAL.inv_cdf(min(max(below / len(means), 0.5 / len(means)), 1 - 0.5 / len(means)))
    acceleration = _acceleration(values, mean)
    ends: list[float] = []
    for level in (LEVEL / 2, 1 - LEVEL / 2):
        shifted = bias + _NORMAL.inv_cdf(level)
        ends.append(_quantile(means, _NORMAL.cdf(bias + shifted / (1 - acceleration * shifted))))
    return ends[0], ends[1]


def share_interval(share: float, cases: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a share of cases: Wilson's score interval, which holds for 0 and 1, too.

    None for fewer than `MIN_CASES` cases.
    """
    if cases < MIN_CASES:
        return None
    weight = _Z**2 / cases
    middle = (share + weight / 2) / (1 + weight)
    half = _Z * math.sqrt((share * (1 - share) + weight / 4) / cases) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def _acceleration(values: Sequence[float], mean: float) -> float:
    """Return the skewness of the mean, from leaving out each value in turn."""
    away = [value - mean for value in values]
    squares = math.fsum(one**2 for one in away)
    return math.fsum(one**3 for one in away) / (6 * squares**1.5)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _resampled_means(values: Sequence[float]) -> Iterator[float]:
    """Yield means of as many values as there are, each drawn from all of them."""
    count = len(values)
    words: tuple[int, ...] = struct.unpack(f"<{RESAMPLES * count}I", _chance(4 * RESAMPLES * count))
    for start in range(0, len(words), count):
        # A product's upper half is as even as the chance: 32 bits for some thousand cases.
        yield sum(values[word * count >> 32] for word in words[start : start + count]) / count


def _chance(count: int) -> bytes:
    return hashlib.shake_256(_SEED).digest(count)
