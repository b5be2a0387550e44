"""What was measured, as rows, and the rows as a Markdown table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

Value = float | str
"""A number in the row's unit, or words where there is none."""

COLUMNS = ("bare", "DBOS", "ours")
NOTHING = "-"
_MANY = 100


@dataclass(frozen=True)
class Row:
    """One line: the same thing measured for each contender, by name."""

    what: str
    values: Mapping[str, Value]
    unit: str = ""
    target: str = ""
    met: bool | None = None
    """None where there is no target."""

    def ratio(self, peer: str) -> float | None:
        """Ours over that of a peer, where both are numbers."""
        ours, theirs = self.values.get("ours"), self.values.get(peer)
        if isinstance(ours, str) or isinstance(theirs, str) or ours is None or not theirs:
            return None
        return ours / theirs


def at_most(row: Row, *, limit: float | None = None, **peers: float) -> Row:
    """The row with its target: at most `limit`, and at most so many times the value of each peer that was measured.

    A peer that could not do it at all sets no limit.
    """
    limits = [*([] if limit is None else [limit]), *_limits(row, peers)]
    words = [] if limit is None else [f"≤ {limit:g} {row.unit}".strip()]
    words += [f"≤ {factor:g} x {peer}" if factor != 1 else f"≤ {peer}" for peer, factor in peers.items()]
    return _targeted(row, words, lambda ours: all(ours <= one for one in limits))


def at_least(row: Row, **peers: float) -> Row:
    """The row with its target: at least so many times the value of each peer that was measured."""
    limits = _limits(row, peers)
    words = [f"≥ {factor:g} x {peer}" for peer, factor in peers.items()]
    return _targeted(row, words, lambda ours: all(ours >= one for one in limits))


def _limits(row: Row, peers: Mapping[str, float]) -> list[float]:
    found = [(factor, row.values.get(peer)) for peer, factor in peers.items()]
    return [factor * theirs for factor, theirs in found if not isinstance(theirs, str) and theirs is not None]


def _targeted(row: Row, words: Sequence[str], fits: Callable[[float], bool]) -> Row:
    ours = row.values.get("ours")
    met = not isinstance(ours, str) and ours is not None and fits(ours)
    return Row(row.what, row.values, row.unit, ", ".join(words), met)


def number(value: float) -> str:
    """A number with as many digits as it deserves."""
    if value == int(value) or abs(value) >= _MANY:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 1 else f"{value:.1f}"


def markdown(rows: Iterable[Row]) -> str:
    """The table."""
    head = ["what", *COLUMNS, "ours ÷ bare", "ours ÷ DBOS", "target", "met"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        shown = [_shown(row.values.get(column), row.unit) for column in COLUMNS]
        ratios = [_ratio(row.ratio(peer)) for peer in COLUMNS[:2]]
        met = {True: "yes", False: "**no**", None: ""}[row.met]
        lines.append([row.what, *shown, *ratios, row.target, met])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _shown(value: Value | None, unit: str) -> str:
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else f"{number(value)} {unit}".strip()


def _ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"
