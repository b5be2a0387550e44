"""Figures as a Markdown table: a row for each thing measured, a column for each number of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NOTHING = "-"
_MANY = 20


class Figures:
    """What was measured so far, in the order in which it came."""

    def __init__(self, head: str, columns: Sequence[str]) -> None:
        self._head = head
        self.columns = tuple(columns)
        self._rows: dict[str, dict[str, str]] = {}

    def note(self, column: str, what: str, value: float, unit: str = "") -> None:
        """Note a value; a row is begun where there is none yet."""
        self._rows.setdefault(what, {})[column] = f"{_number(value)} {unit}".strip()

    def note_all(self, column: str, values: Mapping[str, float], unit: str = "") -> None:
        """Note several values of one unit."""
        for what, value in values.items():
            self.note(column, what, value, unit)

    def markdown(self) -> str:
        """The table."""
        lines = [[self._head, *self.columns], ["---"] * (len(self.columns) + 1)]
        lines += [[what, *(values.get(one, NOTHING) for one in self.columns)] for what, values in self._rows.items()]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= _MANY or value == int(value) else f"{value:.2f}"
