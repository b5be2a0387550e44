"""Two tiers of tests: those of `make test`, and the thorough ones, which `make thorough` adds.

A test is thorough where it is marked so: what it finds, a quicker test finds as well, or it is about a rare accident.
`sampled(3)` leaves three of a test's cases in `make test`. Of a test of the models' protocols one form stays: a form is
an adapter, and whether its answers are streamed. The tests take turns, so each form has its share. `make adapters` runs
all forms.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import defaultdict
from collections.abc import Sequence

import pytest

from tests.support.dialects.forms import EVERY_FORM, cases_of

THOROUGH, SAMPLED = "thorough", "sampled"
PART = "THOROUGH_PART"
"""The variable that chooses a part of the thorough tests: `2/6` is the second of six."""
_ADAPTER, _LIVE = "adapter", "live"


def mark(items: Sequence[pytest.Item]) -> None:
    """Mark the cases that `make test` leaves out: of tests that are marked `sampled`, and most forms of protocols.

    The name of the test, and the turn of its other parameters, choose the forms that stay: all have their share.
    """
    alike: dict[str, list[pytest.Function]] = defaultdict(list)
    forms: dict[str, dict[tuple[int, ...], list[pytest.Function]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        name = f"{item.path.name}::{item.originalname}"
        if item.get_closest_marker(SAMPLED):
            alike[name].append(item)
        elif _ADAPTER in _parameters(item):
            # One value is one object here; its text may differ from process to process.
            others = tuple(id(value) for key, value in _parameters(item).items() if key not in {_ADAPTER, _LIVE})
            forms[name][others].append(item)
    for cases in alike.values():
        _leave_out(cases, _sample(cases))
    if not EVERY_FORM:
        for name, of_test in forms.items():
            for number, cases in enumerate(of_test.values(), zlib.crc32(name.encode())):
                _leave_out(cases, _kept(cases, number))


def part_of(items: Sequence[pytest.Item], part: str) -> list[pytest.Item]:
    """Return the thorough tests of one part, `2/6` for the second of six; a test is always in the same one.

    Raises ValueError for a part that there is not.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", part)
    number, parts = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= parts:
        raise ValueError(f"PART is '{part}', not like 2/6")
    mine = [one for one in items if zlib.crc32(one.nodeid.encode()) % parts == number - 1]
    return [one for one in mine if one.get_closest_marker(THOROUGH)]


def chosen(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that are run and those that are left out, as far as the variable says."""
    part = os.environ.get(PART)
    if not part:
        return items, []
    mine = set(part_of(items, part))
    return [one for one in items if one in mine], [one for one in items if one not in mine]


def _leave_out(cases: Sequence[pytest.Function], kept: Sequence[pytest.Function]) -> None:
    for item in cases:
        if item not in kept:
            item.add_marker(THOROUGH)


def _sample(cases: Sequence[pytest.Function]) -> list[pytest.Function]:
    """As many cases as the mark says, spread evenly over all of them."""
    (marker,) = {mark.args for item in cases for mark in item.iter_markers(SAMPLED)}
    count = min(int(marker[0]), len(cases))
    return [cases[step * len(cases) // count] for step in range(count)]


def _parameters(item: pytest.Function) -> dict[str, object]:
    spec = getattr(item, "callspec", None)
    return {} if spec is None else spec.params


def _kept(forms: Sequence[pytest.Function], number: int) -> list[pytest.Function]:
    """One form, streamed for every other number; both forms of one adapter where they share the cases of a test."""
    adapters = list(dict.fromkeys(_parameters(item)[_ADAPTER] for item in forms))
    mine = [item for item in forms if _parameters(item)[_ADAPTER] == adapters[number // 2 % len(adapters)]]
    if cases_of.__name__ in forms[0].function.__code__.co_names:
        return mine
    return [item for item in mine if _parameters(item).get(_LIVE) in {None, number % 2 == 0}]
