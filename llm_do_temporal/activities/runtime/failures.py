"""Failures of activities, as the workflow that waits gets them.

Owns the one place where our errors and the operating system's become Temporal failures. Used by every
activity. An error of ours is final: the same call would fail the same way, so it is never retried. Of
the operating system's errors those that pass by themselves are left to Temporal's retries.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, CancelledError

from llm_do_temporal.errors import BlobsUnreachable, EffectFailed, ExtensionNeeded, LlmDoError
from llm_do_temporal.messages.activities import ActivityRef
from llm_do_temporal.messages.base import FILES_ELSEWHERE, MISSING_EXTENSION
from llm_do_temporal.messages.conversation import OTHER_MODEL, OtherModel
from llm_do_temporal.messages.sizes import FAILURE_CHARS
from llm_do_temporal.redaction.hidden_characters import cut
from llm_do_temporal.sandbox.os_errors import is_passing, reason_of


@contextmanager
def user_errors() -> Generator[None]:
    """Turn errors into Temporal failures: ours are final, the operating system's passing ones are retried.

    The failure's type is the error's `code` and its one detail `{"code", "message", "next_step"}`. Causes
    stay behind: they name folders of the host, and a failure goes into the history.
    """
    try:
        yield
    except LlmDoError as error:
        raise as_failure(error) from None
    except OSError as error:
        if is_passing(error):
            raise ApplicationError(reason_of(error), type="OSError") from None
        raise as_failure(EffectFailed(f"the operating system refused: {reason_of(error)}")) from None


@contextmanager
def load_errors() -> Generator[None]:
    """Turn errors into failures like `user_errors`, in an activity that only reads definitions.

    An activity that was interrupted says so: a check of a definition may have taken the interruption for a fault of
    the definition, which would be final."""
    try:
        with user_errors():
            yield
    except ApplicationError:
        if activity.in_activity() and activity.is_cancelled():
            raise CancelledError("interrupted while definitions were read") from None
        raise


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions behind an exception, the nearest first, each once."""
    seen = {id(error)}
    behind = error.__cause__ or error.__context__
    while behind is not None and id(behind) not in seen:
        yield behind
        seen.add(id(behind))
        behind = behind.__cause__ or behind.__context__


def as_failure(error: LlmDoError, *, other_model: OtherModel | None = None) -> ApplicationError:
    """Return the Temporal failure of one of our errors. It is benign: the run tells people, and no alarm goes off.

    `other_model` is for a model turn: whether another model may answer it. A blob store that cannot be used is tried
    again, as it may be the next time; so is what needs an extension, by another service.
    """
    if isinstance(error, BlobsUnreachable):
        # Where blobs are kept is none of a model's business.
        return ApplicationError("the blob store cannot be used", type=error.code)
    if isinstance(error, ExtensionNeeded):
        return ApplicationError(cut(str(error), FAILURE_CHARS), type=MISSING_EXTENSION)
    other = {} if other_model is None else {OTHER_MODEL: other_model.value}
    return ApplicationError(
        cut(str(error), FAILURE_CHARS),
        {"code": error.code, "message": cut(error.message, FAILURE_CHARS), "next_step": error.next_step, **other},
        type=error.code,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )


def stand_in(missing: ActivityRef[Any, Any]) -> Callable[..., Any]:
    """Return an activity with the name of the missing one, which fails with FILES_ELSEWHERE.

    Workflows then go to the queue of the files. Without it one that began where the files were could not even be
    replayed: the SDK does not let a local activity begin that it does not know.
    """

    @activity.defn(name=missing.name)
    async def fail(_request: Any) -> None:
        raise ApplicationError(
            "the files of the workshop are elsewhere",
            type=FILES_ELSEWHERE,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,  # nothing to be logged
        )

    return fail
