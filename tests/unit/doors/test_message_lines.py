"""Lines of a stream that comes in pieces, of which none may be too long."""

from __future__ import annotations

import pytest

from llm_do_temporal.doors import message_lines
from llm_do_temporal.doors.message_lines import BoundedLines

STREAMS: list[tuple[bytes, list[bytes], int]] = [
    (b"", [], 0),
    (b"a\n", [b"a\n"], 0),
    (b"a\n\nb", [b"a\n", b"b"], 0),
    (b"\n" * 50 + b"a\n \r\n" + b"\n" * 50 + b"b", [b"a\n", b"b"], 0),
    (b"1234567\n", [b"1234567\n"], 0),
    (b"12345678\nb\n", [b"b\n"], 1),
    (b"12345678", [b"12345678"], 0),
    (b"123456789", [], 1),
    (b"x" * 100 + b"\na\n", [b"a\n"], 1),
    (b"x" * 100, [], 1),
    (b"x" * 100 + b"\n" + b"y" * 9 + b"\na\n" + b"z" * 9, [b"a\n"], 3),
]


@pytest.mark.parametrize("piece", [1, 2, 3, 8, 9, 1_000])
@pytest.mark.parametrize(("stream", "lines", "refused"), STREAMS)
async def test_each_line_too_long_is_refused_once_and_those_around_it_are_whole(
    monkeypatch: pytest.MonkeyPatch, stream: bytes, lines: list[bytes], refused: int, piece: int
) -> None:
    monkeypatch.setattr(message_lines, "MAX_LINE_BYTES", 8)
    left, refusals = bytearray(stream), list[bytes]()

    async def read(_most: int) -> bytes:
        got = bytes(left[:piece])
        del left[:piece]
        return got

    async def refuse() -> None:
        refusals.append(bytes(left))

    assert [line async for line in BoundedLines(read, refuse)] == lines
    assert len(refusals) == refused
