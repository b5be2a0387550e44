"""The offline task decomposer: divides a task where its words do, and has each part divided by itself.

The script does not know the steps of a task: `book a hall and order food` becomes two parts because of its `and`.
"""

from __future__ import annotations

import re

from llm_do_temporal.offline.model.play import PlayCall, PlaySteps, Say, Words
from llm_do_temporal.offline.model.seen import SeenRequest, ToolResult
from llm_do_temporal.offline.model.typed_input import given_fields, whole_number

SELF = "task_decomposer"
DEFAULT_LEVELS = 2
MAX_PARTS = 6
_BORDERS = (r"\s*;\s*|(?<=\w)\.\s+", r",?\s+then\s+", r"\s*,\s*", r"\s+and\s+")
"""Borders that divide a task, the strongest first."""
_LINKS = re.compile(r"^(?:(?:and|then|finally)\s+)+", re.IGNORECASE)


def decompose(seen: SeenRequest) -> PlaySteps:
    """Have the parts of the task divided, and put the outlines together."""
    given = given_fields(seen)
    task = _line(str(given.get("task") or seen.prompt))
    levels = whole_number(given.get("levels"), DEFAULT_LEVELS)
    parts = parts_of(task) if levels else []
    whole = not given.get("part_of")
    if len(parts) < 2:
        return _words(task, whole=whole)
    calls = [PlayCall(SELF, {"task": part, "part_of": task, "levels": levels - 1}) for part in parts]
    results = yield Say(f"Dividing it into {len(parts)} parts.", calls)
    outlines = [_outline(number, part, result) for number, (part, result) in enumerate(_pairs(parts, results), start=1)]
    return _words("\n".join([task, *outlines]), whole=whole)


def parts_of(task: str) -> list[str]:
    """Return the parts between the strongest borders; at most `MAX_PARTS`, the last of which holds the rest."""
    for border in _BORDERS:
        parts = [_LINKS.sub("", part).rstrip(" .") for part in re.split(border, task, maxsplit=MAX_PARTS - 1)]
        parts = [part for part in parts if part]
        if len(parts) > 1:
            return parts
    return []


def _pairs(parts: list[str], results: list[ToolResult]) -> list[tuple[str, ToolResult]]:
    return list(zip(parts, results, strict=True))


def _outline(number: int, part: str, result: ToolResult) -> str:
    text = result.text if result.ok else f"{part} (not divided: {_line(result.text)})"
    return f"{number}. {text.strip()}".replace("\n", "\n   ")


def _words(outline: str, *, whole: bool) -> Words:
    """Return the last words: only the whole outline is signed; in a part that would stand between the lines."""
    return outline if whole else {"text": outline}


def _line(text: str) -> str:
    return " ".join(text.split())
