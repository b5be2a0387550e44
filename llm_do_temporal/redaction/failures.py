"""Failures without keys: no failure of an activity or a workflow carries a configured key into the history.

Owns the cleaning of a failure before it is encoded, and its bounds: message, stack trace, details and causes. An
error that would come again is final. Used by the worker service, beneath whatever else converts failures there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import cast

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter, DefaultFailureConverter, FailureConverter, PayloadConverter
from temporalio.exceptions import ApplicationError, FailureError

from llm_do_temporal.messages.sizes import FAILURE_CHARS, MAX_CAUSES, TRACE_CHARS
from llm_do_temporal.redaction.configured_keys import remove_keys, without_keys
from llm_do_temporal.redaction.hidden_characters import cut, each_text, without_halves

_DETERMINISTIC = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of Python that come again whenever the same work is done."""
_SEARCHED_CHARS = 10 * FAILURE_CHARS
"""Longest beginning of a text in which keys are looked for; no more than a part of it is kept."""


class KeylessFailures(DefaultFailureConverter):
    """Mixin for a converter of failures: cleans every failure that the converter makes."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See FailureConverter."""
        try:
            super().to_failure(exception, payload_converter, failure)
        except UnicodeEncodeError:
            failure.Clear()
            super().to_failure(_sendable(exception), payload_converter, failure)
        if isinstance(exception, _DETERMINISTIC):
            failure.application_failure_info.non_retryable = True
        clean_failure(failure)


def _sendable(exception: BaseException) -> ApplicationError:
    """Return an error whose words had half characters as one that can be sent, without its causes."""
    if isinstance(exception, ApplicationError):
        return ApplicationError(
            without_halves(exception.message),
            *(each_text(detail, without_halves) for detail in exception.details),
            type=exception.type,
            non_retryable=exception.non_retryable,
            next_retry_delay=exception.next_retry_delay,
            category=exception.category,
        )
    words = exception.message if isinstance(exception, FailureError) else str(exception)
    return ApplicationError(without_halves(words), type=type(exception).__name__)


def keyless(converter: DataConverter) -> DataConverter:
    """Return the converter with failures without keys; a converter with failures of its own kind stays as it is."""
    return replace(converter, failure_converter_class=_keyless_kind(converter.failure_converter_class))


@cache
def _keyless_kind(kind: type[FailureConverter]) -> type[FailureConverter]:
    if issubclass(kind, KeylessFailures) or not issubclass(kind, DefaultFailureConverter):
        return kind
    return cast("type[FailureConverter]", type(f"Keyless{kind.__name__}", (KeylessFailures, kind), {}))


def clean_failure(failure: Failure) -> None:
    """Take the values of keys out of a failure and of its causes, and cut what is too long for a history."""
    left = MAX_CAUSES
    while True:
        failure.message = cut(remove_keys(failure.message[:_SEARCHED_CHARS]), FAILURE_CHARS)
        failure.stack_trace = remove_keys(failure.stack_trace[-_SEARCHED_CHARS:])[-TRACE_CHARS:]
        for payload in _payloads(failure):
            _clean(payload)
        if not failure.HasField("cause"):
            return
        if not left:
            failure.ClearField("cause")
            return
        failure, left = failure.cause, left - 1


def _payloads(failure: Failure) -> Iterator[Payload]:
    if failure.HasField("encoded_attributes"):
        yield failure.encoded_attributes
    yield from failure.application_failure_info.details.payloads
    yield from failure.canceled_failure_info.details.payloads
    yield from failure.timeout_failure_info.last_heartbeat_details.payloads
    yield from failure.reset_workflow_failure_info.last_heartbeat_details.payloads


def _clean(payload: Payload) -> None:
    if not payload.metadata.get("encoding", b"").startswith(b"json/"):
        return
    text = payload.data.decode(errors="surrogateescape")
    if len(text) <= FAILURE_CHARS and remove_keys(text) == text:
        return
    # Value by value: what is left of an escape sequence would make the whole unreadable.
    cleaned = without_keys(each_text(json.loads(text), lambda one: one[:_SEARCHED_CHARS]))
    payload.data = json.dumps(each_text(cleaned, lambda one: cut(one, FAILURE_CHARS)), separators=(",", ":")).encode()
