"""Words that may be written at a place of a file: keys with their meanings, choices, names of the workshop.

Values of environment variables are never among them: where a variable is named, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from llm_do_temporal.definitions.schemas.published import Schema, published_schema
from llm_do_temporal.definitions.workers.places import named_worker
from llm_do_temporal.definitions.workers.worker_file import SEPARATOR
from llm_do_temporal.definitions.yaml.documents import KeyPath
from llm_do_temporal.extensions.lsp.edited_file import MAX_LIVE_CHARS, EditedFile
from llm_do_temporal.extensions.lsp.names import ANY, NameKind, WorkshopNames, name_kind
from llm_do_temporal.extensions.lsp.yaml_places import Cursor, TextPlace, cursor_at

_REFERENCE = "#/"
_MAX_OPTIONS = 200
_TYPES = {
    "string": "text",
    "integer": "number",
    "number": "number",
    "boolean": "true, false",
    "array": "list",
    "object": "keys",
}


@dataclass(frozen=True)
class KeyMeaning:
    """Key that may stand somewhere, and what it means."""

    name: str
    meaning: str
    shape: str
    """Kinds of values, in words."""
    default: Any = None
    """Default; None where there is none worth a word."""

    @property
    def markdown(self) -> str:
        """The key's documentation."""
        default = (
            ""
            if self.default in (None, "") or isinstance(self.default, dict | list)
            else f", default `{_plain(self.default)}`"
        )
        return f"**`{self.name}`** ({self.shape}{default})\n\n{self.meaning}".rstrip()


def keys_at(kind: str, path: KeyPath) -> dict[str, KeyMeaning]:
    """Return the keys that may stand in the keys and values at a path, without names of the author's choice."""
    found: dict[str, KeyMeaning] = {}
    for schema in _schemas_at(kind, path):
        for name, inner in cast("dict[str, Schema]", schema.get("properties", {})).items():
            found.setdefault(name, _meaning(kind, name, inner))
    return found


def key_at(kind: str, path: KeyPath) -> KeyMeaning | None:
    """Return the meaning of the key at the end of a path; None for a name of the author's choice."""
    return keys_at(kind, path[:-1]).get(str(path[-1])) if path else None


def values_at(kind: str, path: KeyPath) -> list[str]:
    """Return the words that may stand at a path, where these are few: choices, true and false."""
    found: list[str] = []
    for schema in _schemas_at(kind, path):
        choices = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
        choices += [True, False] if schema.get("type") == "boolean" else []
        found += [_plain(one) for one in choices]
    return list(dict.fromkeys(found))


def _schemas_at(kind: str, path: KeyPath) -> list[Schema]:
    root = published_schema(kind)
    here = list(_options(root, root))
    for part in path:
        here = [one for schema in here for inner in _inside(schema, part) for one in _options(root, inner)]
        here = here[:_MAX_OPTIONS]
    return here


def _inside(schema: Schema, part: str | int) -> Iterator[Schema]:
    if isinstance(part, int):
        inner = schema.get("items")
    else:
        inner = schema.get("properties", {}).get(part, schema.get("additionalProperties"))
    if isinstance(inner, dict):
        yield cast("Schema", inner)


def _options(root: Schema, schema: Schema) -> Iterator[Schema]:
    """Yield the schemas that a schema stands for, references and alternatives written out."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from _options(root, _resolved(root, reference))
    elif "anyOf" in schema:
        for option in cast("list[Schema]", schema["anyOf"]):
            yield from _options(root, option)
    else:
        yield schema


def _resolved(root: Schema, reference: str) -> Schema:
    here: Any = root
    for part in reference.removeprefix(_REFERENCE).split("/"):
        here = cast("Any", here[int(part)] if isinstance(here, list) else here[part])
    return cast("Schema", here)


def _meaning(kind: str, name: str, schema: Schema) -> KeyMeaning:
    root = published_schema(kind)
    options = list(_options(root, schema))
    words: list[str] = []
    for option in options:
        choices = option.get("enum") or ([option["const"]] if "const" in option else [])
        words += [f"`{_plain(one)}`" for one in choices] or [_TYPES.get(str(option.get("type")), "")]
    shape = ", ".join(dict.fromkeys(word for word in words if word)) or "any value"
    return KeyMeaning(name, str(schema.get("description", "")), shape, schema.get("default"))


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
