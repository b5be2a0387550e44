"""Sources in the colours of their language, and differences of them on two sides, line by line. Pure.

A source may be hostile: it comes out character by character as it went in, or without colours. Classes only, since
the page allows no styles in its text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

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
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


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


@dataclass(frozen=True)
class DiffLine:
    """Line on one side of a difference."""

    kind: Literal["add", "del", "same", "note"]
    number: int | None
    """Number of the line in its file; None where it is not known."""
    html: Markup
    """Text of the line behind its sign."""


@dataclass
class DiffBlock:
    """Lines that stand beside each other; a heading has its text and no lines."""

    heading: Markup | None = None
    old: list[DiffLine] = field(default_factory=list[DiffLine])
    new: list[DiffLine] = field(default_factory=list[DiffLine])

    @property
    def is_same(self) -> bool:
        """Whether both sides are the same, so that a narrow screen shows one of them."""
        return all(line.kind == "same" for line in (*self.old, *self.new))


def blocks_of(diff: str, language: str | None) -> list[DiffBlock]:
    """Return a unified diff as blocks, in order; nothing of it is left out."""
    lines = diff.split("\n")
    names = 2 if diff.startswith("--- ") else 0
    blocks = [DiffBlock(visible(line)) for line in lines[:names]]
    for heading, body in _hunks(lines[names:]):
        if heading is not None:
            blocks.append(DiffBlock(visible(heading)))
        blocks += _pairs(body, heading, language)
    return blocks


def _hunks(lines: list[str]) -> Iterator[tuple[str | None, list[str]]]:
    """Yield the parts below each `@@` line, with that line; None for what stands before the first."""
    heading: str | None = None
    body: list[str] = []
    for line in lines:
        if line.startswith("@@"):
            if heading is not None or body:
                yield heading, body
            heading, body = line, []
        else:
            body.append(line)
    if heading is not None or body:
        yield heading, body


def _pairs(body: list[str], heading: str | None, language: str | None) -> Iterator[DiffBlock]:
    found = _HUNK.match(heading or "")
    numbers = {"-": int(found[1]), "+": int(found[2])} if found else {}
    colours = {sign: iter(_side(body, sign, language)) for sign in "-+"}
    block = DiffBlock()
    for line in body:
        sign = line[:1]
        is_change = sign in ("-", "+")
        if (block.old or block.new) and sign != "\\" and is_change == block.is_same:
            yield block
            block = DiffBlock()
        if sign == "\\":
            note = DiffLine("note", None, visible(line))
            for side in (block.old, block.new):
                if side:
                    side.append(note)
            continue
        for each, side in (("-", block.old), ("+", block.new)):
            if is_change and each != sign:
                continue
            kind: Literal["add", "del", "same"] = "same" if not is_change else "del" if sign == "-" else "add"
            shown = Markup("{}{}").format(visible(sign or " "), next(colours[each]))
            side.append(DiffLine(kind, numbers.get(each), shown))
            if each in numbers:
                numbers[each] += 1
    if block.old or block.new:
        yield block


def _side(body: list[str], sign: str, language: str | None) -> list[Markup]:
    """Return the lines of one side in colours, without their signs."""
    other = "+" if sign == "-" else "-"
    return coloured_change("\n".join(line[1:] for line in body if line[:1] not in (other, "\\")), language)
