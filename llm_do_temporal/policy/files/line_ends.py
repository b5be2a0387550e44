"""Replacement of one piece of a text, whatever line ends the text and the piece have.

Owns how the texts of `edit_file` fit the line ends of a file: a model writes LF, and a file may have CRLF, CR or a mix.
Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_BREAK = re.compile(r"\r\n|\r|\n")


def replaced(text: str, old: str, new: str) -> tuple[int, str]:
    """Return how often `old` occurs, and the text with `new` in its place where that is once, else the text as it is.

    What is written with CR and occurs so is replaced as written. Otherwise any line end equals any other, and `new`
    gets the line ends of what it replaces, in their order; further ones are like the last, or like that of the line.
    """
    if "\r" in old + new and _occurrences(text, old) == 1:
        return 1, text.replace(old, new, 1)
    plain, plain_old = _plain(text), _plain(old)
    if (count := _occurrences(plain, plain_old)) != 1:
        return count, text
    offset = plain.index(plain_old)
    start, end = _offset(text, offset), _offset(text, offset + len(plain_old))
    near = _BREAK.search(text, end) or _BREAK.search(text)
    ends = _BREAK.findall(text, start, end) or [near.group() if near else "\n"]
    return 1, text[:start] + _with_ends(new, ends) + text[end:]


def is_replaced(text: str, old: str, new: str) -> bool:
    """Return whether the text has `new` already, where `old` was once. Line ends count only where all else is equal."""
    if _plain(old) != _plain(new):
        text, old, new = _plain(text), _plain(old), _plain(new)
    if not new:
        return old not in text
    return _occurrences(text, new) == 1 and old not in text.replace(new, "\0")


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _offset(text: str, plain: int) -> int:
    """Return the offset in a text of what has the offset `plain` once each line end is one character."""
    return bisect_right(range(len(text) + 1), plain, key=lambda end: end - text.count("\r\n", 0, end)) - 1


def _with_ends(text: str, ends: list[str]) -> str:
    """Return the text with these line ends in their order; the last one stands for all further ones."""
    first, *lines = _plain(text).split("\n")
    return first + "".join(ends[min(number, len(ends) - 1)] + line for number, line in enumerate(lines))


def _occurrences(text: str, part: str) -> int:
    """Count how often `part` occurs; one that overlaps itself counts as more than once."""
    count = text.count(part)
    if count == 1 and text.find(part, text.find(part) + 1) >= 0:
        return 2
    return count
