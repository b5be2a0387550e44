"""Reading what workflows are sent: anybody with access to the namespace may send anything, and none may stop one.

Handlers of signals take `*payloads: Any`. With a parameter of their own, a signal with none or two values would fail
the workflow's task, which is then tried for ever.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import workflow

from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.messages.runs import StartRunInput

M = TypeVar("M", bound=BaseModel)


def read_signal(kind: type[M], payloads: tuple[Any, ...]) -> M | None:
    """The one message a signal carries, or None for a signal that is not one of ours."""
    try:
        (payload,) = payloads
        return kind.model_validate(payload)
    except ValueError as error:
        workflow.logger.warning("a signal that is not one %s was ignored: %s", kind.__name__, type(error).__name__)
        return None


def read_one(kind: type[M], payloads: tuple[Any, ...], what: str) -> M:
    """The one message a signal carries. Raises DecisionRefused, or ValidationError; `malformed` puts it into words."""
    if len(payloads) != 1:
        raise DecisionRefused(f"malformed {what}: it is one object, and {len(payloads)} values were sent")
    return kind.model_validate(payloads[0])


def read_start(payload: Any) -> StartRunInput:
    """What a run is to do. Raises UsageError."""
    try:
        return StartRunInput.model_validate(payload)
    except ValidationError as error:
        raise UsageError(malformed("start", error)) from error


def malformed(what: str, error: Exception) -> str:
    """What is wrong with something that was sent, in one line, without what was sent."""
    if not isinstance(error, ValidationError):
        return str(error)
    problems = error.errors(include_url=False, include_input=False)[:5]
    listed = [": ".join(filter(None, (".".join(map(str, one["loc"]))[:100], one["msg"]))) for one in problems]
    return f"malformed {what}: {'; '.join(listed)}"
