"""JSON values that evaluators compare, and a small part of JSONPath (RFC 9535) to find them.

Names, positions and `*` alone: filters and `match()` would run patterns of a file over answers of a model, in an engine
that tries without end, and evaluators compare by themselves what is found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

Step: TypeAlias = str | int | None
"""Name of a member, position of an item (negative: from the end), or None for all of them."""

_STEP = re.compile(
    r"\.(?P<name>[^\W\d]\w*)|(?P<all>\.\*|\[\*\])|\[(?P<place>-?\d{1,9})\]"
    r"|\['(?P<single>[^'\\]*)'\]|\[\"(?P<double>[^\"\\]*)\"\]"
)
MAX_STEPS = 50
MAX_FOUND = 10_000
"""Most values that a path finds in a value; further ones are not looked at."""


def json_path_steps(path: str) -> tuple[Step, ...] | None:
    """Return the steps of a path like `$.scores[0].name`; None for a text that is no such path."""
    if not path.startswith("$"):
        return None
    place, steps = 1, list[Step]()
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None or len(steps) == MAX_STEPS:
            return None
        steps.append(_step(found))
        place = found.end()
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    if found["all"]:
        return None
    if found["place"]:
        return int(found["place"])
    return next(found[kind] for kind in ("name", "single", "double") if found[kind] is not None)


def values_at(value: Any, steps: Sequence[Step]) -> list[Any]:
    """Return the values to which the steps lead, in order; empty where nothing is."""
    found = [value]
    for step in steps:
        found = [inner for one in found for inner in _inside(one, step)][:MAX_FOUND]
    return found


def _inside(value: Any, step: Step) -> Iterator[Any]:
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        if step is None:
            yield from members.values()
        elif isinstance(step, str) and step in members:
            yield members[step]
    elif isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        if step is None:
            yield from items
        elif isinstance(step, int) and -len(items) <= step < len(items):
            yield items[step]


def same_json(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal: `1` and `1.0` are, `true` and `1` are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        ours, theirs = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
        return ours.keys() == theirs.keys() and all(same_json(item, theirs[key]) for key, item in ours.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        items, others = cast("Sequence[Any]", one), cast("Sequence[Any]", other)
        return len(items) == len(others) and all(map(same_json, items, others))
    return bool(one == other)


def json_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def quoted(value: Any, limit: int = 100) -> str:
    """Return a value in quotes for a reason, its middle left out where it is long."""
    text = json_text(value)
    if len(text) > limit:
        text = f"{text[: limit // 2]} … {text[-limit // 2 :]}"
    return f"'{text}'"
