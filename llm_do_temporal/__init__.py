"""LLM workers as small files, run as durable Temporal workflows with precise human approvals.

`run_worker` and `call_worker` are the way in for Python, `CallerContext` what a toolset knows of its run,
`tool_context` and `ToolContext` what a `tools.py` that orchestrates needs. They are loaded when they are first used, so
that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_do_temporal.late_names import late_names

if TYPE_CHECKING:
    from llm_do_temporal.callers import CallerContext, WorkerCall, WorkerRunResult
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.connections import Connection
    from llm_do_temporal.client.history.questions import Question
    from llm_do_temporal.client.run_worker import TemplateCall, call_worker, run_worker
    from llm_do_temporal.messages.approvals import Decision
    from llm_do_temporal.tools import ToolCallFailed, ToolContext, tool_context

__version__ = "0.1.0"
__all__ = [
    "CallerContext",
    "Connection",
    "Decision",
    "LlmDoClient",
    "Question",
    "TemplateCall",
    "ToolCallFailed",
    "ToolContext",
    "WorkerCall",
    "WorkerRunResult",
    "call_worker",
    "run_worker",
    "tool_context",
]
_HOMES = {
    "CallerContext": "llm_do_temporal.callers",
    "Connection": "llm_do_temporal.client.connections",
    "Decision": "llm_do_temporal.messages.approvals",
    "LlmDoClient": "llm_do_temporal.client.client",
    "Question": "llm_do_temporal.client.history.questions",
    "TemplateCall": "llm_do_temporal.client.run_worker",
    "ToolCallFailed": "llm_do_temporal.tools",
    "ToolContext": "llm_do_temporal.tools",
    "WorkerCall": "llm_do_temporal.callers",
    "WorkerRunResult": "llm_do_temporal.callers",
    "call_worker": "llm_do_temporal.client.run_worker",
    "run_worker": "llm_do_temporal.client.run_worker",
    "tool_context": "llm_do_temporal.tools",
}
__getattr__ = late_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """All names, those that are not loaded yet among them."""
    return sorted({*globals(), *__all__})
