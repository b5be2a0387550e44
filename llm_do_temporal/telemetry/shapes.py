"""Names of a run's spans and the attributes that every trace of it has.

Shared by the spans of a run that goes on (`workflows.runtime.spans`) and by traces made from histories
(`client.traces`), so that both can be read by the same queries; each adds the attributes that only it knows. Each
function returns the name of a span and its attributes; None stands for an attribute that the span does not have.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from llm_do_temporal.telemetry.contents import model_attributes

Shape: TypeAlias = tuple[str, dict[str, Any]]
"""Name of a span, and its attributes."""


def run_shape(run: str, worker: str) -> Shape:
    """Return the shape of a whole run: `run` is its id, `worker` the name of its entry."""
    return f"run {worker}", {"llm_do.run": run, "llm_do.worker": worker}


def invocation_shape(worker: str, *, workflow_id: str, path: str, depth: int, sha256: object, model: str) -> Shape:
    """Return the shape of one invocation of a worker.

    `sha256` is the digest of the worker's definition, `model` the `provider:name` that is asked first.
    """
    return f"invoke_agent {worker}", {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": worker,
        "gen_ai.conversation.id": workflow_id,
        "llm_do.path": path,
        "llm_do.depth": depth,
        "llm_do.worker.sha256": sha256,
        **model_attributes(model),
    }


def turn_shape(workflow_id: str, model: str | None) -> Shape:
    """Return the shape of one turn; `model` is the `provider:name` that is asked, None before that is known."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": workflow_id}
    if model is None:
        return "chat", attributes
    known = model_attributes(model)
    return f"chat {known['gen_ai.request.model']}", attributes | known


def tool_shape(tool: str, call_id: str | None) -> Shape:
    """Return the shape of one tool call."""
    return f"execute_tool {tool}", {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id,
    }


def approval_shape(tool: object) -> Shape:
    """Return the shape of a question for a person about a call of `tool`."""
    return "approval", {"llm_do.tool": tool}
