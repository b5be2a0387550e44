"""Characters that a person would not see as they are, written out.

Some move a terminal's cursor, some reorder what is read, some show nothing at all. Text that a model wrote may use
them to look like something else. Owns the list of them; called by the doors, the terminal and the web page.
"""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder what is read, or show nothing at all."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Letters, marks and symbols that are drawn as nothing."""


def is_hidden(char: str) -> bool:
    """Whether a person would not see this character written out. A line end counts; emoji variants do not."""
    return unicodedata.category(char) in _HIDDEN or char in _BLANK or "\U000e0100" <= char <= "\U000e01ef"


def written_out(char: str) -> str:
    """The code of a character as a Python string would have it: `\\x1b`, `\\u202e`, `\\U000e0041`."""
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
