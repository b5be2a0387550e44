"""Files as people read them: Markdown, tables, JSON. Pure.

The source stays one click away, and is all that is shown where reading it would leave a word of it out.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from markupsafe import Markup

from llm_do_temporal.ui.content.documents.markdown import markdown_html
from llm_do_temporal.ui.content.documents.syntax import coloured, coloured_change, language_of
from llm_do_temporal.ui.content.renderer import visible

MAX_READ_CHARS = 200_000
"""Longest text that is made into a document; of longer ones the source is shown."""
MAX_ROWS, MAX_CELLS = 1_000, 20_000
_SEPARATORS = {".csv": ",;|", ".tsv": "\t"}
_WORD = re.compile(r"[^\W_]+")
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class ReadText:
    """Text of a file."""

    source: Markup
    """The text as it is, in colours where its language is known."""
    read: Markup | None = None
    """The text as people read it; None: the source is that."""


def document_of(path: str, text: str, *, is_written: bool = False) -> ReadText:
    """Return the text of a file of this name; where a call writes it (`is_written`), carriage returns are shown."""
    language = language_of(path)
    source = Markup("\n").join(coloured_change(text, language)) if is_written else coloured(text, language)
    read = _read(PurePosixPath(path).suffix.lower(), text) if len(text) <= MAX_READ_CHARS else None
    return ReadText(source, read if read is not None and is_complete(text, read) else None)


def is_complete(text: str, read: Markup) -> bool:
    """Whether every word of a text stands in the HTML that was made of it, as often as in the text."""
    return not Counter(_WORD.findall(text)) - Counter(_WORD.findall(html.unescape(_TAG.sub(" ", read))))


def _read(suffix: str, text: str) -> Markup | None:
    if suffix in (".md", ".markdown"):
        return Markup('<div class="markdown">{}</div>').format(markdown_html(text))
    if suffix == ".json":
        return _json(text)
    return _table(text, _SEPARATORS[suffix]) if suffix in _SEPARATORS else None


def _json(text: str) -> Markup | None:
    """Return JSON with one value on a line; None where the text is so already, or is no JSON."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    laid_out = json.dumps(value, indent=2, ensure_ascii=False)
    return None if laid_out == text.strip() else Markup("<pre>{}</pre>").format(coloured(laid_out, "json"))


def _table(text: str, separators: str) -> Markup | None:
    first = text.split("\n", 1)[0]
    separator = max(separators, key=first.count)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error:
        return None
    rows = [row for row in rows if row]
    width = max(map(len, rows), default=0)
    if width < 2 or len(rows) > MAX_ROWS or width * len(rows) > MAX_CELLS:
        return None
    lines = [
        Markup("<tr>{}</tr>").format(
            Markup("").join(Markup("<{0}>{1}</{0}>").format(tag, visible(cell)) for cell in _filled(row, width))
        )
        for tag, row in zip(["th", *["td"] * len(rows)], rows, strict=False)
    ]
    body = Markup("").join(lines[1:])
    return Markup('<table class="cells"><thead>{}</thead><tbody>{}</tbody></table>').format(lines[0], body)


def _filled(row: list[str], width: int) -> list[str]:
    return row + [""] * (width - len(row))
