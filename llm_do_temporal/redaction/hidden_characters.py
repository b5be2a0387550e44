"""Hidden characters, written out: those that a person would not see as they are.

Some move a terminal's cursor, some reorder the text on the screen, some show nothing at all. Text that a model wrote
may use them to look like something else. Owns the list of them; called by the doors, the terminal and the web page.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder the text on the screen, or show nothing at all."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Letters, marks and symbols that are drawn as nothing."""

_ADVICE = re.compile(r"\s*For further information visit https://errors\.pydantic\.dev\S*")
_STYLES = "\ufe0e\ufe0f"
"""Selectors that choose whether an emoji is drawn in black or in colours."""
_BASES = frozenset(
    "\u203c\u2049\u2139\u3030\u303d\u2934\u2935\u25fb\u25fc\u25fd\u25fe\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
)
"""Emoji that are no symbols of Unicode's category `So`; all arrows are, besides."""


def is_hidden(char: str, before: str = "") -> bool:
    """Return whether a person would not see this character, after the character `before` ("" for none).

    A line end counts. The style of an emoji does not, directly after what may be one.
    """
    if unicodedata.category(char) in _HIDDEN or char in _BLANK or "\U000e0100" <= char <= "\U000e01ef":
        return True
    return "\ufe00" <= char <= "\ufe0f" and not (char in _STYLES and _is_emoji(before))


def hidden_marks(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each character with whether it is hidden where it stands."""
    before = ""
    for at, char in enumerate(text):
        is_keycap = char == "\ufe0f" and before in tuple("0123456789#*") and text[at + 1 : at + 2] == "\u20e3"
        yield char, is_hidden(char, before) and not is_keycap
        before = char


def made_visible(text: str, keep: str = "\n") -> str:
    """Return the text with every hidden character written out, but those to keep."""
    return "".join(written_out(char) if hidden and char not in keep else char for char, hidden in hidden_marks(text))


def cut(text: str, most: int) -> str:
    """Return the text with at most `most` characters: of a longer one the beginning, and its length."""
    if len(text) <= most:
        return text
    end = f"… ({len(text)} characters)"
    return text[: max(0, most - len(end))] + end


def without_advice(text: str) -> str:
    """Return the text without a library's pointers to its own documentation, in which nobody finds what went wrong."""
    return _ADVICE.sub("", text)


def without_halves(text: str) -> str:
    """Return the text with the half characters written out, which no protocol carries."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _is_emoji(char: str) -> bool:
    if not char or char in _BLANK:
        return False
    return unicodedata.category(char) == "So" or char in _BASES or "\u2190" <= char <= "\u21ff"


def written_out(char: str) -> str:
    """Return the code of a character as a Python string would have it: `\\x1b`, `\\u202e`, `\\U000e0041`."""
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
