"""Events of a streamed answer, read as the standard of server-sent events says, for all adapters alike.

Lines end with CR LF, CR or LF and with nothing else, the text is UTF-8, and comments and events without data are
nothing. Called by the repairs of answers, which write each event anew: client libraries read lines in ways of their
own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\r|\n")
_ALSO_LINE_ENDS = {"\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029", "\u0085".encode(): b"\\u0085"}
"""Characters at which Python ends lines and neither JSON nor a stream does, with their escapes in JSON."""


@dataclass(frozen=True)
class ServerEvent:
    """Event with data; `name` is empty for an event without one."""

    name: bytes
    data: bytes

    def written(self) -> bytes:
        """Return the event in lines that every library reads alike."""
        lines = [b"data: " + line for line in with_escaped_line_ends(self.data).split(b"\n")]
        return b"\n".join([b"event: " + self.name, *lines] if self.name else lines) + b"\n\n"


class EventReader:
    """Reader of one stream, piece by piece."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        """Pieces of the line that has no end yet."""
        self._after_cr = False
        self._name = b""
        self._data: list[bytes] = []
        self._is_json = False
        """Whether the rest is bare JSON: an answer in one piece, or an error, in a body that calls itself a stream."""

    def read(self, piece: bytes) -> Iterator[ServerEvent | bytes]:
        """Yield the events that end in a piece; bare JSON comes as bytes, with its lines as they are."""
        if self._after_cr:
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r") or (self._after_cr and not piece)
        first, *others = _LINE_END.split(piece)
        self._line.append(first)
        for other in others:
            yield from self._take(b"".join(self._line))
            self._line = [other]

    def rest(self) -> Iterator[ServerEvent | bytes]:
        """Yield what the end of the stream leaves without an empty line behind it."""
        yield from self._take(b"".join(self._line))
        yield from self._event()

    def _take(self, line: bytes) -> Iterator[ServerEvent | bytes]:
        self._is_json = self._is_json or line.lstrip()[:1] in (b"{", b"[")
        if self._is_json:
            yield from self._event()
            yield line + b"\n"
            return
        field, _, value = line.partition(b":")
        if not line:
            yield from self._event()
        elif field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == b"data":
            self._data.append(value.removeprefix(b" "))

    def _event(self) -> Iterator[ServerEvent]:
        data, name = b"\n".join(self._data), self._name
        self._data, self._name = [], b""
        if data.strip():
            yield ServerEvent(name, in_utf8(data))


def in_utf8(data: bytes) -> bytes:
    """Return a text in UTF-8, with U+FFFD in the place of what is none."""
    return data.decode("utf-8", "replace").encode()


def with_escaped_line_ends(data: bytes) -> bytes:
    """Return JSON without the characters that a library takes for the end of a line."""
    for character, escape in _ALSO_LINE_ENDS.items():
        data = data.replace(character, escape)
    return data
