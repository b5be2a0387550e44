"""Reading signals: anybody with access to the namespace may send anything, and none of it may stop a workflow.

Handlers take `*payloads: Any`. With a parameter of their own, a signal with none or two values would fail the
workflow's task, which is then tried for ever.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio import workflow

M = TypeVar("M", bound=BaseModel)


def read_signal(kind: type[M], payloads: tuple[Any, ...]) -> M | None:
    """The one message a signal carries, or None for a signal that is not one of ours."""
    try:
        (payload,) = payloads
        return kind.model_validate(payload)
    except ValueError as error:
        workflow.logger.warning("a signal that is not one %s was ignored: %s", kind.__name__, type(error).__name__)
        return None
