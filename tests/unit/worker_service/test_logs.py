"""Log lines as JSON."""

from __future__ import annotations

import json
import logging
import sys

from worker_service.logs import JsonLines


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
