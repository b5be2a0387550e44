"""Names for the author of a `tools.py`: two decorators, the context of a tool, and the error of a call.

    from llm_do_temporal.tools import ToolContext, idempotent, tool_context

    @idempotent
    def word_count(text: str) -> int:
        "Count the words of a text."
        return len(text.split())

    @tool_context
    async def summarise_both(first: str, second: str, ctx: ToolContext) -> list[str]:
        "Summarise two files side by side."
        return await asyncio.gather(ctx.call_tool("summarizer", first), ctx.call_tool("summarizer", second))

A plain function, `async` or not, runs in the worker service as one activity: it may do whatever Python may, and is
attempted once unless it is `@idempotent`; with `llm_do_temporal.call_worker` it calls workers. A function marked
`@tool_context` orchestrates: it runs in workflow code and is run again from the start when a run is taken up, with the
answers of its calls taken from the history. So it must do the same every time. It reaches the world only through
`ctx.call_tool`; each such call is judged, and perhaps asked about, like a call of the model.

This module needs nothing but the language, so that importing it from a `tools.py` costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NewType, Protocol, TypeVar

from llm_do_temporal.late_names import late_names

if TYPE_CHECKING:
    from llm_do_temporal.args import AttachmentPath, WorkerArgs

__all__ = [
    "AttachmentPath",
    "IdempotencyKey",
    "ToolCallFailed",
    "ToolContext",
    "WorkerArgs",
    "idempotent",
    "is_idempotent",
    "takes_context",
    "tool_context",
]

F = TypeVar("F", bound=Callable[..., Any])

IdempotencyKey = NewType("IdempotencyKey", str)
"""Annotates a parameter that is filled in for the function and never shown to a model: 64 hexadecimal digits that are
the same for every attempt at one call, and different for every other call. Hand it to services that accept one."""

_CONTEXT = "__llm_do_takes_context__"
_IDEMPOTENT = "__llm_do_idempotent__"


class ToolCallFailed(Exception):
    """A call made with `ToolContext.call_tool`, or with `call_worker` in a tool, was refused or failed.

    `str()` of it is what a model would be told.
    """


class ToolContext(Protocol):
    """Handle of a `@tool_context` function: with it the function calls the tools of its worker."""

    @property
    def idempotency_key(self) -> IdempotencyKey:
        """The key of this call of the function."""
        ...

    async def call_tool(
        self,
        name: str,
        input: str | Mapping[str, Any],  # noqa: A002 - the name that authors know
        *,
        attachments: Sequence[str] | None = None,
    ) -> Any:
        """Call a tool of this worker and return its result: text, or any JSON value.

        `input` is the tool's arguments, or a text: then it is the argument `input`, or the only text the tool requires.
        `attachments` are paths in the worker's files, for tools that take them. Raises ToolCallFailed where the call is
        blocked, rejected or fails.
        """
        ...


def tool_context(function: F) -> F:
    """Mark an `async` function that takes a `ToolContext` and calls other tools; it runs in workflow code."""
    setattr(function, _CONTEXT, True)
    return function


def idempotent(function: F) -> F:
    """Mark a function that may run twice for one call: it is tried again after a crash or a lost connection."""
    setattr(function, _IDEMPOTENT, True)
    return function


def takes_context(function: object) -> bool:
    """Whether the function is marked with `tool_context`."""
    return getattr(function, _CONTEXT, False) is True


def is_idempotent(function: object) -> bool:
    """Whether the function is marked with `idempotent`."""
    return getattr(function, _IDEMPOTENT, False) is True


# Typed input needs pydantic; a file that only marks functions does not.
__getattr__ = late_names(__name__, dict.fromkeys(("AttachmentPath", "WorkerArgs"), "llm_do_temporal.args"))
