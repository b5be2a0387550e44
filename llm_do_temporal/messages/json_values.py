"""JSON values that people and programs hand in, read by one rule: what nobody else could read is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import cast

from pydantic_core import from_json

from llm_do_temporal.messages.base import Json

MAX_DEPTH = 100
"""Lists and objects within each other."""


def read_json(text: str) -> Json:
    """Return the value of a JSON text. Raises ValueError, also for numbers beyond a double and for half characters."""
    value = from_json(text, allow_inf_nan=False)
    check_json(value)
    return value


def check_json(value: object) -> None:
    """Raise ValueError for numbers and texts that JSON does not have, and for values of too many levels.

    Python's reader lets NaN and halves of characters through, which nobody else could read any more.
    """
    level: Iterable[object] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for one in level:
            if isinstance(one, float) and not math.isfinite(one):
                raise ValueError(f"{one} is no number of JSON")
            if isinstance(one, str) and not _is_text(one):
                raise ValueError("a text has half a character, a surrogate without its other half")
            if isinstance(one, Mapping):
                known = cast("Mapping[object, object]", one)
                inner += (*known.keys(), *known.values())
            elif isinstance(one, list | tuple):
                inner += cast("Iterable[object]", one)
        level = inner
        if not level:
            return
    raise ValueError(f"it has more than {MAX_DEPTH} levels")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
