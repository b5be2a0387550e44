"""Summaries of calls and results on one line, for what is folded in a conversation. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

MAX_CHARS = 140
_VALUE_CHARS = 60


def call_line(args: Any) -> str:
    """Return the arguments of a call on one line, each with its name; long ones are cut."""
    if not isinstance(args, Mapping):
        return "" if args is None else _cut(_one(args), MAX_CHARS)
    named = cast("Mapping[str, Any]", args)
    return _cut(" · ".join(f"{name}: {_cut(_one(value), _VALUE_CHARS)}" for name, value in named.items()), MAX_CHARS)


def result_line(value: Any) -> str:
    """Return the beginning of a result: the first line of a text, else JSON."""
    return _cut(_one(value), MAX_CHARS)


def _one(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    lines = value.strip().splitlines()
    return f"{lines[0].rstrip()} …" if len(lines) > 1 else "".join(lines)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
