"""JSON values of whatever a function returns: what no JSON holds is replaced by a note of it, nothing else is lost.

Pure, and used by workflow code too. Never raises an error of its own: the function has run, and its result counts.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import to_json, to_jsonable_python

from llm_do_temporal.policy.files.encodings import whole_characters

MOST_ITEMS = 1_000_000
"""Most values of one result; those that follow are left out, and a note says so."""
DEEPEST = 100
"""Most containers within each other."""
_LARGEST_BITS = 4_096


def plain_value(value: Any, noted: Callable[[Any], str | None] = lambda _: None, *, most: int | None = None) -> Any:
    """Return the value as JSON that every server and database holds.

    `noted` returns the text that stands for a value within it; None: there is none for this one. Of values that are
    made while they are read, which may have no end, nothing is read after `most` bytes; None: MOST_ITEMS is the bound.
    """
    return _Plain(noted, most).of(value, 0)


def bounded_value(value: Any, most: int) -> Any:
    """Return a JSON value, or the beginning of its text where it has more than `most` bytes."""
    data = value.encode() if isinstance(value, str) else to_json(value)
    if len(data) <= most:
        return value
    cut = data[:most].decode("utf-8", errors="ignore")
    return {"content": cut, "truncated": True, "total_bytes": len(data)}


class _Plain:
    """Reader of one result, which counts its values."""

    def __init__(self, noted: Callable[[Any], str | None], most: int | None) -> None:
        self._noted = noted
        self._most = most
        self._left = MOST_ITEMS
        self._size = 0
        self._open: set[int] = set()

    def of(self, value: Any, depth: int) -> Any:
        self._size += len(value) if isinstance(value, str | bytes | bytearray) else 1
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
            given = cast("Mapping[Any, Any]", value)
            return self._object(given.items(), depth, is_lazy=not isinstance(given, dict))
        if isinstance(value, list | tuple | set | frozenset | Iterator):
            return self._list(cast("Iterable[Any]", value), depth, is_lazy=isinstance(value, Iterator))
        # Pydantic reads an iterator in a field to its end.
        is_lazy = self._most is not None and _holds_iterator(value, set())
        if not is_lazy:
            with suppress(Exception):
                return self.of(to_jsonable_python(value, inf_nan_mode="strings"), depth)
        if is_lazy and isinstance(value, deque):
            return self._list(cast("Iterable[Any]", value), depth, is_lazy=False)
        if isinstance(value, BaseModel):
            names = (*type(value).model_fields, *((is_lazy and value.model_extra) or ()))
            return self._object(((name, getattr(value, name)) for name in names), depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object(((one.name, getattr(value, one.name)) for one in dataclasses.fields(value)), depth)
        return f"[{type(value).__name__}: JSON has no form for it]"

    def _is_full(self, *, is_lazy: bool) -> bool:
        return self._left <= 0 or (is_lazy and self._most is not None and self._size > self._most)

    def _object(self, items: Iterable[tuple[Any, Any]], depth: int, *, is_lazy: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, inner in items:
            if self._is_full(is_lazy=is_lazy):
                found["[more]"] = "[left out: too many values]"
                break
            self._left -= 1
            name = _key(key)
            self._size += len(name)
            while name in found:
                name += "'"
            found[name] = self.of(inner, depth)
        return found

    def _list(self, items: Iterable[Any], depth: int, *, is_lazy: bool) -> list[Any]:
        found: list[Any] = []
        try:
            for inner in islice(items, max(self._left, 0)):
                self._left -= 1
                found.append(self.of(inner, depth))
                if self._is_full(is_lazy=is_lazy):
                    break
            if self._is_full(is_lazy=is_lazy):
                found.append("[left out: too many values]")
        except Exception as error:
            found.append(f"[{type(error).__name__} while the rest was read]")
        return found


def _holds_iterator(value: Any, seen: set[int]) -> bool:
    """Return whether an iterator is among the fields and items of a value."""
    if isinstance(value, Iterator):
        return True
    if value is None or isinstance(value, str | bytes | int | float) or id(value) in seen:
        return False
    seen.add(id(value))
    try:
        return len(seen) > MOST_ITEMS or any(_holds_iterator(one, seen) for one in _parts(value))
    except RecursionError:
        return True


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    if isinstance(value, list | tuple | set | frozenset | deque):
        return cast("Iterable[Any]", value)
    if isinstance(value, BaseModel):
        return [*value.__dict__.values(), value.model_extra]
    if dataclasses.is_dataclass(value):
        return [getattr(value, one.name, None) for one in dataclasses.fields(value)]
    return ()


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
