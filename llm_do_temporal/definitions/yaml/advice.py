"""Advice on what is not valid YAML, for people who do not know its grammar: what a parser's words mostly mean."""

from __future__ import annotations

import re

_QUOTES = "A text stands in quotes if it begins with {sign} or has ': ' in it."
_COLUMNS = "Keys of one level begin in the same column."
_ADVICE: tuple[tuple[str, str], ...] = (
    (r"found character '\\t'", "Write spaces in place of tabs."),
    (r"found character '(?P<sign>.)' that cannot start", _QUOTES),
    (r"found undefined alias|while scanning an alias", _QUOTES.replace("{sign}", "*")),
    (r"while scanning an anchor", _QUOTES.replace("{sign}", "&")),
    (r"expected the node content, but found '(?P<sign>.)'", _QUOTES),
    (r"while scanning a block scalar", _QUOTES.replace("{sign}", "> or |")),
    (r"mapping values are not allowed here", f"A text with ': ' in it stands in quotes. {_COLUMNS}"),
    (r"sequence entries are not allowed here", "A list begins below its key."),
    (r"a quoted scalar, found unexpected end", "The quotation mark in line {line} has no other one."),
    (r"unknown escape character", "A \\ in double quotes is written twice."),
    (r"a flow sequence, expected", "The list that begins with [ in line {line} has commas, and ends with ]."),
    (r"a flow mapping, expected", "What begins with {{ in line {line} has commas, and ends with }}."),
    (r"but found '<scalar>'", "Behind a text in quotes comes a new line; a ' in single quotes is written twice."),
    (r"but found '<block mapping start>'", _COLUMNS),
    (r"expected <block end>, but found '-'", "There are keys and a list in the same column."),
    (r"a simple key, could not find expected ':'", "Line {line} has no `key:`. A text of several lines is indented."),
    (r"but found another document", "There is one line `---` too many."),
)
"""Expressions for a parser's words, and the advice on them; the first that fits counts."""


def advice_on(words: str, line: int) -> str | None:
    """Return what to do about a mistake in YAML, whose text goes wrong from a line on; None where nothing is known."""
    for pattern, advice in _ADVICE:
        found = re.search(pattern, words)
        if found:
            return advice.format(line=line, **found.groupdict())
    return None
