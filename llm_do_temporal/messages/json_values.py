"""JSON values that people and programs hand in, read by one rule: what nobody else could read is refused."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

from llm_do_temporal.messages.base import Json

MAX_DEPTH = 100
"""Lists and objects within each other."""
_TOO_DEEP = f"it has more than {MAX_DEPTH} levels"


class RepeatedKey(ValueError):
    """A key that stands twice in an object: readers take one value or the other."""


def read_json(text: str) -> Json:
    """Return the value of a JSON text. Raises ValueError, also for what `unique_object` and `check_json` refuse."""
    try:
        value = json.loads(text, object_pairs_hook=unique_object, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    check_json(value)
    return value


def unique_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a JSON text: the `object_pairs_hook` of Python's reader. Raises RepeatedKey."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise RepeatedKey(f"an object has the key {json.dumps(name[:80])} twice")
    return found


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
            if isinstance(one, str) and not is_text(one):
                raise ValueError("a text has half a character, a surrogate without its other half")
            if isinstance(one, Mapping):
                known = cast("Mapping[object, object]", one)
                inner += (*known.keys(), *known.values())
            elif isinstance(one, list | tuple):
                inner += cast("Iterable[object]", one)
        level = inner
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def is_text(text: str) -> bool:
    """Return whether UTF-8 can hold the text: it has no half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
