"""Decks in a listing, the ones of them that a prompt means, and the names of their evaluations. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

_PDF_IN_TEXT = re.compile(r"[^\s\"'`,;:()\[\]{}][^\n\"'`,;:()\[\]{}]*?\.pdf\b", re.IGNORECASE)
_PDF_NAME = re.compile(r"[\w./-]*[\w-]\.pdf\b", re.IGNORECASE)
_ALL = re.compile(r"\b(?:every|all|each)\b", re.IGNORECASE)


@dataclass(frozen=True)
class DeckSelection:
    """Decks to evaluate, and the names in the prompt that no deck has."""

    decks: tuple[str, ...]
    unknown: tuple[str, ...] = ()


def listed_decks(listing: Any) -> tuple[str, ...]:
    """Return the PDF paths in the result of a listing tool, whatever its shape; sorted, each once."""
    return tuple(sorted({path for text in _strings(listing) for path in _pdfs(text)}))


def choose_decks(decks: Sequence[str], prompt: str) -> DeckSelection:
    """Return the decks that the prompt names, by path, file name or stem; all decks if it names none."""
    mentioned = tuple(dict.fromkeys(_PDF_NAME.findall(prompt)))
    if mentioned:
        chosen = {name: [deck for deck in decks if _is_called(deck, name)] for name in mentioned}
        named = {deck for found in chosen.values() for deck in found}
        return DeckSelection(
            decks=tuple(deck for deck in decks if deck in named),
            unknown=tuple(name for name, found in chosen.items() if not found),
        )
    by_stem = () if _ALL.search(prompt) else tuple(deck for deck in decks if _stem_occurs(deck, prompt))
    return DeckSelection(decks=by_stem or tuple(decks))


def evaluation_paths(decks: Sequence[str], folder: str = "/evaluations") -> dict[str, str]:
    """Return the path of each deck's evaluation: `<folder>/<stem>.md`; equal stems get the parent folders in front."""
    paths: dict[str, str] = {}
    taken: set[str] = set()
    stems = Counter(PurePosixPath(deck).stem.casefold() for deck in decks)
    for deck in decks:
        path = PurePosixPath(deck)
        alone = stems[path.stem.casefold()] == 1
        wanted = path.stem if alone else "-".join(path.with_suffix("").parts).lstrip("/-")
        name, number = wanted, 2
        while name.casefold() in taken:
            name, number = f"{wanted}-{number}", number + 1
        taken.add(name.casefold())
        paths[deck] = f"{folder}/{name}.md"
    return paths


def _is_called(deck: str, name: str) -> bool:
    full, wanted = deck.casefold().lstrip("/"), name.casefold().lstrip("/")
    return full == wanted or full.endswith("/" + wanted)


def _stem_occurs(deck: str, prompt: str) -> bool:
    stem = _plain(PurePosixPath(deck).stem)
    return bool(stem) and f" {stem} " in f" {_plain(prompt)} "


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, Any]", value).values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from _strings(item)


def _pdfs(text: str) -> list[str]:
    if "\n" not in text and text.lower().endswith(".pdf"):
        return [text]
    return _PDF_IN_TEXT.findall(text)


def json_in(text: str, data: Any) -> Any:
    """Return the data of a result if it is JSON, or a text that holds JSON; else the text."""
    if isinstance(data, str):
        try:
            return json.loads(data)
        except ValueError:
            return data
    return text if data is None else data
