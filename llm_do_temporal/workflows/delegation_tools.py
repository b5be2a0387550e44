"""The `delegation` toolset: one implementation of calling another worker, with two faces.

`worker_call` names the callee in an argument; a tool per worker has the callee's name. The life of a call:
allow-list, depth, load the callee (which pins it), attachments against the tree and both policies, model,
then the questions for a person, then the child workflow.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from llm_do_temporal.errors import EffectFailed, LlmDoError, RunAborted
from llm_do_temporal.messages import (
    AttachedFile,
    DelegateTool,
    InvokeWorkerInput,
    LoadWorkerInput,
    PinnedWorker,
    SnapshotInput,
    SnapshotResult,
)
from llm_do_temporal.policy.approvals import CapabilityUse
from llm_do_temporal.policy.attachments import Attachment, check_attachment_names, check_attachments
from llm_do_temporal.policy.delegation import check_allowed, check_depth
from llm_do_temporal.policy.models import resolve_model
from llm_do_temporal.policy.sandbox import Place, check_readable, check_size, locate, narrow
from llm_do_temporal.workflows.effects import run_effect
from llm_do_temporal.workflows.failures import spent_before
from llm_do_temporal.workflows.gate import GatedTool, Outcome, Prepared, Question
from llm_do_temporal.workflows.invoking import run_invocation

_ATTACHMENTS = {
    "type": ["array", "null"],
    "items": {"type": "string", "minLength": 1},
    "description": "Paths of files in your file tree to hand over, like /pipeline/deck.pdf.",
}


@dataclass
class Delegator:
    """Carries out the delegations of one invocation."""

    caller: InvokeWorkerInput
    _calls: Counter[str] = field(default_factory=Counter[str])

    async def prepare(self, callee: str, allow: tuple[str, ...], args: dict[str, Any], given: Any) -> Prepared:
        """Check a call of `callee` with the tool's `args`, of which `given` is the input."""
        caller = self.caller
        check_allowed(callee, allow, caller=caller.worker.name)
        check_depth(caller.depth + 1, caller.settings.max_depth, worker=callee)
        worker = await run_effect(
            "load_worker", LoadWorkerInput(name=callee), PinnedWorker, summary=f"load worker {callee}"
        )
        tree = narrow(caller.tree, worker.sandbox, workshop_has_sandbox=caller.settings.workshop_has_sandbox)
        model = resolve_model(
            caller.settings.models,
            worker=worker.name,
            worker_model=worker.model,
            caller_model=caller.model,
            compatible=worker.compatible_models,
        )
        places = [locate(caller.tree, path) for path in args.get("attachments") or ()]
        attachments = await self._snapshot(worker, places)
        questions = [
            *_sharing_questions(worker, places, attachments),
            _call_question(worker.name, args, given, attachments),
        ]

        async def effect() -> Outcome:
            self._calls[worker.name] += 1
            invocation = InvokeWorkerInput(
                run=caller.run,
                path=f"{caller.path}/{worker.name}-{self._calls[worker.name]}",
                depth=caller.depth + 1,
                worker=worker,
                settings=caller.settings,
                tree=tree,
                model=model,
                prompt=given if isinstance(given, str) else "",
                input=None if isinstance(given, str) else given,
                attachments=attachments,
            )
            try:
                result = await run_invocation(invocation)
            except RunAborted:
                raise
            except LlmDoError as error:
                failure = EffectFailed(f"worker '{worker.name}' failed: {error}", next_step=error.next_step)
                return Outcome(usage=spent_before(error), failure=failure)
            return Outcome(result.output, result.usage)

        return Prepared(tuple(questions), effect)

    async def _snapshot(self, worker: PinnedWorker, places: list[Place]) -> tuple[Attachment, ...]:
        """The files as they are now, in the blob store, judged by both policies."""
        if not places:
            return ()
        own, theirs = self.caller.worker.attachment_policy, worker.attachment_policy
        paths = [place.path for place in places]
        check_attachment_names(own, paths, whose=f"worker '{self.caller.worker.name}'")
        check_attachment_names(theirs, paths, whose=f"worker '{worker.name}'")
        for place in places:
            check_readable(place)
        request = SnapshotInput(
            files=tuple(AttachedFile(mount=p.mount, relative=p.relative, path=p.path) for p in places),
            max_total_bytes=min(own.max_total_bytes, theirs.max_total_bytes),
        )
        found = await run_effect(
            "snapshot_attachments", request, SnapshotResult, summary=f"snapshot {', '.join(paths)}"
        )
        for place, attachment in zip(places, found.attachments, strict=True):
            check_size(place, attachment.bytes)
        check_attachments(own, found.attachments, whose=f"worker '{self.caller.worker.name}'")
        check_attachments(theirs, found.attachments, whose=f"worker '{worker.name}'")
        return found.attachments


