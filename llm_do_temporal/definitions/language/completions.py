"""Words that may be written at a place of a file: keys, choices, and names of the workshop.

Values of environment variables are never among them: where a variable is named, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llm_do_temporal.definitions.language.edited_file import MAX_LIVE_CHARS, EditedFile
from llm_do_temporal.definitions.language.file_keys import keys_at, values_at
from llm_do_temporal.definitions.language.names import WorkshopNames
from llm_do_temporal.definitions.language.vocabulary import ANY, NameKind, name_kind
from llm_do_temporal.definitions.workers.places import named_worker
from llm_do_temporal.definitions.workers.worker_file import SEPARATOR
from llm_do_temporal.definitions.yaml.cursor import Cursor, cursor_at
from llm_do_temporal.definitions.yaml.lines import KeyPath
from llm_do_temporal.definitions.yaml.spans import TextPlace

MAX_OFFERS = 500
_FIRST = frozenset({"worker", "function"})
"""Kinds of names that are offered before keys: where both may stand, most lines are names."""


@dataclass(frozen=True)
class Offer:
    """Word that may be written."""

    word: str
    kind: Literal["key", "choice"] | NameKind
    about: str = ""
    """Documentation, as Markdown."""
    insert: str = ""
    """Text in the place of the word, where it is another one."""


@dataclass(frozen=True)
class Offers:
    """Words that may be written in the place of one word."""

    start: TextPlace
    end: TextPlace
    words: tuple[Offer, ...]
    """Words in the order in which they are offered."""


def complete(file: EditedFile, spot: TextPlace, names: WorkshopNames) -> Offers | None:
    """Return what may be written at a place; None where nothing can be told."""
    if file.body_line is not None and spot.line >= file.body_line - 1:
        return None
    if len(file.front) > MAX_LIVE_CHARS or file.lines[spot.line].rstrip() == SEPARATOR:
        return None
    cursor = cursor_at(file.front.split("\n"), spot)
    if cursor is None:
        return None
    found = [*_keys(file, cursor, names), *_values(file, cursor, names)]
    unique = {(one.word, one.kind): one for one in found}.values()
    words = tuple(sorted(unique, key=lambda one: one.kind not in _FIRST))[:MAX_OFFERS]
    return Offers(TextPlace(spot.line, cursor.start), TextPlace(spot.line, cursor.end), words)


def _keys(file: EditedFile, cursor: Cursor, names: WorkshopNames) -> Iterator[Offer]:
    around = cursor.around
    if around is None:
        return
    end = "" if cursor.has_colon else ": "
    there = {str(one.path[-1]) for one in file.spans if one.role == "key" and one.path[:-1] == around}
    there.discard(cursor.word)
    for name, meaning in keys_at(file.kind, around).items():
        if name not in there:
            yield Offer(name, "key", meaning.markdown, f"{name}{end}")
    kind = name_kind(file.kind, (*around, ANY), "key")
    for offer in _names(kind, cursor.word, names) if kind is not None else ():
        if offer.word not in there:
            empty = "" if cursor.has_colon or kind == "capability" else "{}"
            yield Offer(offer.word, offer.kind, offer.about, f"{offer.word}{end}{empty}")


def _values(file: EditedFile, cursor: Cursor, names: WorkshopNames) -> Iterator[Offer]:
    path: KeyPath | None = cursor.value
    if path is None:
        return
    for word in values_at(file.kind, path):
        yield Offer(word, "choice")
    kind = name_kind(file.kind, path, "value")
    if file.kind == "worker" and path == ("name",):
        yield Offer(named_worker(file.path), "worker")
    elif kind is not None:
        yield from _names(kind, cursor.word, names)


def _names(kind: NameKind, word: str, names: WorkshopNames) -> Iterator[Offer]:
    match kind:
        case "worker":
            for name in names.workers:
                worker = names.worker(name)
                yield Offer(name, kind, "" if worker is None else worker.definition.description)
        case "model":
            yield from (Offer(name, kind) for name in names.models(word) if name.startswith(word))
        case "capability":
            yield from (Offer(name, kind) for name in names.capabilities)
        case "function":
            yield from (Offer(one.name, kind, one.description) for one in names.functions)
        case "class":
            yield from (Offer(name, kind, one.description) for name, one in names.classes.items())
