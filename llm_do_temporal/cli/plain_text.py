"""Text that a model wrote, made safe to show: a terminal obeys control characters, a person cannot see some others.

Called by everything here that prints. Must not change text that goes to a file or a pipe.
"""

from __future__ import annotations

import sys
import unicodedata

PROGRAM = "llm-do-temporal"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder what is read, or show nothing at all."""


def visible_block(text: str) -> str:
    """Several lines of text, with everything but line ends and tabs that a person would not see written out."""
    return "".join(_shown(char) for char in text.replace("\r\n", "\n").expandtabs(4))


def visible_line(text: str, limit: int = 2_000) -> str:
    """Text on one line: line ends are written out too; past `limit` characters it is cut."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join("\\n" if char == "\n" else "\\t" if char == "\t" else _shown(char) for char in cut)


def say(text: str) -> None:
    """Tell the person something, on stderr."""
    print(visible_block(text), file=sys.stderr, flush=True)


def _shown(char: str) -> str:
    if char == "\n" or unicodedata.category(char) not in _HIDDEN:
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
