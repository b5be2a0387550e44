"""Log lines: for people, or one JSON object each."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal

from llm_do_temporal.redaction.configured_keys import guard_process

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_CONTEXT = ("temporal_workflow", "temporal_activity")
"""Attributes of a log record that hold the SDK's facts about workflow and activity."""


def begin_logging(log_format: Literal["text", "json"], level: str) -> None:
    """Log to stderr from here on, without the values of keys."""
    guard_process()
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for library in ("httpx", "httpx2"):
        logging.getLogger(library).setLevel(logging.WARNING)


class JsonLines(logging.Formatter):
    """Formats a record as JSON: `ts`, `level`, `logger`, `message`, Temporal's facts about the place, `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """See Formatter."""
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in _CONTEXT:
            line |= getattr(record, name, None) or {}
        if record.exc_info or record.exc_text:
            line["error"] = record.exc_text or self.formatException(record.exc_info or (None, None, None))
        return json.dumps(line, default=str)
