"""Sources in the colours of their language. Pure.

A source may be hostile: it comes out character by character as it went in, or without colours. Classes only, since
the page allows no styles in its text.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from markupsafe import Markup
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType] - has no types of its own
from pygments.token import STANDARD_TYPES

from llm_do_temporal.ui.content.renderer import visible, visible_source

MAX_COLOURED_CHARS, MAX_COLOURED_LINE = 100_000, 2_000
"""Longest source, and longest line of one, that gets colours: patterns of a language can take the square of a line."""
_SECONDS = 0.5
"""Time for the colours of one source; the rest of it has none."""
_LANGUAGES = {
    "bash": ".sh .bash .zsh",
    "c": ".c .h",
    "cpp": ".cc .cpp .hpp",
    "css": ".css",
    "go": ".go",
    "html": ".html .htm",
    "ini": ".ini .cfg",
    "java": ".java",
    "javascript": ".js .mjs .jsx",
    "json": ".json .jsonl",
    "markdown": ".md .markdown",
    "python": ".py .pyi",
    "rust": ".rs",
    "sql": ".sql",
    "toml": ".toml",
    "typescript": ".ts .tsx",
    "xml": ".xml .svg",
    "yaml": ".yaml .yml .worker",
}
_BY_SUFFIX = {suffix: name for name, suffixes in _LANGUAGES.items() for suffix in suffixes.split()}


def language_of(path: str) -> str | None:
    """Return the language of a file by its suffix; None for one that gets no colours."""
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())


def coloured(text: str, language: str | None) -> Markup:
    """Return a source as HTML; without colours where the language is None, or the source too long."""
    return Markup("\n").join(coloured_lines(text, language))


def coloured_change(text: str, language: str | None) -> list[Markup]:
    """Return the lines of what a call writes, like `coloured_lines`, with the carriage returns at their ends."""
    lines = text.split("\n")
    plain = [line.rstrip("\r") for line in lines]
    shown = coloured_lines("\n".join(plain), language)
    return [one + visible_source(line[len(bare) :]) for one, line, bare in zip(shown, lines, plain, strict=True)]


def coloured_lines(text: str, language: str | None) -> list[Markup]:
    """Return the lines of a source as HTML, one for each line end in it and one more."""
    text = text.replace("\r\n", "\n")
    lines: list[list[Markup]] = [[]]
    for kind, value in _tokens(text, language):
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if piece:
                shown = visible(piece)
                lines[-1].append(Markup('<span class="tok-{}">{}</span>').format(kind, shown) if kind else shown)
    return [Markup("").join(line) for line in lines]


def _tokens(text: str, language: str | None) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text in order, each with its class or an empty text; all of them are the text."""
    longest = max(map(len, text.split("\n")))
    if language is None or len(text) > MAX_COLOURED_CHARS or longest > MAX_COLOURED_LINE:
        yield "", text
        return
    lexer = get_lexer_by_name(language, stripnl=False, stripall=False, ensurenl=False)
    # The first text in a language loads it, which is not the text's time.
    begun, at = time.monotonic(), 0
    for kind, value in lexer.get_tokens(text):
        # Whatever a language does to its text: what is shown is the text.
        if not text.startswith(value, at) or time.monotonic() - begun > _SECONDS:
            break
        at += len(value)
        yield _class_of(kind), value
    if at < len(text):
        yield "", text[at:]


def _class_of(kind: Any) -> str:
    """Return the short name of a kind of token, or of the next wider kind that has one."""
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    return STANDARD_TYPES[kind]
