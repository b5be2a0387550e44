"""Payloads that workflows are sent: anybody with access to the namespace may send anything, and nothing sent may stop
a workflow.

Handlers take `*payloads: Any`. With a parameter of their own, a signal with none or two values would fail the
task of the workflow, which is then tried for ever, and an update would be answered in the words of another project.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import workflow

from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.json_schema import Steps
from llm_do_temporal.messages.runs import StartRunInput

M = TypeVar("M", bound=BaseModel)


def read_signal(kind: type[M], payloads: tuple[Any, ...]) -> M | None:
    """Return the message of a signal, or None for a signal with anything else in it, which is logged."""
    try:
        (payload,) = payloads
        return kind.model_validate(payload)
    except ValueError as error:
        workflow.logger.warning("a signal that is not one %s was ignored: %s", kind.__name__, type(error).__name__)
        return None


def read_one(kind: type[M], payloads: tuple[Any, ...], what: str) -> M:
    """Return the message of a signal; `what` names it in errors. Raises DecisionRefused, or ValidationError.

    `malformed` puts both into words.
    """
    if len(payloads) != 1:
        raise DecisionRefused(f"malformed {what}: it is one object, and {len(payloads)} values were sent")
    return kind.model_validate(payloads[0])


def read_update(kind: type[M], payloads: tuple[Any, ...], what: str) -> M:
    """Return the message of an update; `what` names it in errors. Raises DecisionRefused."""
    try:
        return read_one(kind, payloads, what)
    except ValidationError as error:
        raise DecisionRefused(malformed(what, error)) from error


def read_start(payload: Any) -> StartRunInput:
    """Return the input of a run. Raises UsageError for a payload that is none."""
    try:
        return StartRunInput.model_validate(payload)
    except ValidationError as error:
        raise UsageError(malformed("start", error)) from error


def malformed(what: str, error: Exception) -> str:
    """Describe the problems of a payload in a line, without its contents; `what` names the payload."""
    if not isinstance(error, ValidationError):
        return str(error)
    problems = error.errors(include_url=False, include_input=False)[:5]
    listed = [
        ": ".join(filter(None, (".".join(map(str, problem["loc"]))[:100], problem["msg"]))) for problem in problems
    ]
    return f"malformed {what}: {'; '.join(listed)}"


class TaskSteps:
    """Steps for the checks of one kind of message."""

    def __init__(self) -> None:
        self._task = -1
        """Length of the history at the start of the task to which the steps belong; -1: there was no task."""
        self._steps = Steps()

    def of_this_task(self) -> Steps:
        """Return the steps that are left in this task."""
        task = workflow.info().get_current_history_length()
        if task != self._task:
            self._task, self._steps = task, Steps()
        return self._steps
