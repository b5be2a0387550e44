"""The place where failures change shape: Temporal's and Pydantic AI's into our errors, and these into Temporal's.

A plain exception that leaves a workflow fails its task, which Temporal retries for ever; so every ordinary failure
passes here and leaves as an `ApplicationError` that carries code, message and next step.
"""

from __future__ import annotations

import re
from typing import Any, cast

from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelRetry,
    OutputTokenLimitExceeded,
    ToolRetryError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UserError,
)
from pydantic_core import ValidationError
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
)
from temporalio.exceptions import TimeoutError as TemporalTimeoutError

from llm_do_temporal.errors import BudgetExceeded, EffectFailed, LlmDoError, ModelFailed, RunFailed, rebuild_error
from llm_do_temporal.messages.base import TIME_IS_UP
from llm_do_temporal.messages.budget import Usage, Waits
from llm_do_temporal.messages.conversation import OTHER_MODEL, OtherModel
from llm_do_temporal.messages.sizes import QUOTED_CHARS, TOO_LARGE

AGENT_ERRORS = (AgentRunError, UserError, FailureError)
_ADDRESS = re.compile(r"[^.\n]*\bhttps://(?:errors\.)?pydantic\.dev\S*")
"""Sentence that names a page of a library's documentation."""
_NOT_IN_TIME = "it did not finish in time and was given up"


def explain(error: BaseException) -> LlmDoError:
    """Return the failure of an activity or a child as one of our errors."""
    cause: BaseException | None = error
    while isinstance(cause, ActivityError | ChildWorkflowError):
        cause = cause.cause
    if isinstance(cause, ApplicationError):
        return _rebuilt(cause)
    if isinstance(cause, TemporalTimeoutError):
        return EffectFailed(_NOT_IN_TIME)
    if isinstance(cause, CancelledError):
        return RunFailed("it was cancelled")
    if isinstance(cause, TerminatedError):
        return RunFailed("it was terminated")
    return RunFailed(str(cause or error))


def explain_agent(error: BaseException, *, cut_off: bool = False) -> LlmDoError:
    """Return the end of an agent run as one of our errors; `cut_off`: the last answer stopped where it was too long."""
    if isinstance(error, LlmDoError):
        return error
    if isinstance(error, FailureError):
        found = explain(error)
        # Tools explain their own failures; all others can only come from a model turn.
        if isinstance(found, EffectFailed):
            return ModelFailed(f"the model turn failed: {found}", next_step=found.next_step)
        return found
    if isinstance(error, UsageLimitExceeded):
        return BudgetExceeded(str(error))
    if isinstance(error, ModelAPIError):
        return ModelFailed(f"the model request failed: {error}")
    if isinstance(error, ContentFilterError):
        # The rest of this error is the whole answer as JSON.
        refusal = error.message[:QUOTED_CHARS]
        return ModelFailed(
            f"the model refused to answer: {refusal}", next_step="Ask otherwise, or choose another model."
        )
    if isinstance(error, OutputTokenLimitExceeded) or (cut_off and isinstance(error, UnexpectedModelBehavior)):
        return ModelFailed(
            f"the model's answer was cut off: {error}",
            next_step="Set a larger `max_tokens` in `model_settings`, or have it answer in smaller parts.",
        )
    if isinstance(error, UnexpectedModelBehavior):
        return ModelFailed(f"the model's answers could not be used: {_problem_of(error)}")
    return RunFailed(str(error))


def _problem_of(error: UnexpectedModelBehavior) -> str:
    """Return what was wrong with the last answer: the error itself counts tries, and names another project's pages."""
    cause = error.__cause__
    if isinstance(cause, ToolRetryError):
        told: Any = cause.__cause__ if isinstance(cause.__cause__, ValidationError) else cause.tool_retry.content
    else:
        told = cause
    if isinstance(told, ValidationError):
        problems = told.errors(include_url=False, include_context=False, include_input=False)[:5]
        told = f"the result is not valid: {'; '.join(problem['msg'] for problem in problems)}"
    if isinstance(told, ModelRetry):
        told = told.message
    said = told if isinstance(told, str) else str(error)
    return _ADDRESS.sub("", said)[:QUOTED_CHARS]


def fallback_hint(error: BaseException) -> OtherModel | None:
    """Return whether, and how, another model may answer the turn that failed with this error; None: it may not."""
    cause: BaseException | None = error
    while isinstance(cause, ActivityError):
        cause = cause.cause
    found = _details(cause.details).get(OTHER_MODEL) if isinstance(cause, ApplicationError) else None
    return OtherModel(found) if found in set(OtherModel) else None


def as_failure(error: LlmDoError, spent: Usage | None = None, waited: Waits | None = None) -> ApplicationError:
    """Return the failure that ends a workflow, with usage and waits until then; None: that is not told."""
    details: dict[str, Any] = {"code": error.code, "message": str(error), "next_step": error.next_step}
    if spent is not None:
        details["usage"] = spent.model_dump(mode="json")
    if waited is not None:
        details["waited"] = waited.model_dump(mode="json")
    return ApplicationError(str(error), details, type=error.code, non_retryable=True)


def spent_before(error: BaseException) -> Usage:
    """Return the usage of the child whose failure became this error; zero where the child could not tell it."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ApplicationError):
        cause = cause.__cause__
    details = _details(cause.details) if cause is not None else {}
    return Usage.model_validate(details.get("usage") or {})


def _rebuilt(failure: ApplicationError) -> LlmDoError:
    known = rebuild_error(failure.type, failure.message, _next_step(failure.details))
    if known is not None:
        return known
    if failure.type == TIME_IS_UP:
        return EffectFailed(_NOT_IN_TIME)
    if failure.type == TOO_LARGE:
        return EffectFailed(f"its result is too large to be kept: {failure.message}")
    return EffectFailed(f"{failure.type}: {failure.message}" if failure.type else failure.message)


def _next_step(details: Any) -> str | None:
    found = _details(details).get("next_step")
    return found if isinstance(found, str) else None


def _details(details: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", details[0]) if details and isinstance(details[0], dict) else {}
