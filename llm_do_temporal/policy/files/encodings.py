"""Encodings of texts: a byte order mark names one, and any other text is UTF-8."""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks, the longer ones first, with the encodings that read and drop them."""
CONVERT_STEP = "Convert it to UTF-8, for example with: iconv -f WINDOWS-1252 -t UTF-8"


def encoding_of(data: bytes) -> str:
    """Return the encoding that a byte order mark names, or UTF-8."""
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), "utf-8")


def has_mark(data: bytes) -> bool:
    """Return whether a text begins with a byte order mark."""
    return data.startswith(tuple(mark for mark, _ in _MARKS))


def decoded(data: bytes) -> str:
    """Return a text without its byte order mark. Raises UnicodeDecodeError."""
    return data.decode(encoding_of(data))


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
