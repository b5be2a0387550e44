"""Texts of files: their encodings, and the replacement of one piece whatever line ends the text and the piece have.

A byte order mark names an encoding, and any other text is UTF-8. A model writes LF, and a file may have CRLF, CR or a
mix. Pure.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks, the longer ones first, with the encodings that read and drop them."""


class NotText(ValueError):
    """Bytes are no text in the encoding that they name."""

    def __init__(self, message: str, encoding: str) -> None:
        """`encoding` is a guess of the one that they are in, for advice."""
        super().__init__(message)
        self.next_step = f"Convert it to UTF-8, for example with: iconv -f {encoding} -t UTF-8."


def whole_characters(text: str) -> str:
    """Return the text with halves of characters joined, or replaced by U+FFFD where the other half is missing."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encoding_of(data: bytes) -> str:
    """Return the encoding that a byte order mark names, or UTF-8."""
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), "utf-8")


def has_mark(data: bytes) -> bool:
    """Return whether a text begins with a byte order mark."""
    return data.startswith(tuple(mark for mark, _ in _MARKS))


def decoded(data: bytes) -> str:
    """Return a text without its byte order mark. Raises UnicodeDecodeError."""
    return data.decode(encoding_of(data))


def given_text(data: bytes) -> str:
    """Return a text that somebody gives, without its byte order mark. Raises NotText, also for one with a NUL."""
    try:
        text = decoded(data)
    except UnicodeDecodeError as error:
        raise NotText(f"it is not UTF-8 text ({wrong_place(error)})", "WINDOWS-1252") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise NotText(
            f"it is not UTF-8 text (line {line} has a NUL character, as UTF-16 without a byte order mark has)",
            "UTF-16LE",
        )
    return text


def readable(data: bytes) -> tuple[str, str]:
    """Return a file as text, and what was lost on the way in words; empty: nothing."""
    encoding = encoding_of(data)
    text = data.decode(encoding, errors="replace")
    unreadable = text.count("\ufffd") - (data.count("\ufffd".encode()) if encoding.startswith("utf-8") else 0)
    nulls = text.count("\0")
    if unreadable > 0:
        lost = f"not all of it is text in UTF-8: {unreadable} places are shown as \ufffd"
    elif nulls:
        lost = f"{nulls} NUL characters are left out: it may be UTF-16 without a byte order mark"
    else:
        lost = ""
    return text.replace("\0", ""), lost


def wrong_place(error: UnicodeDecodeError) -> str:
    """Return the line and the byte at which a text could not be decoded, in words."""
    line = error.object.count(b"\n", 0, error.start) + 1
    return f"line {line} has the byte 0x{error.object[error.start]:02x}"


_BREAK = re.compile(r"\r\n|\r|\n")


def replaced(text: str, old: str, new: str) -> tuple[int, str]:
    """Return how often `old` occurs, and the text with `new` in its place where that is once, else the text as it is.

    What is written with CR and occurs so is replaced as written. Otherwise any line end equals any other, and `new`
    gets the line ends of what it replaces, in their order; further ones are like the last, or like that of the line.
    """
    if "\r" in old + new and _occurrences(text, old) == 1:
        return 1, text.replace(old, new, 1)
    plain, plain_old = _plain(text), _plain(old)
    if (count := _occurrences(plain, plain_old)) != 1:
        return count, text
    offset = plain.index(plain_old)
    start, end = _offset(text, offset), _offset(text, offset + len(plain_old))
    near = _BREAK.search(text, end) or _BREAK.search(text)
    ends = _BREAK.findall(text, start, end) or [near.group() if near else "\n"]
    return 1, text[:start] + _with_ends(new, ends) + text[end:]


def is_replaced(text: str, old: str, new: str) -> bool:
    """Return whether the text has `new` already, where `old` was once. Line ends count only where all else is equal."""
    if _plain(old) != _plain(new):
        text, old, new = _plain(text), _plain(old), _plain(new)
    if not new:
        return old not in text
    return _occurrences(text, new) == 1 and old not in text.replace(new, "\0")


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _offset(text: str, plain: int) -> int:
    """Return the offset in a text of what has the offset `plain` once each line end is one character."""
    return bisect_right(range(len(text) + 1), plain, key=lambda end: end - text.count("\r\n", 0, end)) - 1


def _with_ends(text: str, ends: list[str]) -> str:
    """Return the text with these line ends in their order; the last one stands for all further ones."""
    first, *lines = _plain(text).split("\n")
    return first + "".join(ends[min(number, len(ends) - 1)] + line for number, line in enumerate(lines))


def _occurrences(text: str, part: str) -> int:
    """Count how often `part` occurs; one that overlaps itself counts as more than once."""
    count = text.count(part)
    if count == 1 and text.find(part, text.find(part) + 1) >= 0:
        return 2
    return count
