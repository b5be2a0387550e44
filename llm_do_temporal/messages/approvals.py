"""Questions, decisions, and the state of the desk."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from llm_do_temporal.environment import MAX_UNDO_SECONDS
from llm_do_temporal.messages.base import Json, Message, Strict, is_empty, is_none, is_zero
from llm_do_temporal.messages.budget import Waits
from llm_do_temporal.messages.sizes import SUMMARY_CHARS
from llm_do_temporal.policy.approvals import OnTimeout
from llm_do_temporal.policy.budget import Ledger
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.groups import CallGroup, group_of
from llm_do_temporal.policy.identity import IDENTITY_VERSION, SeenFile, changes_nothing, digest_of, identity_of
from llm_do_temporal.policy.kinds.kind import AskedCall, GrantedKind, KindGrant
from llm_do_temporal.policy.values import CapabilityUse


class ScriptedAnswer(Message):
    """Answer of the desk to the questions that it fits, of which the first that fits is taken."""

    tool: str = ""
    """Tool of the question; empty: any."""
    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the call that the question is about; empty: any call."""
    shown: str = Field(default="", exclude_if=is_empty)
    """Digest of what the question shows, whoever asks; empty: whatever it shows."""
    decision: Literal["approve", "reject", "modify"]
    args: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    """Arguments in the place of the call's, for `modify`."""
    note: str = ""
    """Reason that the model is told, for `reject`."""
    by: str = ""
    """Name of the person who decided, or of the script."""
    source: str = Field(default="", exclude_if=is_empty)
    """Approval that it comes from, like `RUN a3`; empty: it was written for this run."""
    left: int | None = Field(default=None, exclude_if=is_none)
    """Number of questions that it still answers; None: any number."""


PROGRAM = "program:"
"""Beginning of the names of programs in runs and decisions; no person's name begins so."""


class DecisionKind(StrEnum):
    """Kinds of answers that a person can give."""

    APPROVE = "approve"
    REJECT = "reject"
    MODIFY = "modify"

    @property
    def done(self) -> str:
        """The words by which people know a call that got this answer."""
        words = {DecisionKind.APPROVE: "approved", DecisionKind.REJECT: "rejected"}
        return words.get(self, "changed and approved")


class Remember(StrEnum):
    """Time for which a decision holds for identical calls."""

    NONE = "none"
    SESSION = "session"


class Decision(Strict):
    """Payload of the signal `decide` and of the update `decide_now`."""

    id: str | None = None
    """Which approval, like `a3`; may be left out while exactly one is pending, or with `digest`."""
    decision: DecisionKind | None
    """None: takes back the sender's own decision, which has not taken effect; needs an `id`."""
    digest: str | None = None
    """Digest of the question that was shown; the decision is refused if the approval has another one."""
    args: dict[str, Any] | None = None
    """The new arguments, for `modify`."""
    note: str = ""
    """Reason that the model is told, for `reject`."""
    remember: Remember = Remember.NONE
    by: str = ""
    """Name of the person who decides."""
    grant: KindGrant | None = Field(default=None, exclude_if=is_none)
    """Further calls that an `approve` agrees to; None: none."""
    hold: int = Field(default=0, ge=0, le=MAX_UNDO_SECONDS, strict=True, exclude_if=is_zero)
    """Seconds until the decision takes effect; until then its author replaces it by another one. 0: at once."""
    key: str = Field(default="", max_length=40, exclude_if=is_empty)
    """Random name that all copies of one decision share: a copy that comes late is refused. Empty: it has none."""
    via: str = Field(default="", max_length=20, exclude_if=is_empty)
    """Protocol that carried the decision for whoever decides, like `mcp`; empty: none of the doors for programs."""


class ExtensionQuestion(Message):
    """Question that an extension asks by itself, and shows in its own way."""

    name: str
    """Name of the extension."""
    shown: Json
    """Value with all that is shown."""


