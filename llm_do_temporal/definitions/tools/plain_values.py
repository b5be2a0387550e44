"""JSON values of whatever a function returns: what no JSON holds is replaced by a note of it, nothing else is lost.

Pure, and used by workflow code too. Never raises an error of its own: the function has run, and its result counts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import to_json, to_jsonable_python

MOST_ITEMS = 1_000_000
"""Most values of one result; those that follow are left out, and a note says so."""
DEEPEST = 100
"""Most containers within each other."""
_LARGEST_BITS = 4_096


def plain_value(value: Any, noted: Callable[[Any], str | None] = lambda _: None) -> Any:
    """Return the value as JSON that every server and database holds.

    `noted` returns the text that stands for a value within it; None: there is none for this one.
    """
    return _Plain(noted).of(value, 0)


def bounded_value(value: Any, most: int) -> Any:
    """Return a JSON value, or the beginning of its text where it has more than `most` bytes."""
    data = value.encode() if isinstance(value, str) else to_json(value)
    if len(data) <= most:
        return value
    cut = data[:most].decode("utf-8", errors="ignore")
    return {"content": cut, "truncated": True, "total_bytes": len(data)}


def whole_characters(text: str) -> str:
    """Return the text with halves of characters joined, or replaced by U+FFFD where the other half is missing."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Plain:
    """Reader of one result, which counts its values."""

    def __init__(self, noted: Callable[[Any], str | None]) -> None:
        self._noted = noted
        self._left = MOST_ITEMS
        self._open: set[int] = set()

    def of(self, value: Any, depth: int) -> Any:
        if value is None or value is True or value is False:
            return value
        if type(value) is str:
            return whole_characters(value)
        if isinstance(value, int) and type(value) is int:
            return value if value.bit_length() <= _LARGEST_BITS else f"[integer of {value.bit_length()} bits]"
        if isinstance(value, float) and type(value) is float:
            return value if math.isfinite(value) else _odd_number(value)
        note = self._noted(value)
        if note is not None:
            return note
        if isinstance(value, bytes | bytearray | memoryview):
            return _text_of(bytes(cast("bytes", value)))
        if id(value) in self._open:
            return "[refers to itself]"
        if depth >= DEEPEST:
            return "[nested too deeply]"
        self._open.add(id(value))
        try:
            return self._within(value, depth + 1)
        except Exception as error:
            # The value's own code has raised it.
            return f"[{type(value).__name__}: {type(error).__name__} while it was read]"
        finally:
            self._open.discard(id(value))

    def _within(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[Any, Any]", value).items(), depth)
        if isinstance(value, list | tuple | set | frozenset | Iterator):
            return self._list(cast("Iterable[Any]", value), depth)
        with suppress(Exception):
            return self.of(to_jsonable_python(value, inf_nan_mode="strings"), depth)
        if isinstance(value, BaseModel):
            return self._object(((name, getattr(value, name)) for name in type(value).model_fields), depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object(((one.name, getattr(value, one.name)) for one in dataclasses.fields(value)), depth)
        return f"[{type(value).__name__}: JSON has no form for it]"

    def _object(self, items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, inner in items:
            if self._left <= 0:
                found["[more]"] = "[left out: too many values]"
                break
            self._left -= 1
            name = _key(key)
            while name in found:
                name += "'"
            found[name] = self.of(inner, depth)
        return found

    def _list(self, items: Iterable[Any], depth: int) -> list[Any]:
        found: list[Any] = []
        try:
            for inner in islice(items, max(self._left, 0)):
                self._left -= 1
                found.append(self.of(inner, depth))
            if self._left <= 0:
                found.append("[left out: too many values]")
        except Exception as error:
            found.append(f"[{type(error).__name__} while the rest was read]")
        return found


def _key(key: Any) -> str:
    if isinstance(key, str):
        return whole_characters(str(key))
    try:
        (name,) = to_jsonable_python({key: None}, inf_nan_mode="strings")
        return whole_characters(name)
    except Exception:
        return f"[{type(key).__name__}]"


def _odd_number(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"[{len(data)} bytes, not shown]"
