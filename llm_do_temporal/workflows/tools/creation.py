"""`worker_create`: a model makes a worker, once a person has seen the whole definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_do_temporal.messages.activities import (
    DRAFT_WORKER,
    SAVE_WORKER,
    DraftWorkerInput,
    SavedWorker,
    SaveWorkerInput,
)
from llm_do_temporal.messages.definitions import DelegateTool
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.delegation import check_name
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.workflows.runtime.activities import run_activity
from llm_do_temporal.workflows.tools.delegate import Delegator
from llm_do_temporal.workflows.tools.gated_tool import PreparedCall, ToolOutcome, ToolQuestion

_AFTER_REVIEW = "It can be called once a person has reviewed it: call submit_changes, or finish your work."


class WorkerCreate:
    """`worker_create`."""

    name = "worker_create"
    description = (
        "Create a new worker with instructions of its own, for a subtask that no worker you may call fits. "
        "A person sees the whole definition first. It starts with no tools and no files of its own unless the "
        "workshop says otherwise, and can be called at once."
    )

    def __init__(self, delegator: Delegator, made: Callable[[DelegateTool], None]) -> None:
        """`made` is called with the tool for every new worker, once its file is there."""
        self._delegator = delegator
        self._made = made
        optional: dict[str, Any] = {"type": ["string", "null"], "minLength": 1}
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "description": "Lower-case letters, digits, '_' and '-', beginning with a letter.",
                },
                "instructions": {"type": "string", "minLength": 1, "description": "What the worker is told to do."},
                "description": {"type": "string", "description": "One line: what the worker is for."},
                "output_schema_ref": {
                    **optional,
                    "description": "The shape of its result: one that a worker of this workshop uses already.",
                },
                "model": {**optional, "description": "provider:name, or an alias of the workshop."},
            },
            "required": ["name", "instructions", "description"],
            "additionalProperties": False,
        }

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Check the arguments and draft the file; the effect writes exactly that draft."""
        name: str = args["name"]
        check_name(name)
        request = DraftWorkerInput.model_validate(args)
        draft = await run_activity(DRAFT_WORKER, request, summary=f"draft worker {name}")
        use = CapabilityUse(name="worker.create", payload={"definition": draft.text})

        layer = self._delegator.layer
        saving = SaveWorkerInput(name=name, text=draft.text)

        async def save(work: LayerWork | None = None) -> SavedWorker:
            return await run_activity(
                SAVE_WORKER, saving.model_copy(update={"layer": work}), summary=f"save worker {name}"
            )

        async def effect() -> ToolOutcome:
            saved = await (save() if layer is None else layer.change(save))
            description = args["description"].strip()
            tool = DelegateTool(name=name, description=description, takes_attachments=saved.takes_attachments)
            if layer is not None:
                layer.propose(saved.source, draft.text, tool)
                return ToolOutcome({"name": name, "file": saved.source, "note": _AFTER_REVIEW})
            self.offer(tool)
            return ToolOutcome({"name": name, "file": saved.source})

        async def preview() -> str:
            return draft.text

        summary = f"create worker {name} ({draft.source})"
        return PreparedCall((ToolQuestion((use,), args, summary, in_layer=layer is not None),), effect, preview)

    def take_over(self, args: dict[str, Any], value: Any) -> None:
        """See TakesOver. A worker that waited for a review is offered with the review."""
        if isinstance(value, dict) and "note" not in value:
            self.offer(DelegateTool(name=args["name"], description=args["description"].strip()))

    def offer(self, tool: DelegateTool) -> None:
        """Let the caller call a worker that it has made."""
        self._delegator.created[tool.name] = tool
        self._made(tool)
