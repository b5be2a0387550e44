"""Answers of the server when it has not what it is asked for."""

from __future__ import annotations

import pytest
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.connection.errors import is_missing, translated
from llm_do_temporal.errors import ConnectionFailed, UsageError

ARCHIVE = "Requested workflow history not found, may have passed retention period."


@pytest.mark.parametrize(
    ("message", "status", "missing"),
    [
        ("workflow not found for ID: x", RPCStatusCode.NOT_FOUND, True),
        (ARCHIVE, RPCStatusCode.INVALID_ARGUMENT, True),  # of the production server, whose namespace has no archive
        ("Invalid RunId.", RPCStatusCode.INVALID_ARGUMENT, False),
        ("connection refused", RPCStatusCode.UNAVAILABLE, False),
    ],
)
async def test_missing_is_told_from_wrong(message: str, status: RPCStatusCode, *, missing: bool) -> None:
    error = RPCError(message, status, b"")
    assert is_missing(error) is missing
    with pytest.raises(UsageError if missing else ConnectionFailed):
        async with translated("a-run"):
            raise error
