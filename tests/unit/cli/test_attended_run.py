"""Errors of the server while a run is being watched."""

from __future__ import annotations

import pytest
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.cli.terminal.attend import ConnectionLost, explained
from llm_do_temporal.errors import ConnectionFailed, UsageError


@pytest.mark.parametrize(
    ("message", "status", "kind", "words"),
    [
        ("workflow not found for ID: job", RPCStatusCode.NOT_FOUND, UsageError, "run 'job' is no longer on the server"),
        (  # of the production server, whose namespace has no archive
            "Requested workflow history not found, may have passed retention period.",
            RPCStatusCode.INVALID_ARGUMENT,
            UsageError,
            "run 'job' is no longer on the server",
        ),
        ("connection refused", RPCStatusCode.UNAVAILABLE, ConnectionLost, "connection refused"),
        ("Invalid RunId.", RPCStatusCode.INVALID_ARGUMENT, ConnectionFailed, "refused: Invalid RunId."),
    ],
)
def test_a_run_that_is_gone_is_told_from_a_server_that_is_gone(
    message: str, status: RPCStatusCode, kind: type[Exception], words: str
) -> None:
    error = explained(RPCError(message, status, b""), "job")
    assert type(error) is kind
    assert words in str(error)
