"""Page with the routes and values of a door, made from its OpenAPI document: HTML alone, nothing is loaded or run."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

_STYLE = files("llm_do_temporal.doors").joinpath("templates", "reference.css").read_text(encoding="utf-8").rstrip()
_DIGEST = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the page: its own style, and nothing else from anywhere."""
_JSON = "application/json"
_Schema = Mapping[str, Any]


@dataclass(frozen=True)
class RouteRow:
    """Route on the page."""

    name: str
    method: str
    path: str
    words: str
    parameters: tuple[_Schema, ...]
    body: _Schema | None
    """Schema of the request; None: it has no body."""
    result: _Schema | None
    """Schema of the answer; None: it is no JSON."""
    status: str
    problems: tuple[tuple[str, str], ...]
    """Status codes of problems, with what they mean."""


def reference_page(document: _Schema) -> str:
    """Return the page for an OpenAPI document."""
    routes = list(_routes(document))
    groups: dict[str, list[RouteRow]] = {}
    for tag, row in routes:
        groups.setdefault(tag, []).append(row)
    problems = dict(one for _, row in routes for one in row.problems)
    return (
        _environment()
        .get_template("reference.html")
        .render(
            info=document["info"],
            groups=groups,
            schemas=document["components"]["schemas"],
            problems=sorted(problems.items()),
        )
    )


def _routes(document: _Schema) -> Iterator[tuple[str, RouteRow]]:
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            status, done = next((code, one) for code, one in told["responses"].items() if code.startswith("2"))
            body = told.get("requestBody")
            yield (
                told["tags"][0],
                RouteRow(
                    name=told["operationId"],
                    method=method.upper(),
                    path=path,
                    words=told["description"],
                    parameters=tuple(told.get("parameters", ())),
                    body=None if body is None else body["content"][_JSON]["schema"],
                    result=done.get("content", {}).get(_JSON, {}).get("schema"),
                    status=status,
                    problems=tuple((c, one["description"]) for c, one in told["responses"].items() if c[0] in "45"),
                ),
            )


def type_of(schema: _Schema) -> Markup:
    """Return the type of a value in words, with links to the values that are described on the page."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return Markup('<a href="#value-{0}">{0}</a>').format(name)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return Markup(" or ").join(map(type_of, choices))
    if "enum" in schema:
        return Markup(" or ").join(Markup("<code>{}</code>").format(json.dumps(one)) for one in schema["enum"])
    if "const" in schema:
        return Markup("<code>{}</code>").format(json.dumps(schema["const"]))
    if schema.get("type") == "array":
        return Markup("list of ") + type_of(schema.get("items") or {})
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        return Markup("map of ") + type_of(cast("_Schema", inner))
    kind = str(schema.get("type", "any JSON"))
    return escape(f"{kind} ({schema['format']})" if "format" in schema else kind)


def words_of(text: object) -> Markup:
    """Return a text in which what stands between backticks is code."""
    parts = str(text or "").split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(one) if n % 2 else escape(one) for n, one in enumerate(parts)
    )


@lru_cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("llm_do_temporal.doors"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(type=type_of, words=words_of)
    return environment
