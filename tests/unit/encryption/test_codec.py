"""Payloads that only who has the key can read, and failures whose texts are among them."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.exceptions import ActivityError, ApplicationError

from llm_do_temporal.client.history.events import put_back
from llm_do_temporal.encryption.codec import KEY_ID, EncryptionCodec, could_not_read, encrypting, lacks_key, ring_of
from llm_do_temporal.encryption.keys import NO_KEYS, Key, KeyRing
from llm_do_temporal.errors import KeyMismatch

OLD, NEW = Key("old", b"o" * 32), Key("new", b"n" * 32)
SAID = "the deck of Kelpworks"


def converter(*keys: Key) -> DataConverter:
    return encrypting(pydantic_data_converter, KeyRing.of(*keys))


async def sent(*keys: Key) -> Payload:
    (payload,) = await converter(*keys).encode([{"said": SAID}])
    return payload


async def read(payload: Payload, *keys: Key) -> Any:
    (value,) = await converter(*keys).decode([payload])
    return value


async def test_a_value_comes_back_and_nothing_of_it_can_be_seen() -> None:
    payload = await sent(NEW)
    assert await read(payload, NEW) == {"said": SAID}
    shown = payload.SerializeToString()
    assert b"Kelpworks" not in shown
    assert b"json/plain" not in shown
    assert payload.metadata[KEY_ID] == b"new"


async def test_the_same_value_never_looks_the_same() -> None:
    assert (await sent(NEW)).data != (await sent(NEW)).data


async def test_the_first_key_encrypts_and_all_decrypt() -> None:
    before, after = await sent(OLD), await sent(NEW, OLD)
    assert (before.metadata[KEY_ID], after.metadata[KEY_ID]) == (b"old", b"new")
    assert [await read(one, NEW, OLD) for one in (before, after)] == [{"said": SAID}] * 2
    with pytest.raises(KeyMismatch, match="the key 'old'"):
        await read(before, NEW)


async def test_what_was_sent_in_the_open_is_read_as_it_is() -> None:
    (payload,) = await pydantic_data_converter.encode([{"said": SAID}])
    assert await read(payload, NEW) == {"said": SAID}


async def test_without_keys_nothing_is_encrypted_and_what_is_cannot_be_read() -> None:
    assert b"Kelpworks" in (await sent()).data
    with pytest.raises(KeyMismatch, match=r"the key 'new', which .* \(it has: none\)"):
        await read(await sent(NEW))


async def test_another_key_under_the_same_id_is_an_error_that_says_so() -> None:
    with pytest.raises(KeyMismatch, match="a key 'new' that is not the key this process has under that name"):
        await read(await sent(NEW), Key("new", b"x" * 32))


async def test_what_was_written_with_a_mistaken_key_of_the_same_id_is_read_where_both_are_there() -> None:
    mistaken = Key("new", b"x" * 32)
    for key in (NEW, mistaken):
        assert await read(await sent(key), NEW, mistaken) == {"said": SAID}
    assert await read(await sent(NEW, mistaken), NEW) == {"said": SAID}
    with pytest.raises(KeyMismatch, match="not the key") as told:
        await read(await sent(mistaken), NEW, Key("new", b"y" * 32))
    assert "add that one behind it" in (told.value.next_step or "")


@pytest.mark.parametrize("place", [0, 11, 12, 40, -1])
async def test_a_changed_payload_is_an_error(place: int) -> None:
    payload = await sent(NEW)
    data = bytearray(payload.data)
    data[place] ^= 1
    with pytest.raises(KeyMismatch, match="or it was changed since"):
        await read(Payload(metadata=payload.metadata, data=bytes(data)), NEW)


@pytest.mark.parametrize("data", [b"", b"short", b"x" * 27])
async def test_a_payload_that_was_cut_off_is_an_error(data: bytes) -> None:
    payload = await sent(NEW)
    with pytest.raises(KeyMismatch, match="or it was changed since"):
        await read(Payload(metadata=payload.metadata, data=data), NEW)


async def test_a_payload_under_another_id_is_an_error() -> None:
    payload = await sent(NEW)
    payload.metadata[KEY_ID] = b"old"
    with pytest.raises(KeyMismatch):
        await read(payload, NEW, OLD)
    del payload.metadata[KEY_ID]
    with pytest.raises(KeyMismatch):
        await read(payload, NEW, OLD)


async def failed(error: BaseException, *keys: Key) -> Failure:
    failure = Failure()
    await converter(*keys).encode_failure(error, failure)
    return failure


async def test_the_texts_of_a_failure_are_encrypted_and_its_type_is_not() -> None:
    error = ApplicationError(SAID, {"said": SAID}, type="EffectFailed")
    error.__cause__ = ValueError(SAID)
    failure = await failed(error, NEW)
    assert b"Kelpworks" not in failure.SerializeToString()
    assert failure.application_failure_info.type == "EffectFailed"
    again = await converter(NEW).decode_failure(failure)
    assert isinstance(again, ApplicationError)
    assert (again.message, again.details) == (SAID, ({"said": SAID},))


async def test_a_history_is_read_with_its_failures() -> None:
    event = HistoryEvent()
    failure = event.workflow_execution_failed_event_attributes.failure
    failure.CopyFrom(await failed(ApplicationError(SAID, SAID, type="RunFailed"), NEW))
    event.user_metadata.summary.CopyFrom(await sent(NEW))
    await put_back(event, converter(NEW))
    assert failure.message == SAID
    assert failure.application_failure_info.details.payloads[0].data == f'"{SAID}"'.encode()
    assert SAID.encode() in event.user_metadata.summary.data


async def test_a_history_without_its_key_is_an_error() -> None:
    event = HistoryEvent()
    event.workflow_execution_signaled_event_attributes.input.payloads.append(await sent(NEW))
    with pytest.raises(KeyMismatch, match="the key 'new'"):
        await put_back(event, converter(OLD))


def missing_key() -> KeyMismatch:
    try:
        NO_KEYS.find("new")
    except KeyMismatch as error:
        return error
    raise AssertionError


@pytest.mark.parametrize("keys", [(), (OLD,)])
@pytest.mark.parametrize("wrapped", [True, False])
async def test_a_missing_key_is_a_failure_that_passes_and_that_everybody_can_read(
    keys: tuple[Key, ...], wrapped: bool
) -> None:
    error: BaseException = missing_key()
    if wrapped:
        # As the SDK says it of heartbeats, and an activity of a blob.
        inner, error = error, ApplicationError("Failed decoding heartbeat details", non_retryable=True)
        error.__cause__ = inner
    failure = await failed(error, *keys)
    assert "the key 'new'" in failure.message
    assert not failure.application_failure_info.non_retryable
    assert not failure.HasField("encoded_attributes")
    assert lacks_key(await converter(NEW).decode_failure(failure))


async def test_only_what_has_not_begun_may_be_begun_again() -> None:
    def as_workflows_see_it(cause: BaseException) -> ActivityError:
        error = ActivityError(
            "",
            scheduled_event_id=1,
            started_event_id=2,
            identity="",
            activity_type="",
            activity_id="",
            retry_state=None,
        )
        error.__cause__ = cause
        return error

    unread = ApplicationError("Failed decoding arguments")
    unread.__cause__ = missing_key()
    before = await converter(NEW).decode_failure(await failed(unread, OLD))
    within = await converter(NEW).decode_failure(await failed(missing_key(), NEW))
    assert [lacks_key(as_workflows_see_it(one)) for one in (before, within)] == [True, True]
    assert [could_not_read(as_workflows_see_it(one)) for one in (before, within)] == [True, False]


async def test_an_error_of_ours_stays_what_it_is() -> None:
    error = ApplicationError(SAID, type="EffectFailed", non_retryable=True)
    assert (await failed(error, NEW)).application_failure_info.non_retryable
    assert not lacks_key(error)


def test_a_converter_is_encrypted_once() -> None:
    once = converter(NEW)
    assert encrypting(once, KeyRing.of(OLD)) is once
    assert ring_of(once).first == NEW
    assert isinstance(once.payload_codec, EncryptionCodec)
