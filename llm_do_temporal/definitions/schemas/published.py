"""JSON Schemas for editors: all that can stand in a file of definitions, with the meaning of each key.

Made of the models that read the files, so what `check` takes they take. What only a whole workshop shows, and what two
keys say together, is for `check` alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from pydantic import BaseModel

from llm_do_temporal.definitions.keys.files import WorkerFile, WorkshopConfig
from llm_do_temporal.extension import definition_files
from llm_do_temporal.policy.approvals import Ruling
from llm_do_temporal.policy.models import FREE

MEANINGS_FILE = "llm_do_temporal/definitions/schemas/meanings.json"
"""The file, in a checkout."""


@cache
def key_meanings() -> dict[str, dict[str, str]]:
    """Return the meaning of each key, by the name of its model and its own."""
    return json.loads(Path(__file__).with_name("meanings.json").read_text("utf-8"))


Schema = dict[str, Any]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PROGRAM = "llm-do-temporal"
_FILES: Mapping[str, tuple[str, type[BaseModel]]] = {
    "worker": ("worker file", WorkerFile),
    "workshop": ("workshop.yaml", WorkshopConfig),
}
"""Kinds of files, each with words for one and the model of its keys."""
_SHORT_FORMS: Mapping[str, tuple[Schema, ...]] = {
    "ModelAlias": ({"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}),
    "Price": ({"const": FREE},),
    "Rule": ({"enum": [ruling.value for ruling in Ruling]},),
    "ServerSideToolKeys": ({"$ref": "#/$defs/ServerSideToolKeys/anyOf/0/properties/tool_type"},),
}
"""Forms that people may write instead of the keys of a model, which reads them before it validates."""


@cache
def published_schema(name: str) -> Schema:
    """Return the JSON Schema of a kind of file. It is shared: nobody changes it."""
    title, schema = _made(name)
    definitions = cast("dict[str, Schema]", schema["$defs"])
    for model, keys in definitions.items():
        explain(keys, model)
    for model, forms in _SHORT_FORMS.items():
        if model in definitions:
            definitions[model] = {"anyOf": [definitions[model], *forms]}
    # A key with nothing after it is a key left out, at the top of a file.
    properties = cast("dict[str, Schema]", schema["properties"])
    schema["properties"] = {key: _or_nothing(value) for key, value in properties.items()}
    number = version(_PROGRAM)
    return {
        "$schema": DRAFT,
        "$id": f"urn:{_PROGRAM}:{number}:{name}",
        **{key: value for key, value in schema.items() if key != "$schema"},
        "title": f"{_PROGRAM} {number}: {title}",
    }


def published_json(name: str) -> str:
    """Return the JSON Schema of a kind of file as a file has it."""
    return json.dumps(published_schema(name), indent=2, ensure_ascii=False) + "\n"


def schema_kinds() -> tuple[str, ...]:
    """Return the kinds of files that have a schema, those of capabilities last."""
    return (*_FILES, *(one.kind for one in definition_files()))


def _made(name: str) -> tuple[str, Schema]:
    """Return words for a file of a kind, and its schema as its model has it."""
    for one in definition_files():
        if one.kind == name:
            return one.title, one.schema()
    title, model = _FILES[name]
    schema = model.model_json_schema()
    explain(schema, model.__name__)
    return title, schema


def explain(schema: Schema, model: str, renamed: Mapping[str, str] = MappingProxyType({})) -> None:
    """Put the meanings of a model's keys into its schema, in place of titles that only repeat their names.

    `renamed` has our name of each key that is called something else here.
    """
    meanings = key_meanings().get(model, {})
    schema.pop("title", None)
    for key, value in cast("dict[str, Schema]", schema.get("properties", {})).items():
        value.pop("title", None)
        meaning = meanings.get(renamed.get(key, key))
        if meaning is not None:
            value["description"] = meaning


def _or_nothing(schema: Schema) -> Schema:
    """Return a schema that takes nothing, too; what explains it stays at its top."""
    outside = {key: schema[key] for key in ("description", "default") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in outside}
    options = inner["anyOf"] if list(inner) == ["anyOf"] else [inner]
    if {"type": "null"} not in options:
        options = [*options, {"type": "null"}]
    return {**outside, "anyOf": options}
