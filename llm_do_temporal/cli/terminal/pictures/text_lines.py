"""Texts in lines of a width, before anything is printed: what has no room on the screen is then known."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

_MEASURE = Console(color_system=None, highlight=False, markup=False, emoji=False)


def wrapped(text: Text, width: int) -> list[Text]:
    """Return the text in lines that are no wider than `width`."""
    return list(text.wrap(_MEASURE, max(width, 1)))


def indented(text: Text, width: int, columns: int, most: int | None = None) -> list[Text]:
    """Return the text in lines of at most `width` with their indent, at most so many; the last then ends in `…`."""
    lines = wrapped(text, width - columns)
    if most is not None and len(lines) > most:
        lines = lines[:most]
        lines[-1].truncate(max(width - columns - 1, 1))
        lines[-1].rstrip()
        lines[-1].append("…")
    for line in filter(None, lines):
        line.pad_left(columns)
    return lines


def hanging(text: Text, width: int, columns: int) -> list[Text]:
    """Return the text in lines, all but the first with an indent."""
    first, *others = wrapped(text, width - columns)
    for line in others:
        line.pad_left(columns)
    return [first, *others]


def joined(lines: Iterable[Text]) -> Text:
    """Return lines as one text to print."""
    return Text("\n", no_wrap=True).join(lines)
