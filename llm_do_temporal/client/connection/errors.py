"""Errors of the Temporal server, translated into those of this package in one place."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.connection.connect import OUT_OF_REACH, out_of_reach
from llm_do_temporal.errors import ConnectionFailed, LlmDoError, RunCancelled, RunFailed, UsageError, rebuild_error

_ARCHIVE = "workflow history not found, may have passed retention period"
"""Words of a server that could have archived the history, and has not. The production server is one of those."""

_NOT_READY = "Unable to perform workflow execution update"


def is_missing(error: RPCError) -> bool:
    """Return whether the server has no such workflow, or no such history any more."""
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return _ARCHIVE in error.message
    return error.status is RPCStatusCode.NOT_FOUND


def refuses_attributes(error: RPCError) -> bool:
    """Return whether the server says that the namespace does not know a search attribute."""
    return error.status is RPCStatusCode.INVALID_ARGUMENT and "search attribute" in error.message.lower()


class WorkflowNotReady(ConnectionFailed):
    """Update that the server refuses since a task of the workflow has failed just now, on a starved worker for one.

    Nothing of it was taken. The task is tried again by itself, and a signal waits for that."""


def ended_with(failure: WorkflowFailureError) -> LlmDoError:
    """Return the error that a run ended with."""
    cause = failure.cause
    if isinstance(cause, CancelledError):
        return RunCancelled("the run was cancelled")
    if isinstance(cause, TerminatedError):
        return RunCancelled(f"the run was terminated: {cause.message}")
    if isinstance(cause, ApplicationError):
        details = cast("dict[str, Any]", cause.details[0]) if cause.details else {}
        known = rebuild_error(cause.type, cause.message, details.get("next_step"))
        return known or RunFailed(cause.message)
    return RunFailed(str(cause or failure))


@asynccontextmanager
async def translated(run: str | None = None) -> AsyncGenerator[None]:
    """Translate errors of the server: to UsageError where there is no such run, else to ConnectionFailed."""
    try:
        yield
    except RuntimeError as error:
        if OUT_OF_REACH not in str(error):
            raise
        raise out_of_reach() from error
    except RPCError as error:
        # No run has an empty id, for which the server has other words.
        if run is not None and (not run or is_missing(error)):
            raise UsageError(
                f"there is no run '{run}'", next_step="`llm-do-temporal list` shows the runs of this server."
            ) from error
        if error.status is RPCStatusCode.UNAVAILABLE:
            raise ConnectionFailed(f"the Temporal server does not answer: {error}") from error
        if _NOT_READY in error.message:
            raise WorkflowNotReady(f"the run was not ready: {error}") from error
        raise ConnectionFailed(f"the Temporal server refused: {error}") from error