class RequestApprovalInput(Message):
    """Signal `request_approval`, from an invocation to the desk."""

    invocation: str
    """Workflow id of the invocation that asks."""
    execution: str = Field(default="", exclude_if=is_empty)
    """Run id of the invocation's first execution, which no later run with its id has."""
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
    """Subject of the call, in one line."""
    diff: str | None = None
    """Change that a write would make, as a unified diff; None if there is none to show."""
    attachments: tuple[Attachment, ...] = ()
    """Files that the call hands over, as they were when it was judged."""
    files: tuple[SeenFile, ...] = ()
    """Files that the call names, as they were when it was judged and shown."""
    circumstances: str = ""
    """Digest of what else the call's effect depends on: a callee's definition, the folders that a command sees."""
    surroundings: str = Field(default="", exclude_if=is_empty)
    """Digest of that part of it which calls of one kind have in common."""
    allowed: str = Field(default="", exclude_if=is_empty)
    """Entry of `approvals: allow:` that lets the call through, in words; empty: none does."""
    identity_version: int = IDENTITY_VERSION
    """Version of `identity` and `digest`."""
    reason: str = ""
    again: str = Field(default="", exclude_if=is_empty)
    """Id of the approval that was given to the same call, or to changes of the same review, and that was not carried
    out: `reason` says why; empty: it is the first about this."""
    account: str | None = None
    """Account whose limit was reached, for the question at a limit; empty for the run's. None for other questions."""
    approvers: tuple[str, ...] = ()
    """Names of the people who may decide; empty if everybody may."""
    quorum: int = 1
    """Number of different people who must agree."""
    forbid_own: bool = False
    """Whether the one who started the run may not agree."""
    timeout_seconds: int | None = None
    """Seconds for which people are waited for; None for no end."""
    deadline: AwareDatetime | None = None
    """Time at which that waiting ends."""
    on_timeout: OnTimeout = "reject"
    """Consequence of the deadline: the call is refused, or the asking invocation fails."""
    remind_at: AwareDatetime | None = None
    model: str = ""
    """The model that wants it, for metrics."""
    generated: bool = False
    """Whether a model made the worker, for metrics too."""
    item: str = Field(default="", exclude_if=is_empty)
    """Name of the batch's item that the asking invocation works on; empty in any other run."""
    extension: ExtensionQuestion | None = Field(default=None, exclude_if=is_none)
    """Subject of a question that an extension asks by itself; None: it is about a call of a tool, or a limit."""
    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the call that it is about; see `policy.identity`. Empty: it has none."""

    @property
    def place(self) -> str:
        """Place of the asking invocation in the tree, of a batch with the name of the item."""
        return f"{self.path} ({self.item})" if self.item else self.path

    @property
    def names_people(self) -> bool:
        """Whether it matters who agrees."""
        return bool(self.approvers) or self.quorum > 1 or self.forbid_own

    @property
    def whom(self) -> tuple[Any, ...]:
        """The people who must agree, in a form that can be compared; empty where it does not matter who agrees."""
        return (sorted(self.approvers), self.quorum, self.forbid_own) if self.names_people else ()

    @property
    def call(self) -> AskedCall:
        """The call, as kinds of calls are held against it."""
        return AskedCall(
            tool=self.tool,
            args=self.args,
            uses=self.capabilities,
            tree=self.tree,
            files=self.files,
            attachments=self.attachments,
            worker=self.worker,
            circumstances=self.circumstances,
            surroundings=self.surroundings,
        )

    @property
    def group(self) -> CallGroup:
        """Group of questions that can be decided together with this one."""
        return group_of(self.tool, self.args, self.capabilities, self.tree)

    @property
    def identity(self) -> str:
        """Text that identical calls have in common; see `policy.identity`."""
        return self._identity(done=False)

    @property
    def identity_when_done(self) -> str | None:
        """Identity of the call once all that it changes is so already; None if nothing is known of its files."""
        known = any(one.after for one in self.files)
        return self._identity(done=True) if known else None

    @property
    def changes_nothing(self) -> bool:
        """Whether all that the call would change is so already."""
        return changes_nothing(self.files)

    @property
    def digest(self) -> str:
        """Digest of all that was shown and of the asking invocation: no two questions share one.

        A run that was deleted and started again under its id asks other questions, equal as they may be.
        """
        named = (self.capabilities, self.files, self.attachments)
        uses, files, attached = ([one.model_dump(mode="json") for one in each] for each in named)
        who = [self.invocation, self.key, self.worker, self.path]
        what = [self.tool, self.args, uses, self.summary, self.diff, files, attached, self.circumstances]
        more: list[Any] = [] if self.extension is None else [self.extension.model_dump(mode="json")]
        if self.execution:
            more.append(self.execution)
        return digest_of([self.identity_version, who, what, *more])

    def _identity(self, *, done: bool) -> str:
        whom = [list(self.whom)] if self.whom else []
        return identity_of(
            self.tool,
            self.args,
            self.capabilities,
            version=self.identity_version,
            tree=self.tree,
            files=self.files,
            attachments=self.attachments,
            circumstances=self.circumstances,
            whom=whom,
            done=done,
        )


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
    door: Literal["signal", "update", "grant", "rule", "timer", "script"]
    """Way of the decision: of a person, a grant, an entry of `approvals: allow:`, nobody in time, or a script."""
    remember: Remember = Remember.NONE
    digest: str | None = None
    """Digest of the question, if the decision named it."""
    grant: KindGrant | None = Field(default=None, exclude_if=is_none)
    """Further calls that the decision agrees to; None: none."""
    granted_by: str | None = Field(default=None, exclude_if=is_none)
    """Approval that a `grant` came from, or that a `script` repeats, like `RUN a3`; None: there is or was none."""
    effective_at: datetime | None = Field(default=None, exclude_if=is_none)
    """Time at which the decision takes effect, or took it, if it was held; None: at once."""
    via: str = Field(default="", exclude_if=is_empty)
    """Protocol that carried a person's decision, like `mcp`; empty: none of the doors for programs."""
    approval: str = Field(default="", exclude=True)
    """Id of the approval that it answers, for the invocation that asked; empty anywhere else."""


