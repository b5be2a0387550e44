"""The order of tests that several processes share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def long_first(tests: Sequence[T], length: Callable[[T], int], processes: int) -> list[T]:
    """Return tests in an order in which each process begins with its share of the long ones.

    `--dist worksteal` gives each process one part of the list, all of nearly the same size. `length` is 0 for a test
    that stays beside its neighbours, with which it may share a fixture.
    """
    alone = sorted((one for one in tests if length(one)), key=length, reverse=True)
    beside = [one for one in tests if not length(one)]
    ordered: list[T] = []
    for part in range(processes):
        size = (len(tests) - len(ordered)) // (processes - part)
        mine = alone[part::processes]
        others = max(0, size - len(mine))
        ordered += [*mine, *beside[:others]]
        beside = beside[others:]
    return [*ordered, *beside]
