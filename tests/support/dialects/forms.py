"""A fixed sample of the forms of each protocol for the cases of a test; all forms with `EVERY_FORM=1`.

Each case goes through the streamed form of one adapter and through the whole form of another one. The adapters take
turns, so each has its share of the cases. Cases for which the protocols themselves differ go through all forms.
`make adapters` puts all cases through all forms.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from tests.support.dialects.server import ADAPTERS

T = TypeVar("T")
EVERY_FORM = os.environ.get("EVERY_FORM") == "1"


def cases_of(
    cases: Mapping[str, T],
    adapter: str,
    live: bool,
    *,
    every: Collection[str] = (),
    among: Sequence[str] = tuple(ADAPTERS),
) -> dict[str, T]:
    """Return the cases for one form. `every` names cases for all forms, and `among` the adapters that take turns."""
    assert set(every) <= set(cases)
    first = 0 if live else len(among) // 2
    mine = among.index(adapter)
    taken = {
        name: case
        for number, (name, case) in enumerate(cases.items())
        if EVERY_FORM or name in every or (number + first) % len(among) == mine
    }
    assert taken, "a form without a case is not tested"
    return taken
