"""Ports for health and metrics that somebody else has, or keeps busy."""

from __future__ import annotations

import socket

import pytest

from llm_do_temporal.errors import UsageError
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import held_port
from worker_service import health
from worker_service.health import Progress, health_server
from worker_service.metrics import install_runtime


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
