"""Meaning of a failed model turn: whether the same model is asked again, when, and whether another one may answer.

Owns the sorting of providers' errors. An error that passes by itself is tried again without end, unless another model
waits to be asked; an error that would come again is final at once, with the model's name and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

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

from llm_do_temporal.activities.runtime.failures import as_failure
from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.conversation import FIRST_TRIES, OtherModel
from llm_do_temporal.messages.sizes import QUOTED_CHARS
from llm_do_temporal.redaction.configured_keys import remove_keys

PASSING = "ModelBusy"
"""Type of a failure that is tried again."""
LONGEST_WAIT = timedelta(hours=1)
"""A provider that asks for more is asked again all the same: it may be wrong, and a run must not sleep for a week."""
LONGEST_WAIT_BESIDE_OTHERS = timedelta(minutes=2)
SHORT_WAIT_SECONDS = 5.0
"""Longest wait that a provider may ask for where another model can be asked instead."""


@dataclass(frozen=True)
class _Kind:
    errors: tuple[type[ModelAPIError], ...]
    what: str
    """Words after the model's name in the error."""
    next_step: str | None = None
    passing: bool = False
    other: OtherModel | None = None


_OTHERS = "or name another model behind it: `model: [this, other]`"
_KINDS = (
    _Kind((ModelRateLimitError,), "is rate limited", passing=True),
    _Kind((ModelUnavailableError,), "is overloaded or down", passing=True),
    _Kind((ModelTimeoutError, ModelRequestTimeout), "did not answer in time", passing=True),
    _Kind((ModelConnectionError,), "cannot be reached", passing=True),
    _Kind((ModelServerError,), "failed at its provider", passing=True),
    _Kind(
        (ModelAuthenticationError,),
        "refused the key",
        f"Check the key where the worker service runs and start the service again, {_OTHERS}.",
        other=OtherModel.INSTEAD,
    ),
    _Kind(
        (ModelQuotaExceededError,),
        "has no quota left",
        f"Raise the quota of the account, {_OTHERS}.",
        other=OtherModel.INSTEAD,
    ),
    _Kind(
        (ModelNotFoundError,),
        "is not known to its provider",
        f"Check the model's name and, where it has one, its `base_url`, {_OTHERS}.",
        other=OtherModel.INSTEAD,
    ),
    _Kind(
        (ModelContextWindowExceededError,),
        "was told more than it can take",
        f"Set `max_context_tokens`, {_OTHERS}.",
        other=OtherModel.INSTEAD,
    ),
    _Kind(
        (ModelRequestRejectedError,),
        "refused the request",
        "Change what the provider names: a model setting, a tool, an attachment; or choose another model.",
    ),
    _Kind((ModelAPIError,), "failed", passing=True),
)


def model_failure(error: ModelAPIError, model: str, *, attempt: int, tries: int | None) -> ApplicationError:
    """The Temporal failure of a request to `model`.

    `attempt` counts from 1. With `tries` the workflow has other models to ask: then so many attempts are enough, and
    one where the provider lets wait.
    """
    kind = next(kind for kind in _KINDS if isinstance(error, kind.errors))
    status = f" (HTTP {error.status_code})" if isinstance(error, ModelHTTPError) else ""
    message = f"model '{model}' {kind.what}: {_said(error)}{status}"
    if not kind.passing:
        suggested = error.suggested_model_id if isinstance(error, ModelHTTPError) else None
        hint = f" Did you mean '{suggested}'?" if suggested else ""
        return as_failure(ModelFailed(message, next_step=f"{kind.next_step}{hint}"), other_model=kind.other)
    if tries is not None and (attempt >= tries or (tries == FIRST_TRIES and _lets_wait(error))):
        return as_failure(ModelFailed(message), other_model=OtherModel.MEANWHILE)
    return ApplicationError(message, type=PASSING, next_retry_delay=_delay(error, beside_others=tries is not None))


def _lets_wait(error: ModelAPIError) -> bool:
    timed_out = isinstance(error, ModelTimeoutError | ModelRequestTimeout)
    return timed_out or (error.retry_after or 0) > SHORT_WAIT_SECONDS


def _delay(error: ModelAPIError, *, beside_others: bool) -> timedelta | None:
    """Return the wait that the provider asks for, within reason; None: that of the retry policy."""
    if not error.retry_after:
        return None
    longest = LONGEST_WAIT_BESIDE_OTHERS if beside_others else LONGEST_WAIT
    return timedelta(seconds=min(error.retry_after, longest.total_seconds()))


def _said(error: ModelAPIError) -> str:
    """Return the provider's message: without keys, which it may repeat, and cut after they are out."""
    body = error.body
    if isinstance(body, Mapping):
        given = cast("Mapping[str, object]", body)
        inner = given.get("error")
        message = (cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else given).get("message")
        if isinstance(message, str) and message.strip():
            return remove_keys(message.strip())[:QUOTED_CHARS]
    return remove_keys(error.message)[:QUOTED_CHARS]
