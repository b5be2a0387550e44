"""Names as people are shown them: two names that differ are never shown as one, and what is shown can be typed back.

A name is shown as it is, or within quotation marks with everything written out that a person would not see, or would
see as something else. Owns the writing and its inverse; called by the terminal, the web page, reports and doors.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from llm_do_temporal.redaction.hidden_characters import hidden_marks, written_out

WRITTEN = re.compile(r'\\(?:[\\"nt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})')
"""Character that is written out in a quoted name."""
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def shown_name(path: str) -> str:
    """Return a path for people, each of its names quoted where it has to be: `files/"a\\u200b.py"`."""
    return "/".join(_quoted(name) if "\\" in name or _is_unclear(name) else name for name in path.split("/"))


def shown_value(text: str) -> str:
    """Return a value on one line for people, quoted where it has to be. Unlike in a name, a backslash may stay."""
    return _quoted(text) if _is_unclear(text) else text


class KnownNames:
    """Paths that a person can name: each by itself, and as it is shown."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        shown = ((shown_name(path), path) for path in self._paths)
        self._by_shown = {name: path for name, path in shown if name != path}

    def meant(self, typed: str) -> list[str]:
        """Return the paths, at most two, that may be meant. After `./` it is the path itself and not what is shown."""
        exact = typed.removeprefix("./")
        found = [one for one in (typed, exact) if one in self._paths]
        if typed in self._by_shown:
            found.append(self._by_shown[typed])
        return list(dict.fromkeys(found))


def _quoted(text: str) -> str:
    """Return the text in quotation marks. A blank is written out at either end and beside another one."""
    is_plain = unicodedata.is_normalized("NFC", text)
    padded = f" {text} "
    parts: list[str] = []
    for at, (char, hidden) in enumerate(hidden_marks(text)):
        is_loose = char.isspace() and (char != " " or " " in (padded[at], padded[at + 2]))
        is_out = hidden or is_loose or (not is_plain and not char.isascii())
        parts.append(_SHORT.get(char) or (written_out(char) if is_out else char))
    return f'"{"".join(parts)}"'


def _is_unclear(text: str) -> bool:
    """Return whether a person could take the text for another one, or not see all of it."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text != text.strip() or text.startswith('"')
    if not unicodedata.is_normalized("NFC", text) or text != text.strip() or text.startswith('"') or "  " in text:
        return True
    return any(hidden or (char.isspace() and char != " ") for char, hidden in hidden_marks(text))
