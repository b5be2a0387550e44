"""Parts of a call, in which a person is shown the whole of it. Pure.

Nothing is cut. A long part may be folded, and then has to be opened before the call can be approved.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from llm_do_temporal.client import Question

_NAMES, _SIGNS = ("--- ", "+++ "), ("+", "-", " ", "@", "\\")
"""Beginnings of the two lines that name the file, and of all others of a diff."""
LONG_CHARS, LONG_LINES = 8_000, 120
"""Longest part that is shown open; of a longer one nobody sees the end without meaning to."""
LINE_CHARS = 80
"""Longest JSON that stands on one line."""
MAX_COMPARED_LINES = 4_000
"""Longest texts compared line by line, which takes the square of the lines; longer ones differ in one block."""


@dataclass(frozen=True)
class Part:
    """Piece of a call."""

    label: str
    kind: Literal["text", "json", "argv", "diff"]
    text: str = ""
    words: tuple[str, ...] = ()
    """Program and arguments of a command, one by one; empty for other kinds."""

    @property
    def is_long(self) -> bool:
        """Whether the part is folded if a page can fold it."""
        return len(self.text) > LONG_CHARS or self.text.count("\n") > LONG_LINES or len(self.words) > LONG_LINES

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Lines of a diff, each as its effect (`add`, `del`, `at` or nothing) and its text."""
        kinds = {"+": "add", "-": "del", "@": "at"}
        lines = self.text.split("\n")
        names = 2 if self.text.startswith("--- ") else 0
        return [("at" if number < names else kinds.get(line[:1], ""), line) for number, line in enumerate(lines)]


def parts_of(question: Question) -> list[Part]:
    """Return the whole call, in parts."""
    request = question.request
    parts = [part for use in request.capabilities for part in _of_use(use.payload)]
    texts = {value for use in request.capabilities for value in use.payload.values() if isinstance(value, str)}
    if request.diff and request.diff not in texts and not only_adds(request.diff):
        parts.append(Part("Changes", "diff", request.diff.rstrip("\n")))
    parts += [_part(name, value) for name, value in request.args.items()]
    shown = {_same(value) for value in (request.args, *request.args.values())}
    for use in request.capabilities:
        rest = {name: value for name, value in use.payload.items() if name != "argv" and _same(value) not in shown}
        parts += [_part(f"{use.name}: {name}", value) for name, value in rest.items()]
    return parts


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Part]:
    """Return the differences between two sets of arguments, a part for each argument that differs."""
    parts: list[Part] = []
    for name in dict.fromkeys((*before, *after)):
        old, new = _lines(before, name), _lines(after, name)
        if name not in after:
            lines = [*(f"-{line}" for line in old), " (left out)"]
        elif name not in before:
            lines = [f"+{line}" for line in new]
        elif _same(before[name]) == _same(after[name]):
            continue
        else:
            # Only the kind of the value can differ where no line of it does.
            lines = _changed_lines(old, new) or [_kind(before[name], after[name])]
        parts.append(Part(name, "diff", "\n".join(lines)))
    return parts


def _of_use(payload: Mapping[str, Any]) -> Iterator[Part]:
    argv = payload.get("argv")
    if isinstance(argv, list | tuple):
        yield Part("Command, word by word", "argv", words=tuple(str(word) for word in cast("list[Any]", argv)))


def _part(label: str, value: Any) -> Part:
    if isinstance(value, str):
        return Part(label, "text", value)
    line = json.dumps(value, ensure_ascii=False)
    return Part(label, "json", line if len(line) <= LINE_CHARS else json.dumps(value, indent=2, ensure_ascii=False))


def _lines(args: Mapping[str, Any], name: str) -> list[str]:
    value = args.get(name)
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return text.split("\n")


def _changed_lines(old: list[str], new: list[str]) -> list[str]:
    if len(old) + len(new) <= MAX_COMPARED_LINES:
        return list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
    shortest = min(len(old), len(new))
    start = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    end = next((i for i in range(shortest - start) if old[-1 - i] != new[-1 - i]), shortest - start)
    removed, added = old[start : len(old) - end], new[start : len(new) - end]
    return [f"@@ line {start + 1} @@", *(f"-{line}" for line in removed), *(f"+{line}" for line in added)]


def _kind(before: Any, after: Any) -> str:
    return f" ({json.dumps(before, ensure_ascii=False)} becomes {json.dumps(after, ensure_ascii=False)})"


def _same(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def only_adds(diff: str) -> bool:
    """Whether the diff makes a new file, whose whole text stands in the arguments already."""
    # Behind the names, `---` is a line `--` that goes.
    lines = diff.splitlines()
    named = tuple(line[:4] for line in lines[:2]) == _NAMES
    return named and all(line.startswith(("+", "@@", "\\")) for line in lines[2:])


def tells_all(diff: str) -> bool:
    """Whether the diff shows all that changes: it compares two texts, and is not cut."""
    lines = diff.removesuffix("\n").split("\n")
    # A line of a file stands behind one of these signs; words about the diff itself do not.
    return len(lines) > len(_NAMES) and all(line[:1] in _SIGNS for line in lines[len(_NAMES) :])
