"""Questions, decisions, and the state of the desk."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from llm_do_temporal.messages.base import Message, Strict
from llm_do_temporal.policy.approvals import CapabilityUse
from llm_do_temporal.policy.ledger import Ledger
from llm_do_temporal.policy.sandbox import Tree


class DecisionKind(StrEnum):
    """What a person can answer."""

    APPROVE = "approve"
    REJECT = "reject"
    MODIFY = "modify"


class Remember(StrEnum):
    """How long a decision holds for identical calls."""

    NONE = "none"
    SESSION = "session"


class Decision(Strict):
    """Payload of the signal `decide` and of the update `decide_now`."""

    id: str | None = None
    """Which approval, like `a3`; may be left out while exactly one is pending."""
    decision: DecisionKind
    args: dict[str, Any] | None = None
    """The new arguments, for `modify`."""
    note: str = ""
    """For `reject`, the reason that the model is told."""
    remember: Remember = Remember.NONE
    by: str = ""
    """Who decides."""


class RequestApprovalInput(Message):
    """Signal `request_approval`, from an invocation to the desk."""

    invocation: str
    """Workflow id of the invocation that asks."""
    key: str
    """Names the question within the invocation."""
    worker: str
    path: str
    tool: str
    args: dict[str, Any]
    args_schema: dict[str, Any] | None = None
    """JSON Schema that changed arguments must meet; None: the arguments cannot be changed."""
    tree: Tree = Tree()
    """The asking invocation's files, so that changed paths can be judged at once."""
    capabilities: tuple[CapabilityUse, ...]
    summary: str
    """One line of what the call is about."""
    diff: str | None = None
    """For writes: what would change, as a unified diff."""
    reason: str = ""
    account: str | None = None
    """For the question at a reached limit: whose limit it is; empty for the run's."""


class WithdrawApprovalsInput(Message):
    """Signal `withdraw_approvals`: an invocation no longer waits for these answers."""

    invocation: str
    keys: tuple[str, ...]
    closed: bool = False
    """Whether it waits for no answer at all any more, whatever it asked; `keys` says nothing then."""

    def covers(self, invocation: str, key: str) -> bool:
        """Whether the question of this key, from this invocation, is among them."""
        return invocation == self.invocation and (self.closed or key in self.keys)


class Verdict(Message):
    """A decision as it was taken, for the audit trail."""

    decision: DecisionKind
    args: dict[str, Any]
    """The arguments after the decision."""
    note: str = ""
    by: str = ""
    at: datetime
    door: Literal["signal", "update", "grant"]
    remember: Remember = Remember.NONE


class DeliverDecisionInput(Message):
    """Signal `deliver_decision`, from the desk to the invocation that asked."""

    key: str
    id: str
    verdict: Verdict


class Approval(Message):
    """One question at the desk, decided or not."""

    id: str
    asked_at: datetime
    request: RequestApprovalInput
    verdict: Verdict | None = None
    withdrawn: bool = False


class Grant(Message):
    """A remembered decision: identical calls, of anybody in the run, get the same answer."""

    tool: str
    canonical_args: str
    approval: str
    """Id of the approval it came from."""
    verdict: Verdict


class IgnoredDecision(Message):
    """A signal `decide` that could not be carried out; kept, so that nobody wonders where it went."""

    at: datetime
    reason: str


class DeskState(Message):
    """All a desk knows; answers the query `desk` and is what a continued run starts from."""

    approvals: tuple[Approval, ...] = ()
    grants: tuple[Grant, ...] = ()
    ignored: tuple[IgnoredDecision, ...] = ()
    ledger: Ledger = Ledger()
    """What limits there are and what stands against them; only what is limited is counted."""
    earlier: int = 0
    """Questions that were asked, and are settled, before the desk's workflow was continued as new."""


class PendingApprovalMemo(Message):
    """One entry of the memo `llm_do_pending`, readable while no worker service runs."""

    id: str
    invocation: str
    key: str
    worker: str
    path: str
    tool: str
    summary: str
    asked_at: datetime
