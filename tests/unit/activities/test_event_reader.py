"""Server-sent events, however a connection cuts them."""

from __future__ import annotations

import pytest

from llm_do_temporal.activities.models.server_events import EventReader, ServerEvent

STREAM = 'event: a\ndata: {"x":\ndata:  "é"}\n\n: ping\n\ndata:\n\nid: 1\ndata: [DONE]\n\nevent: b\ndata: last'
EVENTS = [
    ServerEvent(b"a", '{"x":\n "é"}'.encode()),
    ServerEvent(b"", b"[DONE]"),
    ServerEvent(b"b", b"last"),
]


def read(*pieces: bytes) -> list[ServerEvent | bytes]:
    reader = EventReader()
    return [*(event for piece in pieces for event in reader.read(piece)), *reader.rest()]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_events_are_the_same_wherever_a_stream_is_cut(end: str) -> None:
    data = STREAM.replace("\n", end).encode()
    cuts = [(data[:at], data[at:]) for at in range(len(data))]
    single = tuple(data[at : at + 1] for at in range(len(data)))
    with_nothing = tuple(piece for one in single for piece in (one, b""))
    assert [read(*pieces) for pieces in (*cuts, single, with_nothing)] == [EVENTS] * (len(cuts) + 2)


def test_an_event_comes_with_its_empty_line_and_not_later() -> None:
    reader = EventReader()
    assert list(reader.read(b"data: 1\r\r")) == [ServerEvent(b"", b"1")]
    assert list(reader.read(b"\ndata: 2\n\n")) == [ServerEvent(b"", b"2")]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert read(b'data: "a\xff\xc3"\n\n') == [ServerEvent(b"", '"a\ufffd\ufffd"'.encode())]


def test_bare_json_is_passed_on_behind_the_events_before_it() -> None:
    assert read(b'data: 1\n{"error":\r\n {"code": 503}}\n') == [
        ServerEvent(b"", b"1"),
        b'{"error":\n',
        b' {"code": 503}}\n',
        b"\n",
    ]


def test_lines_that_belong_to_no_event_are_nothing() -> None:
    assert read(b"ping\n\nretry: 10\n\nx: {}\n\n") == []


def test_a_written_event_has_no_line_end_that_only_some_libraries_know() -> None:
    event = ServerEvent(b"a", '"\u2028\u2029\u0085"'.encode())
    assert event.written() == b'event: a\ndata: "\\u2028\\u2029\\u0085"\n\n'
