"""Log lines, ports for health and metrics, and how many approvals wait as a service counts them."""

from __future__ import annotations

import json
import logging
import socket
import sys
from datetime import UTC, datetime
from typing import cast

import pytest
from temporalio.client import Client

from llm_do_temporal.encryption.keys import Key
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.runs import PendingApprovalMemo
from llm_do_temporal.messages.sizes import LOG_CHARS
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import held_port
from tests.support.runs.list_server import KEY, ListServer
from worker_service import health
from worker_service.health import Progress, health_server
from worker_service.logs import JsonLines, PlainLines
from worker_service.metrics import UNKNOWN, count_pending, install_runtime, pause_after


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


async def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        with pytest.raises(UsageError, match=f"metrics cannot be served at 127.0.0.1:{port}: "):
            install_runtime("127.0.0.1", port)
        with (
            pytest.raises(UsageError, match=f"health cannot be served at 127.0.0.1:{port}: "),
            health_server("127.0.0.1", port, Progress()),
        ):
            pass


async def test_who_connects_and_says_nothing_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ANSWER_SECONDS", 0.05)
    with (
        held_port() as port,
        health_server("127.0.0.1", port, Progress()),
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as silent,
    ):
        assert silent.recv(1) == b""


def question(worker: str) -> PendingApprovalMemo:
    """An entry of the memo, of a worker that a model made."""
    return PendingApprovalMemo(
        id=worker,
        invocation="job/main",
        key="1",
        worker=worker,
        path="main",
        tool="t",
        summary="s",
        asked_at=datetime(2026, 1, 1, tzinfo=UTC),
        generated=True,
        model="m",
    )


@pytest.mark.parametrize(
    ("keys", "counted"), [([], ("boss", UNKNOWN)), ([KEY], ("workers/generated", "m"))], ids=["hidden", "made"]
)
async def test_what_cannot_be_read_or_was_named_by_a_model_is_counted_under_a_name_that_is_known(
    keys: list[Key], counted: tuple[str, str]
) -> None:
    server = ListServer(keys)
    await server.put("job", [question(name) for name in ("helper-1", "helper-2")])
    assert await count_pending(cast("Client", server)) == {counted: 2}


@pytest.mark.parametrize(("took", "pause"), [(0.0, 15.0), (0.5, 15.0), (0.75, 15.0), (3.0, 60.0), (30.0, 300.0)])
def test_counting_that_takes_long_is_done_less_often(took: float, pause: float) -> None:
    assert pause_after(took) == pause
