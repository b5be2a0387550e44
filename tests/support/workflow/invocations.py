"""Invocations as workflows get them."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.approvals import ApprovalRules, Mode
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.models import ModelSources


def invocation(
    path: str = "main", *, mode: Mode = Mode.INTERACTIVE, limits: Limits | None = None, **more: Any
) -> InvokeWorkerInput:
    """Return the input of an invocation in run `r`; `limits` are those of its worker."""
    worker = PinnedWorker(name="w", source="w", sha256="", instructions="", limits=limits or Limits())
    settings = RunSettings(mode=mode, rules=ApprovalRules(), models=ModelSources())
    fields: dict[str, Any] = {"worker": worker, "settings": settings, "tree": Tree(), "model": "p:a", **more}
    return InvokeWorkerInput(run="r", path=path, depth=path.count("/"), **fields)