def _sharing_questions(
    worker: PinnedWorker, places: list[Place], attachments: tuple[Attachment, ...]
) -> list[Question]:
    questions: list[Question] = []
    for place, attachment in zip(places, attachments, strict=True):
        payload = {"path": attachment.path, "bytes": attachment.bytes, "target_worker": worker.name}
        use = CapabilityUse(name="sandbox.read", payload=payload, asks=place.mount.read_approval)
        summary = f"share {attachment.path} ({attachment.bytes} bytes) with {worker.name}"
        questions.append(Question((use,), payload, summary, changeable=False))
    return questions


def _call_question(worker: str, args: dict[str, Any], given: Any, attachments: tuple[Attachment, ...]) -> Question:
    paths = [attachment.path for attachment in attachments]
    payload = {"worker": worker, "input": given, "attachments": paths}
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    summary = f"call {worker}" + (f" with {', '.join(paths)}" if paths else "") + f": {text[:120]}"
    return Question((CapabilityUse(name="worker.call", payload=payload),), args, summary)


@dataclass
class WorkerCall:
    """`worker_call`: the generic face."""

    delegator: Delegator
    allow: tuple[str, ...]
    name: str = "worker_call"

    def __post_init__(self) -> None:
        allowed = "any worker of the workshop" if "*" in self.allow else ", ".join(self.allow) or "nobody"
        self.description = f"Call another worker to delegate a subtask, and get its result. You may call: {allowed}."
        names = {"type": "string", "minLength": 1}
        if self.allow and "*" not in self.allow:
            names = {"type": "string", "description": f"One of: {', '.join(self.allow)}."}
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "worker_name": names,
                "input_data": {
                    "anyOf": [{"type": "string"}, {"type": "object"}],
                    "description": "What the worker is given: text, or an object.",
                },
                "attachments": _ATTACHMENTS,
            },
            "required": ["worker_name", "input_data"],
            "additionalProperties": False,
        }

    async def prepare(self, args: dict[str, Any]) -> Prepared:
        """See Delegator.prepare."""
        return await self.delegator.prepare(args["worker_name"], self.allow, args, args["input_data"])


class NamedWorker:
    """A tool that calls one worker and has its name."""

    def __init__(self, delegator: Delegator, tool: DelegateTool) -> None:
        self._delegator = delegator
        self.name = tool.name
        self.description = tool.description or f"Call the worker {tool.name} to delegate a subtask."
        properties: dict[str, Any] = {"input": {"type": "string", "description": "What the worker is asked to do."}}
        if tool.takes_attachments:
            properties["attachments"] = _ATTACHMENTS
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": ["input"],
            "additionalProperties": False,
        }

    async def prepare(self, args: dict[str, Any]) -> Prepared:
        """See Delegator.prepare."""
        return await self._delegator.prepare(self.name, (self.name,), args, args["input"])


def delegation_tools(delegator: Delegator) -> list[GatedTool]:
    """The delegation tools the caller's definition asks for."""
    toolset = delegator.caller.worker.delegation
    if toolset is None:
        return []
    tools: list[GatedTool] = [NamedWorker(delegator, tool) for tool in toolset.tools]
    if toolset.allow_workers is not None:
        tools.append(WorkerCall(delegator, toolset.allow_workers))
    return tools
