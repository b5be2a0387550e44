"""Files, and the words of models and people, as people read them: Markdown, tables, JSON. Pure.

The source stays one click away, and is all that is shown where reading it would leave a word of it out. A text may be
hostile: nothing in it acts or is fetched. A link shows where it leads and leads nowhere, a picture is named, HTML is
text. What a reader of Markdown leaves out (definitions of links, entities) stays text here.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType] - has no types of its own
from pygments.token import STANDARD_TYPES

from llm_do_temporal.ui.content.renderer import pretty, visible, visible_line, visible_source

_BLOCKS = {"p", "div", "ul", "ol", "li", "blockquote", "pre", "hr", "table", "thead", "tbody", "tr", "th", "td"}
_TAGS = _BLOCKS | {"span", "code", "em", "strong", "s", "br"}
_ATTRIBUTES = {tag: {"class"} for tag in ("div", "span", "pre", "code")}
MAX_READ_CHARS = 200_000
"""Longest text that is made into a document; of longer ones the source is shown."""
MAX_ROWS, MAX_CELLS = 1_000, 20_000
_SEPARATORS = {".csv": ",;|", ".tsv": "\t"}
_WORD = re.compile(r"[^\W_]+")
_TAG = re.compile(r"<[^>]*>")
_MARKUP = re.compile(r'<(?!/?p>|div class="markdown">|/div>)')


class _Renderer(RendererHTML):
    """Renderer whose methods, named like the tokens, return HTML made of escaped text."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return visible(tokens[idx].content)

    def code_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return Markup("<code>{}</code>").format(visible(tokens[idx].content))

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return Markup("<pre>{}</pre>").format(visible(tokens[idx].content))

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        named = tokens[idx].info.strip()
        shown = coloured(tokens[idx].content, _fenced(named))
        title = Markup('<div class="md-info">{}</div>').format(visible_line(named)) if named else Markup("")
        return Markup("{}<pre>{}</pre>").format(title, shown)

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return Markup('<div class="md-heading {}">').format(tokens[idx].tag)

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return Markup("</div>")

    def list_item_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        number = tokens[idx].info
        shown = Markup('<span class="md-number">{}{}</span> ').format(visible_line(number), tokens[idx].markup)
        return Markup("<li>") + (shown if number else "")

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return Markup('<span class="md-link">')

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        opened = next(token for token in reversed(tokens[:idx]) if token.type == "link_open")
        is_itself = opened.markup == "autolink"
        return Markup("</span>") + (Markup("") if is_itself else _target(opened, "href"))

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        shown = Markup('<span class="md-image">picture: {}</span>').format(visible(tokens[idx].content))
        return shown + _target(tokens[idx], "src")

    def _cell(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        # Without the styles that align its text: the page allows none.
        return Markup("<{}>").format(tokens[idx].tag)

    th_open = td_open = _cell


def markdown_html(text: str) -> Markup:
    """Return Markdown as HTML without links, pictures, styles and scripts."""
    return Markup(nh3.clean(_markdown.render(text), tags=_TAGS, attributes=_ATTRIBUTES, link_rel=None))  # noqa: S704


def _target(token: Token, name: str) -> Markup:
    address, title = str(token.attrGet(name) or ""), str(token.attrGet("title") or "")
    told = Markup(" “{}”").format(visible_line(title)) if title else Markup("")
    return Markup(' <span class="md-url">({}{})</span>').format(visible_line(address), told)


def _fenced(info: str) -> str | None:
    name = info.split()[0] if info.split() else ""
    return language_of(f"a.{name}") or language_of(_NAMED.get(name.lower(), ""))


_NAMED = {"python": "a.py", "javascript": "a.js", "typescript": "a.ts", "bash": "a.sh", "shell": "a.sh", "rust": "a.rs"}


def _make_markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
    made.enable(["table", "strikethrough"]).disable(["reference", "entity"])
    unchanged: Any = str
    made.normalizeLink = made.normalizeLinkText = unchanged
    # Nothing is followed, so every address is shown as one.
    made.validateLink = lambda url: True  # pyright: ignore[reportAttributeAccessIssue]
    return made


_markdown = _make_markdown()


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


def as_read(value: Any) -> ReadText:
    """Return a text, which may be Markdown, or a JSON value. Of a text without any markup the source is shown."""
    if not isinstance(value, str):
        return ReadText(coloured(pretty(value), "json"))
    document = document_of("words.md", value)
    has_markup = document.read is not None and _MARKUP.search(document.read) is not None
    return document if has_markup else ReadText(visible(value))


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
