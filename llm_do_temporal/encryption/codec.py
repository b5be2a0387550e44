"""Payloads, encrypted on their way to Temporal and opened on their way back.

AES-256-GCM with a random nonce of 96 bits; the id of the key stands beside the payload. On the way back a payload that
is not encrypted passes as it is: values of before, and signals from a plain client. Owns the format of encrypted
payloads and of failures that are to be encrypted.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadCodec,
    PayloadConverter,
)
from temporalio.exceptions import ActivityError, ApplicationError

from llm_do_temporal.encryption.keys import KeyRing, key_ring, wrong_key
from llm_do_temporal.errors import KeyMismatch

ENCODING = b"binary/encrypted"
"""Encoding in the metadata of encrypted payloads, here and in Temporal's own samples."""
KEY_ID = "encryption-key-id"
NONCE_BYTES = 12


class EncryptionCodec(PayloadCodec):
    """Encrypts payloads with the first key of a ring, and opens them with whichever was used."""

    def __init__(self, ring: KeyRing) -> None:
        self.ring = ring
        self._passes: Callable[[Payload], bool] = lambda _payload: False

    def without(self, passes: Callable[[Payload], bool]) -> Self:
        """Return a copy of this codec whose `encode` leaves the payloads open for which `passes` is true.

        Only for payloads that never reach Temporal as they are, because the next step replaces them, and for those
        that hold nothing secret.
        """
        other = copy.copy(self)
        other._passes = passes
        return other

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See PayloadCodec."""
        return [payload if self._passes(payload) else self.encrypted(payload) for payload in payloads]

    def encrypted(self, payload: Payload) -> Payload:
        """Return the payload encrypted with the first key, whichever payload it is; as it is without any key."""
        key = self.ring.first
        if key is None:
            return payload
        nonce = os.urandom(NONCE_BYTES)
        data = AESGCM(key.for_payloads).encrypt(nonce, payload.SerializeToString(), key.id.encode())
        return Payload(metadata={"encoding": ENCODING, KEY_ID: key.id.encode()}, data=nonce + data)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See PayloadCodec. Raises KeyMismatch."""
        return [self.opened(payload) for payload in payloads]

    def opened(self, payload: Payload) -> Payload:
        """Return the payload in an encrypted one; any other as it is. Raises KeyMismatch."""
        if not is_encrypted(payload):
            return payload
        key_id = payload.metadata.get(KEY_ID, b"").decode(errors="replace")
        nonce, data = payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:]
        for key in self.ring.find(key_id):
            with suppress(InvalidTag, ValueError, DecodeError):
                return Payload.FromString(AESGCM(key.for_payloads).decrypt(nonce, data, key.id.encode()))
        raise wrong_key(key_id)


def is_encrypted(payload: Payload) -> bool:
    """Whether the payload is an encrypted one."""
    return payload.metadata.get("encoding") == ENCODING


def lacks_key(error: BaseException | None) -> bool:
    """Whether this error, or what caused it, is that a key is missing or wrong; on either side of Temporal."""
    while error is not None:
        if isinstance(error, KeyMismatch):
            return True
        if isinstance(error, ApplicationError) and error.type == KeyMismatch.__name__:
            return True
        error = error.__cause__
    return False


def could_not_read(error: ActivityError) -> bool:
    """Return whether an activity failed before it began, because its service lacks the key of its input.

    The SDK wraps what happens then; what an activity itself raises, perhaps after its effect, has a type.
    """
    cause = error.cause
    return isinstance(cause, ApplicationError) and not cause.type and lacks_key(cause)


class OpenFailures(DefaultFailureConverter):
    """Failures as they are; that a key is missing is a failure that passes."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See FailureConverter."""
        super().to_failure(exception, payload_converter, failure)
        _let_pass(exception, failure)


class EncodedFailures(OpenFailures, DefaultFailureConverterWithEncodedAttributes):
    """Failures with messages and stacks as payloads; a missing key is a failure that passes, and can be read openly."""


def _let_pass(exception: BaseException, failure: Failure) -> None:
    """Make the failure of a missing key one that is tried again, and that can be read without any key.

    Once an operator adds the key, the same attempt works. A service with a wrong key would encrypt the error with that,
    and nobody could read what is to be mended.
    """
    if not lacks_key(exception):
        return
    found: BaseException | None = exception
    while found is not None and not isinstance(found, KeyMismatch):
        found = found.__cause__
    failure.ClearField("encoded_attributes")
    failure.stack_trace = ""
    if found is not None:
        failure.message = str(found)
    elif isinstance(exception, ApplicationError):
        failure.message = exception.message
    if failure.HasField("application_failure_info"):
        failure.application_failure_info.non_retryable = False


def encrypting(converter: DataConverter, ring: KeyRing) -> DataConverter:
    """Return the converter with these keys; a converter with a codec stays as it is.

    Also without any key: an encrypted value is then an error that says so, where the SDK would drop a signal.
    """
    if converter.payload_codec is not None:
        return converter
    failures = EncodedFailures if ring.first is not None else OpenFailures
    return replace(converter, payload_codec=EncryptionCodec(ring), failure_converter_class=failures)


def ring_of(converter: DataConverter) -> KeyRing:
    """The keys that a converter encrypts with; those of the environment where it has no codec of ours."""
    codec = converter.payload_codec
    return codec.ring if isinstance(codec, EncryptionCodec) else key_ring()
