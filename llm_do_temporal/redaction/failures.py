"""Failures without keys: no failure of an activity or a workflow carries a configured key into the history.

Owns the cleaning of a failure before it is encoded: message, stack trace, details and causes. Used by the worker
service, beneath whatever else converts failures there.
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

from llm_do_temporal.redaction.configured_keys import remove_keys, without_keys


class KeylessFailures(DefaultFailureConverter):
    """Mixin for a converter of failures: cleans every failure that the converter makes."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See FailureConverter."""
        super().to_failure(exception, payload_converter, failure)
        clean_failure(failure)


def keyless(converter: DataConverter) -> DataConverter:
    """Return the converter with failures without keys; a converter with failures of its own kind stays as it is."""
    return replace(converter, failure_converter_class=_keyless_kind(converter.failure_converter_class))


@cache
def _keyless_kind(kind: type[FailureConverter]) -> type[FailureConverter]:
    if issubclass(kind, KeylessFailures) or not issubclass(kind, DefaultFailureConverter):
        return kind
    return cast("type[FailureConverter]", type(f"Keyless{kind.__name__}", (KeylessFailures, kind), {}))


def clean_failure(failure: Failure) -> None:
    """Take the values of keys out of a failure and of its causes."""
    failure.message = remove_keys(failure.message)
    failure.stack_trace = remove_keys(failure.stack_trace)
    for payload in _payloads(failure):
        _clean(payload)
    if failure.HasField("cause"):
        clean_failure(failure.cause)


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
    if remove_keys(text) == text:
        return
    # Value by value: what is left of an escape sequence would make the whole unreadable.
    payload.data = json.dumps(without_keys(json.loads(text)), separators=(",", ":")).encode()
