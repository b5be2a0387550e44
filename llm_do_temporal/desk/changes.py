"""Arguments that a decision puts in the place of a call's, and whether it may."""

from __future__ import annotations

from typing import Protocol

from llm_do_temporal.errors import DecisionRefused, Refusal
from llm_do_temporal.json_schema import Steps, schema_problems
from llm_do_temporal.messages.approvals import Decision, DecisionKind, RequestApprovalInput
from llm_do_temporal.messages.sizes import MAX_CALL_BYTES
from llm_do_temporal.policy.files.protection import PATH_TOOLS, judge_path
from llm_do_temporal.policy.values import canonical


class Asked(Protocol):
    """Question, as far as it says which answers fit it."""

    @property
    def id(self) -> str:
        """Id of the question, like `a3`."""
        ...

    @property
    def request(self) -> RequestApprovalInput:
        """Call that people are asked about."""
        ...


def check_change(approval: Asked, decision: Decision, steps: Steps | None = None) -> None:
    """Raise DecisionRefused where a decision has arguments that the call cannot take, or lacks them.

    The check takes `steps`; None: those of one validation.
    """
    if decision.decision is not DecisionKind.MODIFY:
        if decision.args is not None:
            raise DecisionRefused("`args` belong to a `modify`; to change the call send decision 'modify'")
        return
    if decision.args is None:
        raise DecisionRefused("a `modify` needs the new arguments in `args`")
    schema = approval.request.args_schema
    if schema is None:
        raise DecisionRefused(f"approval '{approval.id}' cannot be changed, only approved or rejected")
    size = len(canonical(decision.args).encode())
    if size > MAX_CALL_BYTES:
        raise DecisionRefused(f"the new arguments have {size} bytes; at most {MAX_CALL_BYTES} are accepted")
    problems = schema_problems(schema, decision.args, steps)
    if problems:
        raise DecisionRefused(f"the new arguments are not valid: {'; '.join(problems[:5])}")
    if approval.request.tool in PATH_TOOLS:
        try:
            judge_path(approval.request.tool, approval.request.tree, decision.args)
        except Refusal as refusal:
            raise DecisionRefused(f"policy refuses the new arguments: {refusal}") from refusal
