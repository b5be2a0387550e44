"""The offline summarizer: reads a stretch of a text, or has parts of it summarised by itself and joins the results.

A summary is the sentences whose words the stretch uses most. The script picks sentences; it understands none.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from llm_do_temporal.offline.model.play import PlayCall, PlaySteps, Say, Words, ask
from llm_do_temporal.offline.model.seen import SeenRequest, ToolResult, fields_of
from llm_do_temporal.offline.model.typed_input import given_fields, whole_number

SELF, READ = "summarizer", "read_file"
MAX_PARTS = 4
SENTENCES = 2
"""Sentences in the summary of a stretch that is read."""
JOINED_SENTENCES = 5
"""Sentences in the summary of several parts."""
DEFAULT_CHARS = 4_000
_SENTENCE = re.compile(r"[A-Z\"'(][^.!?]*[.!?]+(?=[\"')]*(?:\s|$))")
_WORD = re.compile(r"[a-z]{4,}")


@dataclass(frozen=True)
class Stretch:
    """Stretch of a text to be summarised, in characters; an `end` of None is the end of the text."""

    path: str
    start: int
    end: int | None
    at_once: int


def summarise(seen: SeenRequest) -> PlaySteps:
    """Read the stretch; if it is too long for one reading, divide it."""
    request = _request(seen)
    length = request.at_once if request.end is None else max(1, min(request.at_once, request.end - request.start))
    read = yield from ask(READ, path=request.path, offset=request.start, max_chars=length)
    if not read.ok:
        return f"{request.path} could not be read: {read.text}"
    total = whole_number(fields_of(read.data).get("total_chars"), 0)
    stretch = replace(request, end=min(total, request.end or total))
    text = str(fields_of(read.data).get("content", ""))
    parts = divided(stretch)
    if len(parts) < 2:
        return _words(" ".join(key_sentences(text, SENTENCES)) or "(nothing to summarise)", stretch, total)
    results = yield Say(f"Dividing it into {len(parts)} parts.", [PlayCall(SELF, _arguments(part)) for part in parts])
    return _words(_joined(parts, results), stretch, total)


def divided(stretch: Stretch) -> list[Stretch]:
    """Return two to four stretches of about the same length; the stretch itself if it can be read at once."""
    end = stretch.end or stretch.start
    length = end - stretch.start
    number = min(MAX_PARTS, max(1, -(-length // stretch.at_once)))
    borders = [stretch.start + length * index // number for index in range(number + 1)]
    return [replace(stretch, start=borders[index], end=borders[index + 1]) for index in range(number)]


def key_sentences(text: str, limit: int) -> list[str]:
    """Return the `limit` sentences with the most frequent words, in the order of the text, without broken ones."""
    sentences = [" ".join(found.split()) for found in _SENTENCE.findall(text)]
    frequency = Counter(_WORD.findall(text.lower()))

    def weight(index: int) -> float:
        words = set(_WORD.findall(sentences[index].lower()))
        return sum(frequency[word] for word in words) / (len(words) + 3)

    best = sorted(range(len(sentences)), key=weight, reverse=True)[:limit]
    return [sentences[index] for index in sorted(best)]


def _request(seen: SeenRequest) -> Stretch:
    given = given_fields(seen)
    return Stretch(
        path=str(given.get("path") or seen.prompt.strip() or "/"),
        start=whole_number(given.get("start"), 0),
        end=whole_number(given.get("end"), 0) or None,
        at_once=whole_number(given.get("at_once"), 0) or DEFAULT_CHARS,
    )


def _arguments(stretch: Stretch) -> dict[str, object]:
    return {"path": stretch.path, "start": stretch.start, "end": stretch.end, "at_once": stretch.at_once}


def _joined(parts: list[Stretch], results: list[ToolResult]) -> str:
    texts = " ".join(result.text for result in results if result.ok)
    lines = [" ".join(key_sentences(texts, JOINED_SENTENCES))]
    lines += [
        f"(Characters {part.start} to {part.end} are missing: {result.text})"
        for part, result in zip(parts, results, strict=True)
        if not result.ok
    ]
    return "\n".join(lines)


def _words(summary: str, stretch: Stretch, total: int) -> Words:
    """Return the last words: only the summary of the whole is signed; in a part that would count as a sentence."""
    return summary if (stretch.start, stretch.end) == (0, total) else {"text": summary}
