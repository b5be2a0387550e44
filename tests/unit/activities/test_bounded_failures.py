"""Failures as the service sends them: bounded, sendable, and final where the error would come again."""

from __future__ import annotations

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import Key, KeyRing
from llm_do_temporal.messages.sizes import FAILURE_CHARS, MAX_CAUSES, TRACE_CHARS
from llm_do_temporal.redaction.failures import keyless

HALF = "\ud800"
LONG = "x" * 1_000_000


def sent(error: BaseException, converter: DataConverter | None = None) -> Failure:
    whole = keyless(converter or DataConverter.default)
    failure = Failure()
    whole.failure_converter.to_failure(error, whole.payload_converter, failure)
    return failure


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def deep(depth: int) -> None:
    if depth:
        deep(depth - 1)
    raise ValueError(LONG)


def test_messages_details_causes_and_traces_are_bounded() -> None:
    error = raised(ApplicationError(LONG, {"message": LONG, "more": [LONG]}, type="X"))
    for _ in range(3 * MAX_CAUSES):
        error = raised(ValueError(LONG), error)
    failure = sent(error)
    assert failure.ByteSize() < 10 * (FAILURE_CHARS + TRACE_CHARS)
    assert len(failure.message) == FAILURE_CHARS
    assert failure.message.endswith("characters)")
    details = sent(ApplicationError("no", {"message": LONG, "more": [LONG]}))
    assert details.ByteSize() < 3 * FAILURE_CHARS
    assert DataConverter.default.payload_converter.from_payloads(details.application_failure_info.details.payloads)


def test_a_deep_trace_is_bounded_at_its_end() -> None:
    with pytest.raises(ValueError, match="x") as caught:
        deep(300)
    trace = sent(caught.value).stack_trace
    assert len(trace) <= TRACE_CHARS
    assert "raise ValueError(LONG)" in trace


@pytest.mark.parametrize("error", [ValueError(HALF), ApplicationError(HALF, {"message": HALF}, type="X")])
def test_a_failure_with_half_a_character_is_sent(error: BaseException) -> None:
    failure = sent(error)
    assert failure.message == "\\ud800"
    assert failure.SerializeToString()


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (OverflowError("int too large"), True),
        (ZeroDivisionError(), True),
        (TypeError("no"), True),
        (KeyError("no"), True),
        (RecursionError("deep"), True),
        (OSError("busy"), False),
        (ConnectionResetError(), False),
        (RuntimeError("who knows"), False),
        (ApplicationError("no"), False),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, BaseException) else str(one),
)
def test_an_error_that_would_come_again_is_final(error: BaseException, final: bool) -> None:
    assert sent(error).application_failure_info.non_retryable is final


def test_an_encrypted_failure_is_bounded_too() -> None:
    assert (
        sent(ValueError(LONG), encrypting(DataConverter.default, KeyRing.of(Key("k", bytes(32))))).ByteSize()
        < 3 * FAILURE_CHARS
    )
