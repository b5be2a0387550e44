"""Pitch decks, read from PDFs into pages of statements that can be quoted.

Owns all that the offline evaluator knows of a file; another process parses its bytes. A statement is one thought of
the deck: wrapped lines put together, bullets taken off, otherwise letter by letter as on the page, so that a quote can
be found again in the page's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from llm_do_temporal.pdf.reader import Order, PdfFailure, pdf_text

MAX_PAGES = 200
"""Most pages read: a longer file is no pitch deck, and reading on would only cost time."""
MIN_WORDS = 3
"""Fewest words of a quote: shorter statements are headings and axis labels."""

_BULLET = re.compile(r"^[\s•·▪–—*»>-]+(?=\S)")  # noqa: RUF001 - these dashes are bullets in real decks
_WORD = re.compile(r"[^\W\d_]{2,}")
_CONTINUES = re.compile(r"^[a-z(&]")
_UNFINISHED = re.compile(r"(?:[,;]|\b(?:and|or|of|the|a|an|in|with|for|to|by|from|at|on|than))$")
_ORDER = Order("text", MAX_PAGES, characters=1_000_000, first_pages=True, pictures=True)


@dataclass(frozen=True)
class Statement:
    """Statement of the deck, and the number of its page, from 1."""

    page: int
    text: str

    @property
    def words(self) -> int:
        """Number of words of letters."""
        return len(_WORD.findall(self.text))


@dataclass(frozen=True)
class DeckPage:
    """Page of a deck: its number from 1, its statements, and whether it holds pictures."""

    number: int
    statements: tuple[Statement, ...]
    has_images: bool

    @property
    def heading(self) -> str:
        """First statement of the page; empty for a page without text."""
        return self.statements[0].text if self.statements else ""


@dataclass(frozen=True)
class Deck:
    """Deck that could be opened."""

    pages: tuple[DeckPage, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Statements of all pages, in order."""
        return tuple(statement for page in self.pages for statement in page.statements)

    @property
    def words(self) -> int:
        """Length of the deck in words."""
        return sum(statement.words for statement in self.statements)

    @property
    def extent(self) -> str:
        """Number of pages in words, like `1 page`."""
        return "1 page" if len(self.pages) == 1 else f"{len(self.pages)} pages"

    @property
    def title(self) -> str:
        """First statement of the deck: as a rule, the company's name."""
        return next((statement.text for statement in self.statements), "")

    @property
    def unreadable_pages(self) -> tuple[DeckPage, ...]:
        """Pages without any text."""
        return tuple(page for page in self.pages if not page.statements)


class UnreadableDeck(Exception):
    """Refusal of bytes that are no readable PDF; the message says why."""


def read_deck(data: bytes) -> Deck:
    """Return the deck in the bytes of a PDF. Raises UnreadableDeck."""
    try:
        found = pdf_text(data, _ORDER)
    except PdfFailure as failure:
        if failure.kind == "Refused":
            raise UnreadableDeck("it is locked with a password") from failure
        raise UnreadableDeck(f"it is damaged or no PDF ({failure.kind}: {failure})") from failure
    if not found.count:
        raise UnreadableDeck("it has no pages")
    pages = zip(found.texts, found.pictures, strict=True)
    return Deck(pages=tuple(_page(number, text, has_images) for number, (text, has_images) in enumerate(pages, 1)))


def _page(number: int, words: str, has_images: bool) -> DeckPage:
    texts = [text for text in _joined(words.splitlines()) if _WORD.search(text)]
    statements = tuple(Statement(page=number, text=text) for text in texts)
    return DeckPage(number=number, statements=statements, has_images=has_images)


def _joined(lines: list[str]) -> Iterator[str]:
    current = ""
    for line in lines:
        cleaned = " ".join(line.split())
        bare = _BULLET.sub("", cleaned)
        if current and bare == cleaned and (_CONTINUES.match(bare) or _UNFINISHED.search(current)):
            current = f"{current} {bare}"
            continue
        if current:
            yield current
        current = bare
    if current:
        yield current