class DeliverDecisionInput(Message):
    """Signal `deliver_decision`, from the desk to the invocation that asked."""

    key: str
    id: str
    verdict: Verdict
    votes: tuple[Verdict, ...] = ()
    """Votes of the people who agreed, if several had to."""


class DeliverVotesInput(Message):
    """Signal `deliver_votes`, from the desk to the invocation that asked: who has agreed so far."""

    key: str
    id: str
    votes: tuple[Verdict, ...]


class RevokeGrantInput(Strict):
    """Payload of the signal `revoke_grant`."""

    id: str = Field(min_length=1)
    """The approval that the grant came from."""
    by: str = ""


class Approval(Message):
    """Question at the desk, decided or not."""

    id: str
    asked_at: datetime
    request: RequestApprovalInput
    votes: tuple[Verdict, ...] = ()
    """Votes so far, if several people must agree; the last vote has the arguments that are agreed to."""
    verdict: Verdict | None = None
    withdrawn: bool = False
    reminded_at: datetime | None = None
    held: Verdict | None = Field(default=None, exclude_if=is_none)
    """Decision that takes effect at its `effective_at`; until then its author can replace it. None: there is none."""
    keys: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Keys of the decisions about it that were held or took one back, the newest last; at most 50."""
    again: str = Field(default="", exclude_if=is_empty)
    """Id of the approval that asks again because what this one agreed to was not carried out; empty: none does."""


class Grant(Message):
    """A remembered decision: identical calls of anybody in the run, or calls of a kind, get the same answer."""

    tool: str
    canonical_args: str
    """The identity of these calls."""
    when_done: str | None = None
    """The identity of these calls where what they are to change is so already."""
    approval: str
    """Id of the approval it came from."""
    verdict: Verdict
    summary: str = ""
    """Subject of the call, in one line."""
    granted: GrantedKind | None = Field(default=None, exclude_if=is_none)
    """Kind of the calls that it covers; None: identical ones."""
    used: int = Field(default=0, exclude_if=is_zero)
    """Number of calls of the kind that it has answered."""

    @property
    def until(self) -> datetime | None:
        """Time at which it ends; None: with the run."""
        return None if self.granted is None else self.verdict.at + timedelta(seconds=self.granted.seconds)

    @property
    def sentence(self) -> str:
        """The calls that it covers, in words."""
        return self.summary if self.granted is None else self.granted.kind.sentence

    def covers(self, request: RequestApprovalInput, *, now: datetime) -> bool:
        """Whether it answers this question; what changes nothing any more is covered like what was agreed to."""
        if self.granted is not None:
            left = self.used < self.granted.times and (self.until is None or now < self.until)
            return left and self.granted.covers(request.call, request.whom)
        same = request.identity == self.canonical_args
        return self.tool == request.tool and (same or (request.changes_nothing and request.identity == self.when_done))

    @classmethod
    def of(cls, approval: str, request: RequestApprovalInput, verdict: Verdict) -> Grant:
        """Return the remembered decision of the approval with this id."""
        return cls(
            tool=request.tool,
            canonical_args=request.identity,
            when_done=request.identity_when_done,
            approval=approval,
            verdict=verdict,
            summary=request.summary[:SUMMARY_CHARS],
            granted=None if verdict.grant is None else GrantedKind.of(verdict.grant, request.call, request.whom),
        )


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
    """Limits and the amounts that stand against them; only limited amounts are counted."""
    started_by: str = ""
    """Name of the person who started the run."""
    earlier: int = 0
    """Questions that were asked, and are settled, before the desk's workflow was continued as new."""
    waited: Waits = Field(default=Waits(), exclude_if=lambda waits: not waits.questions)
    """Time that these questions waited."""
    script: tuple[ScriptedAnswer, ...] = Field(default=(), exclude_if=is_empty)
