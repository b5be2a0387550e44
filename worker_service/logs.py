"""Log lines: for people, or one JSON object each."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from llm_do_temporal.definitions.tools.authors_code import own_words
from llm_do_temporal.messages.sizes import LOG_CHARS
from llm_do_temporal.redaction.configured_keys import guard_process
from llm_do_temporal.redaction.hidden_characters import cut, made_visible

_OWN = ("llm_do_temporal", "worker_service", "temporalio")
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_CONTEXT = ("temporal_workflow", "temporal_activity")
"""Attributes of a log record that hold the SDK's facts about workflow and activity."""


def begin_logging(log_format: Literal["text", "json"], level: str) -> None:
    """Log to stderr from here on, without the values of keys."""
    guard_process()
    handler = _Lines()
    handler.setFormatter(JsonLines() if log_format == "json" else PlainLines(_TEXT))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for library in ("httpx", "httpx2"):
        logging.getLogger(library).setLevel(logging.WARNING)


class _Lines(logging.StreamHandler[TextIO]):
    """Handler whose own lines are not bounded with the output of a call of other people's code, in which they come."""

    def emit(self, record: logging.LogRecord) -> None:
        """See StreamHandler."""
        with own_words() if record.name.startswith(_OWN) else nullcontext():
            super().emit(record)


class PlainLines(logging.Formatter):
    """Formats a record for people: one line, with hidden characters written out, and a traceback below it.

    Message and traceback have at most `LOG_CHARS` characters each.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See Formatter."""
        line = logging.makeLogRecord(record.__dict__)
        line.msg, line.args = _shown(record.getMessage(), keep=""), ()
        if line.exc_info and not line.exc_text:
            line.exc_text = self.formatException(line.exc_info)
        if line.exc_text:
            line.exc_text = _shown_end(line.exc_text)
        return super().format(line)


class JsonLines(logging.Formatter):
    """Formats a record as JSON: `ts`, `level`, `logger`, `message`, Temporal's facts about the place, `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """See Formatter."""
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _shown(record.getMessage(), keep="\n"),
        }
        for name in _CONTEXT:
            line |= getattr(record, name, None) or {}
        if record.exc_info or record.exc_text:
            error = record.exc_text or self.formatException(record.exc_info or (None, None, None))
            line["error"] = _shown_end(error)
        return json.dumps(line, default=str)


def _shown(text: str, keep: str) -> str:
    return cut(made_visible(cut(text, LOG_CHARS), keep), LOG_CHARS)


def _shown_end(trace: str) -> str:
    """Return the end of a traceback, where the error itself stands."""
    return made_visible(trace[-LOG_CHARS:], keep="\n\t")[-LOG_CHARS:]
