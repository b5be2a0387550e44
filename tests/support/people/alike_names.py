"""Names of files that differ and could look the same, and what a person makes of a text on a page."""

from __future__ import annotations

import unicodedata

ALIKE = [
    ("d\u200b.txt", "d\\u200b.txt"),
    ("c", "c "),
    (" ", "  "),
    ("a b", "a  b"),
    ("a b", "a\u00a0b"),
    ("x\n", "x\\n"),
    ("x\n", "x\\x0a"),
    ("x\t", "x\\t"),
    ("e\u0301", "\u00e9"),
    ('"d"', "d"),
    ('"d\\u200b"', "d\u200b"),
    ("\\\n", "\\\\n"),
]


def seen(shown: str) -> str:
    """Return what a person makes of a text on a page: blanks are one, and a letter with its mark is one letter."""
    return unicodedata.normalize("NFC", " ".join(shown.split()))
