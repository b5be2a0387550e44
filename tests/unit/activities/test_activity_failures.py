"""Failures of activities: final ones, passing ones, and their bounds."""

from __future__ import annotations

import errno

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, CancelledError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.runtime.failures import load_errors, user_errors
from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import Key, KeyRing
from llm_do_temporal.errors import (
    BlobsUnreachable,
    DefinitionError,
    EffectFailed,
    ExtensionNeeded,
    LlmDoError,
    SandboxRefusal,
    error_classes,
)
from llm_do_temporal.messages.sizes import FAILURE_CHARS, MAX_CAUSES, TRACE_CHARS
from llm_do_temporal.redaction.failures import keyless
from llm_do_temporal.sandbox.os_errors import naming

HOST = "/home/somebody/workshop/secret.txt"


def failed(error: BaseException) -> ApplicationError:
    with pytest.raises(ApplicationError) as caught, user_errors():
        raise error
    return caught.value


@pytest.mark.parametrize(
    "cls",
    [cls for cls in error_classes().values() if cls not in {BlobsUnreachable, ExtensionNeeded}],
    ids=lambda cls: cls.__name__,
)
def test_an_error_of_ours_is_final_and_carries_all_it_knows(cls: type[LlmDoError]) -> None:
    failure = failed(cls("what happened", next_step="what to do"))
    assert (failure.type, failure.message, failure.non_retryable) == (cls.__name__, "what happened", True)
    assert failure.details == ({"code": cls.__name__, "message": "what happened", "next_step": "what to do"},)
    assert failure.category is ApplicationErrorCategory.BENIGN


def test_a_blob_store_that_does_not_answer_is_tried_again_and_not_named() -> None:
    failure = failed(BlobsUnreachable("the blob store 's3://bucket' does not answer", next_step="Look at s3://bucket"))
    assert (failure.type, failure.non_retryable, failure.details) == ("BlobsUnreachable", False, ())
    assert "bucket" not in failure.message


def test_a_missing_extension_is_left_to_another_service() -> None:
    failure = failed(ExtensionNeeded("a review of changes needs the extension 'review'"))
    assert (failure.type, failure.non_retryable) == ("MissingExtension", False)
    assert failure.message == "a review of changes needs the extension 'review'"


def test_the_message_is_whole_and_the_cause_stays_behind() -> None:
    error = DefinitionError("is wrong", file="a.worker", line=3)
    error.__cause__ = FileNotFoundError(errno.ENOENT, "gone", HOST)
    failure = failed(error)
    assert failure.message == "a.worker:3: is wrong"
    assert failure.__cause__ is None
    assert failure.details[0]["next_step"] is None


@pytest.mark.parametrize(
    "error",
    [
        *(OSError(n, "x", HOST) for n in (errno.EIO, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ESTALE)),
        *(OSError(n, "x", HOST) for n in (errno.EBUSY, errno.EINTR, errno.ENOMEM, errno.ETIMEDOUT)),
        ConnectionResetError(errno.ECONNRESET, "x"),
        TimeoutError(),
        OSError("without a number"),
    ],
    ids=repr,
)
def test_what_passes_is_retried(error: OSError) -> None:
    failure = failed(error)
    assert not failure.non_retryable
    assert HOST not in failure.message
    with pytest.raises(OSError, match=r".*") as same, naming("/a.txt"):
        raise error
    assert same.value is error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.EINVAL])
def test_what_does_not_pass_is_final_and_names_no_folder_of_the_host(number: int) -> None:
    failure = failed(OSError(number, "x", HOST))
    assert (failure.type, failure.non_retryable) == ("EffectFailed", True)
    assert HOST not in f"{failure.message}{failure.details}"


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "'/a.txt' cannot be written: the disk is full"),
        (errno.EDQUOT, "'/a.txt' cannot be written: the disk quota is used up"),
        (errno.EACCES, "'/a.txt' cannot be used: permission denied"),
        (errno.EPERM, "'/a.txt' cannot be used: permission denied"),
        (errno.EROFS, "'/a.txt' cannot be written: the file system is read-only"),
        (errno.EFBIG, "'/a.txt' cannot be written: it is too large"),
        (errno.EINVAL, "'/a.txt' cannot be used: Invalid argument"),
    ],
)
def test_a_named_file_is_told_what_happened(number: int, says: str) -> None:
    with pytest.raises(EffectFailed) as caught, naming("/a.txt"):
        raise OSError(number, "x", HOST)
    assert str(caught.value).startswith(says)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ELOOP])
def test_a_path_that_leads_out_is_a_refusal(number: int) -> None:
    with pytest.raises(SandboxRefusal, match=r"'/a\.txt' leads out"), naming("/a.txt"):
        raise OSError(number, "x", HOST)


def test_everything_else_goes_on_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), user_errors(), naming("/a.txt"):
        raise ZeroDivisionError
    with pytest.raises(EffectFailed, match="ours"), naming("/a.txt"):
        raise EffectFailed("ours")
    with user_errors(), naming("/a.txt"):
        pass


def test_a_load_that_was_interrupted_says_so_whatever_it_took_that_for() -> None:
    here = ActivityEnvironment()

    def load(*, interrupted: bool) -> None:
        with load_errors():
            try:
                if interrupted:
                    here.cancel()
                    while True:
                        pass
            except Exception as error:
                raise DefinitionError(f"not valid JSON Schema: {error}") from error
            raise DefinitionError("is wrong")

    with pytest.raises(CancelledError, match="interrupted while definitions were read"):
        here.run(lambda: load(interrupted=True))
    with pytest.raises(ApplicationError, match="is wrong") as caught:
        ActivityEnvironment().run(lambda: load(interrupted=False))
    assert caught.value.non_retryable


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
