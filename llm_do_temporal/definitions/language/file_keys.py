"""Keys of a kind of file: which keys and values may stand at a path, and their meanings, read from its schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from llm_do_temporal.definitions.language.edited_file import FileKind
from llm_do_temporal.definitions.schemas.published import Schema, SchemaName, published_schema
from llm_do_temporal.definitions.yaml.lines import KeyPath

_NAMES: dict[FileKind, SchemaName] = {"worker": "worker", "workshop": "workshop", "evaluation": "eval"}
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


def keys_at(kind: FileKind, path: KeyPath) -> dict[str, KeyMeaning]:
    """Return the keys that may stand in the keys and values at a path, without names of the author's choice."""
    found: dict[str, KeyMeaning] = {}
    for schema in _schemas_at(kind, path):
        for name, inner in cast("dict[str, Schema]", schema.get("properties", {})).items():
            found.setdefault(name, _meaning(kind, name, inner))
    return found


def key_at(kind: FileKind, path: KeyPath) -> KeyMeaning | None:
    """Return the meaning of the key at the end of a path; None for a name of the author's choice."""
    return keys_at(kind, path[:-1]).get(str(path[-1])) if path else None


def values_at(kind: FileKind, path: KeyPath) -> list[str]:
    """Return the words that may stand at a path, where these are few: choices, true and false."""
    found: list[str] = []
    for schema in _schemas_at(kind, path):
        choices = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
        choices += [True, False] if schema.get("type") == "boolean" else []
        found += [_plain(one) for one in choices]
    return list(dict.fromkeys(found))


def _schemas_at(kind: FileKind, path: KeyPath) -> list[Schema]:
    root = published_schema(_NAMES[kind])
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


def _meaning(kind: FileKind, name: str, schema: Schema) -> KeyMeaning:
    root = published_schema(_NAMES[kind])
    options = list(_options(root, schema))
    words: list[str] = []
    for option in options:
        choices = option.get("enum") or ([option["const"]] if "const" in option else [])
        words += [f"`{_plain(one)}`" for one in choices] or [_TYPES.get(str(option.get("type")), "")]
    shape = ", ".join(dict.fromkeys(word for word in words if word)) or "any value"
    return KeyMeaning(name, str(schema.get("description", "")), shape, schema.get("default"))


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
