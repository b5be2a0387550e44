"""Comparison of two lists of names: in how much they agree, in order or in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

MAX_COMPARED = 5_000
"""Names of each list that are compared; a longer one is cut off, since the work grows with the product of both."""


def common_in_order(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    lengths = [0] * (len(other) + 1)
    for name in one[:MAX_COMPARED]:
        diagonal = 0
        for place, wanted in enumerate(other[:MAX_COMPARED], start=1):
            above = lengths[place]
            lengths[place] = diagonal + 1 if name == wanted else max(above, lengths[place - 1])
            diagonal = above
    return max(lengths)


def common_items(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of names that both have, each as often as both have it."""
    return (Counter(one) & Counter(other)).total()


def f_score(common: int, made: int, wanted: int) -> float:
    """Return the harmonic mean of the shares of the common names in both lists; 1 where both are empty."""
    return 2 * common / (made + wanted) if made + wanted else 1.0
