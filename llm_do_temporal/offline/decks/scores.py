"""Scores of a deck by the rubric, and its red flags. Pure: a deck in, an assessment out.

Every dimension has a point, and a further one for every signal in the statements about it. The verdict
follows the rule of the shipped `PROCEDURE.md`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from llm_do_temporal.offline.decks.deck import MIN_WORDS, Deck, Statement
from llm_do_temporal.offline.decks.rubric import DIMENSIONS, HYPE, NO_COMPETITION, RubricLine

MAX_RED_FLAGS = 3
MAX_QUOTE_CHARS = 240
GO_AVERAGE = 3.8
WATCH_AVERAGE = 2.5
THIN_PAGES = 5
THIN_WORDS = 150
"""Fewest words of a full deck; with fewer words or pages it cannot answer seven questions."""
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Score:
    """Score of a dimension, from 1 to 5, and the words of the deck it rests on."""

    dimension: str
    score: int
    evidence: str


@dataclass(frozen=True)
class Assessment:
    """Result of the rules for a deck."""

    scores: tuple[Score, ...]
    red_flags: tuple[str, ...]
    verdict: str

    @property
    def average(self) -> float:
        """Mean of the scores, to one decimal."""
        return round(sum(score.score for score in self.scores) / len(self.scores), 1)


def assess(deck: Deck) -> Assessment:
    """Score every dimension of a deck that has text."""
    scores = tuple(_score(deck, dimension) for dimension in DIMENSIONS)
    flags = _red_flags(deck, {score.dimension: score.score for score in scores})[:MAX_RED_FLAGS]
    mean = sum(score.score for score in scores) / len(scores)
    return Assessment(scores=scores, red_flags=tuple(flags), verdict=_verdict(mean, len(flags)))


def unread(evidence: str, flag: str) -> Assessment:
    """Return the assessment of an unread deck: lowest scores, and `watch`, as no fact speaks against it either."""
    scores = tuple(Score(dimension.name, 1, evidence) for dimension in DIMENSIONS)
    return Assessment(scores=scores, red_flags=(flag,), verdict="watch")


def quote(statement: Statement) -> str:
    """Return the page and the words of a statement, cut at a word if they are long."""
    text = statement.text
    if len(text) > MAX_QUOTE_CHARS:
        text = text[: MAX_QUOTE_CHARS + 1].rsplit(" ", 1)[0]
    return f'page {statement.page}: "{text}"'


def _verdict(mean: float, flags: int) -> str:
    if mean < WATCH_AVERAGE or flags >= MAX_RED_FLAGS:
        return "pass"
    return "go" if mean >= GO_AVERAGE and flags == 0 else "watch"


def _score(deck: Deck, dimension: RubricLine) -> Score:
    relevant = _relevant(deck, dimension)
    if not relevant:
        return Score(dimension.name, 1, f"The deck says nothing about it ({deck.extent} read).")
    found = [
        signal for signal in dimension.signals if any(signal.pattern.search(statement.text) for statement in relevant)
    ]
    missing = [signal.label for signal in dimension.signals if signal not in found]
    note = f" (not found: {', '.join(missing)})" if missing else ""
    return Score(dimension.name, min(5, 1 + len(found)), quote(_strongest(deck, relevant, dimension)) + note)


def _relevant(deck: Deck, dimension: RubricLine) -> list[Statement]:
    found: list[Statement] = []
    for page in deck.pages:
        about = bool(dimension.topic.search(page.heading)) and page.number > 1
        found.extend(statement for statement in page.statements if about or dimension.topic.search(statement.text))
    return found


def _strongest(deck: Deck, relevant: Sequence[Statement], dimension: RubricLine) -> Statement:
    def strength(statement: Statement) -> tuple[bool, int, bool, bool]:
        signals = sum(bool(signal.pattern.search(statement.text)) for signal in dimension.signals)
        own_page = bool(dimension.topic.search(deck.pages[statement.page - 1].heading))
        return statement.words >= MIN_WORDS, signals, own_page, bool(dimension.topic.search(statement.text))

    return max(relevant, key=strength)


def _red_flags(deck: Deck, scores: dict[str, int]) -> list[str]:
    flags: list[str] = []
    if len(deck.pages) < THIN_PAGES or deck.words < THIN_WORDS:
        # First, for it is why most of the others are raised.
        flags.append(f"Very thin: {deck.words} {'word' if deck.words == 1 else 'words'} on {deck.extent}.")
    alone = next((statement for statement in deck.statements if NO_COMPETITION.search(statement.text)), None)
    if alone:
        flags.append(f"Claims to have no competition ({quote(alone)}).")
    if scores["team"] <= 2:
        flags.append("No team: nobody is named with what they have done before.")
    if scores["financials_and_ask"] <= 2:
        flags.append("No clear ask: no amount together with what it is for.")
    if not _has_traction_numbers(deck):
        flags.append("No traction in numbers: neither customers, nor revenue, nor growth.")
    boasts = [
        statement for statement in deck.statements if HYPE.search(statement.text) and not _DIGIT.search(statement.text)
    ]
    if len(boasts) > 1:
        flags.append(f"Big words without numbers, {len(boasts)} times ({quote(boasts[0])}).")
    if deck.unreadable_pages:
        have = "has" if len(deck.unreadable_pages) == 1 else "have"
        flags.append(f"{len(deck.unreadable_pages)} of {deck.extent} {have} no readable text.")
    return flags


def _has_traction_numbers(deck: Deck) -> bool:
    traction = next(dimension for dimension in DIMENSIONS if dimension.name == "traction")
    relevant = [statement for statement in _relevant(deck, traction) if _DIGIT.search(statement.text)]
    return any(signal.pattern.search(statement.text) for statement in relevant for signal in traction.signals[:3])
