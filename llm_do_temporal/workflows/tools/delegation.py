"""The tools of the `delegation` toolset.

`worker_call` names the callee in an argument; a tool per worker has the callee's name. Templates and the making
of workers have modules of their own. The life of a call is in `delegate`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llm_do_temporal.messages.definitions import DelegateTool
from llm_do_temporal.workflows.tools.creation import WorkerCreate
from llm_do_temporal.workflows.tools.delegate import Delegator
from llm_do_temporal.workflows.tools.gated_tool import GatedTool, PreparedCall
from llm_do_temporal.workflows.tools.templates import TemplateTool

_ATTACHMENTS = {
    "type": ["array", "null"],
    "items": {"type": "string", "minLength": 1},
    "description": "Paths of files in your file tree to hand over, like /pipeline/deck.pdf.",
}


@dataclass
class WorkerCallTool:
    """`worker_call`: a call of any worker of an allow-list."""

    delegator: Delegator
    allow: tuple[str, ...]
    creates: bool = False
    """Whether the caller may make workers, which it may then call."""
    name: str = "worker_call"

    def __post_init__(self) -> None:
        allowed = "any worker of the workshop" if "*" in self.allow else ", ".join(self.allow) or "nobody"
        more = ", and any worker that you have made with worker_create" if self.creates else ""
        self.description = (
            f"Call another worker to delegate a subtask, and get its result. You may call: {allowed}{more}."
        )
        names = {"type": "string", "minLength": 1}
        if self.allow and "*" not in self.allow:
            names = {"type": "string", "description": f"One of: {', '.join(self.allow)}{more}."}
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "worker_name": names,
                "input_data": {
                    "anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": True}],
                    "description": "What the worker is given: text, or an object.",
                },
                "attachments": _ATTACHMENTS,
            },
            "required": ["worker_name", "input_data"],
            "additionalProperties": False,
        }

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """See Delegator.prepare."""
        allow = (*self.allow, *sorted(self.delegator.created))
        return await self.delegator.prepare(args["worker_name"], allow, args, args["input_data"])


class NamedWorker:
    """Tool that calls a certain worker and has its name."""

    def __init__(self, delegator: Delegator, tool: DelegateTool) -> None:
        self._delegator = delegator
        self._typed = tool.input_schema is not None
        self.name = tool.name
        self.description = tool.description or f"Call the worker {tool.name} to delegate a subtask."
        plain = {"input": {"type": "string", "description": "What the worker is asked to do."}}
        given: dict[str, Any] = tool.input_schema or {"properties": plain, "required": ["input"]}
        attachments = {"attachments": _ATTACHMENTS} if tool.takes_attachments else {}
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {**given["properties"], **attachments},
            "required": list(given.get("required", ())),
            "additionalProperties": False,
        }
        if "$defs" in given:
            self.schema["$defs"] = given["$defs"]

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """See Delegator.prepare."""
        fields = {name: value for name, value in args.items() if name != "attachments"}
        return await self._delegator.prepare(self.name, (self.name,), args, fields if self._typed else args["input"])


def delegation_tools(delegator: Delegator, offer: Callable[[GatedTool], None]) -> list[GatedTool]:
    """Return the delegation tools that the caller's definition asks for.

    `offer` is called with one more for each worker that the caller makes and could not call otherwise.
    """
    toolset = delegator.caller.worker.delegation
    if toolset is None:
        return []
    tools: list[GatedTool] = [NamedWorker(delegator, tool) for tool in toolset.tools]
    if toolset.allow_workers is not None:
        tools.append(WorkerCallTool(delegator, toolset.allow_workers, toolset.create))
    if toolset.create:
        has_generic = toolset.allow_workers is not None
        tools.append(WorkerCreate(delegator, lambda made: None if has_generic else offer(NamedWorker(delegator, made))))
        if not has_generic:
            tools += [NamedWorker(delegator, made) for made in delegator.created.values()]
    if toolset.templates is not None:
        tools.append(TemplateTool(delegator, toolset.templates))
    return tools
