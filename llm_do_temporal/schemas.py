"""Values against JSON Schemas: a tool's arguments, a worker's structured output, a changed decision.

Pure, and used on every side: the gate, the desk and the command line must say the same of the same value.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError


def schema_problems(schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with `value`, one line a problem with the place it is at; empty when it fits."""
    validator = Draft202012Validator(schema)
    problems = sorted(validator.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path])
    return [f"{_place(error.absolute_path)}{error.message[:300]}" for error in problems]


def check_schema(schema: dict[str, Any]) -> str | None:
    """What is wrong with a JSON Schema itself, or None."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return error.message
    return None


def _place(path: Any) -> str:
    parts = [str(part) for part in path]
    return f"{'.'.join(parts)}: " if parts else ""
