"""Schemas for editors: every key is in them with its meaning, and they accept what check accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from pydantic import BaseModel

from llm_do_temporal.definitions.schemas.published import key_meanings, published_json, published_schema, schema_kinds
from llm_do_temporal.definitions.starter import make_workshop, modeline
from llm_do_temporal.definitions.workers.places import WorkerPlace
from llm_do_temporal.definitions.workers.worker_file import parse_worker, split_front_matter
from llm_do_temporal.definitions.workshop import parse_workshop
from llm_do_temporal.definitions.yaml.documents import parse_yaml
from llm_do_temporal.extension import definition_files
from scripts.pages.key_meanings import models

ROOT = Path(__file__).parents[3]
NAMES = schema_kinds()
OTHERS = tuple(one.suffix for one in definition_files())
SHIPPED = [
    path
    for folder in ("workers", "tests/support/relay", "tests/support/exam")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix == ".worker" or path.name == "workshop.yaml" or path.name.endswith(OTHERS)
]


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(published_schema(name))
    assert json.loads(published_json(name)) == published_schema(name)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_check_accepts_fits(path: Path) -> None:
    text = path.read_text("utf-8")
    name = "worker" if path.suffix == ".worker" else "workshop" if path.stem == "workshop" else "eval"
    document, problems = parse_yaml(split_front_matter(text)[0] if name == "worker" else text, file=path.name)
    assert problems == []
    errors = jsonschema.Draft202012Validator(published_schema(name)).iter_errors(document.value)
    assert [error.message for error in errors] == []


MODELS = {model.__name__: model for model in models()}


@pytest.mark.parametrize("model", [MODELS[name] for name in sorted(MODELS)], ids=sorted(MODELS))
def test_every_key_of_the_models_has_a_meaning(model: type[BaseModel]) -> None:
    assert set(model.model_fields) - {"kind"} <= set(key_meanings().get(model.__name__, {})) | {"kind"}


def nameless(schema: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the keys of a schema that have no meaning."""
    if isinstance(schema, dict):
        inner = cast("dict[str, Any]", schema)
        for key, value in cast("dict[str, Any]", inner.get("properties", {})).items():
            if not value.get("description"):
                yield "/".join((*path, key))
        for key, value in inner.items():
            yield from nameless(value, (*path, key))
    elif isinstance(schema, list):
        for number, value in enumerate(cast("list[object]", schema)):
            yield from nameless(value, (*path, str(number)))


@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_a_schema_has_a_meaning(name: str) -> None:
    assert list(nameless(published_schema(name))) == []


@pytest.mark.parametrize(
    "front",
    [
        "model: [a:b, c:d]",
        "limits: {time: 2h, cost: 0.5}",
        "limits: {time: 90}",
        "toolsets:\n  filesystem:\n  delegation: {x: }",
        "description:\nattachment_policy:\n",
        "server_side_tools: [web_search, {tool_type: web_fetch, max_uses: 2}]",
        "toolsets: {package.module.Class: {anything: 1, prefix: p_}}",
    ],
)
def test_a_worker_that_the_reader_takes_fits(tmp_path: Path, front: str) -> None:
    place = WorkerPlace("a", tmp_path / "a.worker", tmp_path)
    problems = parse_worker(f"{front}\n---\nRead.\n", place, sha256="").problems
    assert [one for one in problems if one.severity == "error"] == []
    value = parse_yaml(front, file="a")[0].value
    assert jsonschema.Draft202012Validator(published_schema("worker")).is_valid(value)


@pytest.mark.parametrize(
    "text",
    [
        "approvals: {rules: {worker.call: blocked, sandbox: {ruling: needs_approval, timeout: 3d}}}",
        "models: {fast: a:b, two: [a:b, c:d], own: {model: a:b, price: free}}",
        "models: {dear: {model: a:b, price: {input: 1, output: 2.5}}}",
        "views: {mine: {since: 7d}}",
        "shell:\nmodel:\n",
    ],
)
def test_a_workshop_that_the_reader_takes_fits(tmp_path: Path, text: str) -> None:
    (tmp_path / "workshop.yaml").write_text(text)
    _, problems, document = parse_workshop(tmp_path)
    assert problems == []
    assert jsonschema.Draft202012Validator(published_schema("workshop")).is_valid(document.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("worker", {"modle": "x"}),
        ("worker", {"locked": "yes"}),
        ("worker", {"limits": {"time": "soon"}}),
        ("worker", {"toolsets": {"shell": {"rule": []}}}),
        ("workshop", {"approvals": {"rules": {"worker.call": "maybe"}}}),
        ("workshop", {"models": {"fast": {"url": "x"}}}),
    ],
)
def test_mistakes_are_found(name: str, value: Any) -> None:
    assert not jsonschema.Draft202012Validator(published_schema(name)).is_valid(value)


def test_init_writes_the_schemas_that_its_modeline_names(tmp_path: Path) -> None:
    make_workshop(tmp_path)
    first = (tmp_path / "workshop.yaml").read_text().split("\n")[0]
    assert first == modeline("workshop")
    named = tmp_path / first.partition("$schema=")[2]
    assert named.read_text() == published_json("workshop")
