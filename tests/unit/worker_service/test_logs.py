"""Log lines as JSON."""

from __future__ import annotations

import json
import logging
import sys

from llm_do_temporal.messages.sizes import LOG_CHARS
from worker_service.logs import JsonLines, PlainLines


def test_a_line_is_one_object_with_what_temporal_knows_and_the_error() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("a.b", logging.WARNING, __file__, 1, "it %s\nhere", ("failed",), sys.exc_info())
    record.temporal_activity = {"workflow_id": "job/main", "attempt": 2}
    text = JsonLines().format(record)
    line = json.loads(text)
    assert "\n" not in text
    assert (line["level"], line["logger"], line["message"]) == ("warning", "a.b", "it failed\nhere")
    assert (line["workflow_id"], line["attempt"]) == ("job/main", 2)
    assert "ValueError: two" in line["error"]
    assert line["ts"].endswith("+00:00")


def _record(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("a.b", logging.WARNING, __file__, 1, message, args, None)


def test_a_line_for_people_shows_what_would_move_a_cursor_or_begin_a_line() -> None:
    text = PlainLines("%(message)s").format(_record("it said %s", "\x1b[2J\nERROR forged\r\u202e"))
    assert text == "it said \\x1b[2J\\x0aERROR forged\\x0d\\u202e"


def test_lines_and_tracebacks_are_bounded() -> None:
    try:
        raise ValueError("\x1b" + "y" * 10 * LOG_CHARS)
    except ValueError:
        record = logging.LogRecord(
            "a.b", logging.WARNING, __file__, 1, "%s", ("\x1b" * 10 * LOG_CHARS,), sys.exc_info()
        )
    for formatter in (PlainLines("%(message)s"), JsonLines()):
        text = formatter.format(record)
        assert len(text) < 3 * LOG_CHARS
        assert "\x1b" not in text
    assert record.exc_text is None
