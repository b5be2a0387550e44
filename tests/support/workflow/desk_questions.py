"""Questions, decisions and desks for the tests of this folder."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from llm_do_temporal.desk import state as desk
from llm_do_temporal.messages.approvals import (
    Approval,
    Decision,
    DeskState,
    RequestApprovalInput,
    WithdrawApprovalsInput,
)
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.values import CapabilityUse

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
WHOLE = Tree(mounts=(Mount(at="/", root="."),))
WRITE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
    "additionalProperties": False,
}


def write(path: str = "/a.txt", content: str = "hi", **more: Any) -> RequestApprovalInput:
    """The question about a `write_file`."""
    args = {"path": path, "content": content}
    use = CapabilityUse(name="sandbox.write", payload={"path": path, "bytes": len(content)})
    return request(tool="write_file", args=args, args_schema=WRITE_SCHEMA, capabilities=(use,), **more)


def request(**more: Any) -> RequestApprovalInput:
    """A question about a call of `evaluator`."""
    plain: dict[str, Any] = {
        "invocation": "run",
        "key": "1",
        "worker": "main",
        "path": "main",
        "tool": "evaluator",
        "args": {"input": "go"},
        "tree": WHOLE,
        "capabilities": (CapabilityUse(name="worker.call", payload={"worker": "evaluator"}),),
        "summary": "call evaluator",
    }
    return RequestApprovalInput.model_validate(plain | more)


def asked(*questions: RequestApprovalInput) -> DeskState:
    """A desk where these were asked, at noon."""
    state = DeskState()
    for question in questions:
        state, _ = desk.with_request(state, question, now=NOON)
    return state


def decided(state: DeskState, **decision: Any) -> tuple[DeskState, list[Approval]]:
    """The desk after a decision taken by signal at five past noon, and what it answered."""
    taken = Decision.model_validate({"decision": "approve", **decision})
    return desk.with_decision(state, taken, door="signal", now=LATER)


def withdrawn(state: DeskState, *keys: str, invocation: str = "run") -> DeskState:
    """The desk after an invocation took these questions back."""
    return desk.with_withdrawal(state, WithdrawApprovalsInput(invocation=invocation, keys=keys))
