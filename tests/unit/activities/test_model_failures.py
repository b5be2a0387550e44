"""What a failed model turn means: tried again, when, or final, and whether another model may answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from temporalio.exceptions import ApplicationError

from llm_do_temporal.activities.models.failures import (
    LONGEST_WAIT,
    LONGEST_WAIT_BESIDE_OTHERS,
    PASSING,
    UNKNOWN_ATTEMPTS,
    UNKNOWN_TIME,
    model_failure,
)
from llm_do_temporal.messages.conversation import FIRST_TRIES, OTHER_MODEL

MODEL = "openai:x"


def http(kind: type[Any] | None, status: int, headers: dict[str, str] | None = None, body: object = None) -> Any:
    said = body or {"message": "So it is."}
    return ModelHTTPError.for_category(kind, status_code=status, model_name="x", body=said, headers=headers)


def failed(error: ModelAPIError, *, attempt: int = 1, tries: int | None = None) -> ApplicationError:
    return model_failure(error, MODEL, attempt=attempt, tries=tries)


def other_of(failure: ApplicationError) -> str | None:
    return failure.details[0].get(OTHER_MODEL)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (http(ModelRateLimitError, 429), "is rate limited: So it is. (HTTP 429)"),
        (http(ModelUnavailableError, 503), "is overloaded or down: So it is. (HTTP 503)"),
        (http(ModelServerError, 500), "failed at its provider: So it is. (HTTP 500)"),
        (http(None, 409), "failed: So it is. (HTTP 409)"),
        (ModelConnectionError("x", "Connection error."), "cannot be reached: Connection error."),
        (ModelTimeoutError("x", "Request timed out."), "did not answer in time: Request timed out."),
        (ModelRequestTimeout("x", 5), "did not answer in time: Request to model 'x' timed out after 5 seconds"),
    ],
)
@pytest.mark.parametrize("attempt", [1, 1000])
def test_what_passes_is_tried_again_without_end(error: ModelAPIError, said: str, attempt: int) -> None:
    failure = failed(error, attempt=attempt)
    assert (failure.message, failure.type) == (f"model '{MODEL}' {said}", PASSING)
    assert not failure.non_retryable
    assert failure.next_retry_delay is None


@pytest.mark.parametrize(
    ("error", "said", "step", "other"),
    [
        (http(ModelAuthenticationError, 401), "refused the key: So it is. (HTTP 401)", "Check the key", "instead"),
        (http(ModelAuthenticationError, 403), "refused the key: So it is. (HTTP 403)", "Check the key", "instead"),
        (http(ModelNotFoundError, 404), "is not known to its provider", "Check the model's name", "instead"),
        (http(ModelQuotaExceededError, 429), "has no quota left", "Raise the quota", "instead"),
        (http(ModelContextWindowExceededError, 400), "more than it can take", "max_context_tokens", "instead"),
        (http(ModelRequestRejectedError, 400), "refused the request: So it is. (HTTP 400)", "Change what", "instead"),
    ],
)
@pytest.mark.parametrize("tries", [None, 2])
def test_what_does_not_pass_is_final_and_says_what_to_do(
    error: ModelAPIError, said: str, step: str, other: str | None, tries: int | None
) -> None:
    failure = failed(error, tries=tries)
    assert failure.non_retryable
    assert failure.message.startswith(f"model '{MODEL}' ")
    assert said in failure.message
    assert step in failure.details[0]["next_step"]
    assert other_of(failure) == other


def test_a_wrong_name_comes_with_the_one_that_was_meant() -> None:
    error = ModelHTTPError.for_category(
        ModelNotFoundError, status_code=404, model_name="x", body=None, suggested_model_id="y"
    )
    assert failed(error).details[0]["next_step"].endswith("Did you mean 'y'?")


@pytest.mark.parametrize(
    ("said", "tries", "seconds"),
    [
        ("30", None, 30),
        ("7200", None, LONGEST_WAIT.total_seconds()),
        ("99999999999999999999", None, LONGEST_WAIT.total_seconds()),
        # another model gets its turn
        ("600", 4, LONGEST_WAIT_BESIDE_OTHERS.total_seconds()),
        # nothing that can be understood leaves it to the retry policy
        ("0", None, None),
        ("-1", None, None),
        ("soon", None, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_provider_says_when_to_ask_again(status: int, said: str, tries: int | None, seconds: float | None) -> None:
    kind = ModelRateLimitError if status == 429 else ModelUnavailableError
    delay = failed(http(kind, status, {"Retry-After": said}), tries=tries).next_retry_delay
    assert delay == (None if seconds is None else timedelta(seconds=seconds))


def test_a_provider_may_say_it_as_a_date() -> None:
    at = datetime.now(UTC) + timedelta(days=2)
    error = http(ModelRateLimitError, 429, {"Retry-After": format_datetime(at, usegmt=True)})
    assert failed(error).next_retry_delay == LONGEST_WAIT
    past = http(ModelRateLimitError, 429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})
    assert failed(past).next_retry_delay is None


@pytest.mark.parametrize(
    ("error", "attempt", "tries", "hands_over"),
    [
        (http(ModelServerError, 500), 1, FIRST_TRIES, False),
        (http(ModelServerError, 500), 2, FIRST_TRIES, True),
        (http(ModelServerError, 500), 3, 4, False),
        (http(ModelServerError, 500), 4, 4, True),
        # what takes long is not waited for, at first
        (http(ModelRateLimitError, 429, {"Retry-After": "2"}), 1, FIRST_TRIES, False),
        (http(ModelRateLimitError, 429, {"Retry-After": "20"}), 1, FIRST_TRIES, True),
        (http(ModelRateLimitError, 429, {"Retry-After": "20"}), 1, 4, False),
        (ModelTimeoutError("x", "Request timed out."), 1, FIRST_TRIES, True),
    ],
)
def test_where_there_are_others_a_model_is_given_up_meanwhile(
    error: ModelAPIError, attempt: int, tries: int, hands_over: bool
) -> None:
    failure = failed(error, attempt=attempt, tries=tries)
    assert failure.non_retryable is hands_over
    if hands_over:
        assert other_of(failure) == "meanwhile"


@pytest.mark.parametrize(
    "body", [{"error": {"message": "No."}}, {"message": "No."}, {"message": "  No. "}], ids=["nested", "flat", "blank"]
)
def test_of_an_answer_only_the_message_is_told(body: object) -> None:
    assert failed(http(ModelServerError, 500, body=body)).message.endswith("failed at its provider: No. (HTTP 500)")


def test_a_page_instead_of_a_message_is_cut() -> None:
    assert len(failed(http(ModelServerError, 502, body="<html>" * 1000)).message) < 700


@pytest.mark.parametrize("error", [http(None, 418), http(None, 499), http(ModelServerError, 599)])
def test_what_nobody_knows_is_tried_again_within_attempts_and_time(error: ModelAPIError) -> None:
    now = datetime.now(UTC)
    last = UNKNOWN_ATTEMPTS - 1
    again = model_failure(error, MODEL, attempt=last, tries=None, since=now)
    assert (again.type, again.non_retryable) == (PASSING, False)
    late = model_failure(error, MODEL, attempt=2, tries=None, since=now - UNKNOWN_TIME - timedelta(seconds=1))
    for failure in (failed(error, attempt=UNKNOWN_ATTEMPTS), late):
        assert failure.non_retryable
        assert other_of(failure) == "instead"
    assert other_of(failed(error, attempt=2, tries=2)) == "meanwhile"


@pytest.mark.parametrize("status", [300, 304, 307, 399])
def test_a_redirect_is_final_at_once_and_names_the_setting(status: int) -> None:
    failure = failed(http(None, status))
    assert failure.non_retryable
    assert other_of(failure) == "instead"
    assert "`base_url`" in str(failure.details)


def test_every_status_of_a_failure_is_judged() -> None:
    passing = {408, 409, 423, 425, 429, 449, 500, 502, 503, 504, 507, *range(520, 531)}
    for status in range(400, 600):
        kind = ModelServerError if status >= 500 else None
        final = failed(http(kind, status), attempt=1000).non_retryable
        assert final is (status not in passing), status
