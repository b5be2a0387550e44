"""Verdict on a tool call: allow it, ask a person, or block it.

Policy speaks of capabilities ("sandbox.write"), not of tools. Order: anything blocked blocks and nothing pre-approves
past it; else anything that needs approval asks; else the call runs. The modes turn Ask into a refusal (strict) or into
yes (approve_all); neither unblocks anything.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import Field, SerializerFunctionWrapHandler, StringConstraints, model_serializer, model_validator

from llm_do_temporal.policy.budget import Duration
from llm_do_temporal.policy.kinds.kind import AllowEntry, AskedCall, covering
from llm_do_temporal.policy.values import CapabilityUse, Value

T = TypeVar("T")


class Mode(StrEnum):
    """Treatment of calls that need approval."""

    INTERACTIVE = "interactive"
    APPROVE_ALL = "approve_all"
    STRICT = "strict"


OnTimeout = Literal["reject", "fail"]
"""Outcome of a question without a decision in time: the call is refused, or the asking invocation fails."""


class Ruling(StrEnum):
    """Ruling of a rule on one capability."""

    PRE_APPROVED = "pre_approved"
    NEEDS_APPROVAL = "needs_approval"
    BLOCKED = "blocked"


DEFAULT_RULES: dict[str, Ruling] = {
    "sandbox.list": Ruling.PRE_APPROVED,
    "sandbox.read": Ruling.PRE_APPROVED,
    "sandbox.write": Ruling.NEEDS_APPROVAL,
    "sandbox.write.definitions": Ruling.BLOCKED,
    "worker.call": Ruling.NEEDS_APPROVAL,
    "worker.create": Ruling.NEEDS_APPROVAL,
    "proc.exec": Ruling.NEEDS_APPROVAL,
    "proc.exec.unlisted": Ruling.BLOCKED,
    "python.call": Ruling.NEEDS_APPROVAL,
    "tool.call": Ruling.NEEDS_APPROVAL,
    "changes.commit": Ruling.NEEDS_APPROVAL,
    "changes.commit.automation": Ruling.NEEDS_APPROVAL,
    "changes.commit.links_out": Ruling.NEEDS_APPROVAL,
}


_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800") | {
    chr(code)
    for first, last in ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
    for code in range(first, last + 1)
}
"""Further characters that are drawn as nothing: joiners, fillers and variation selectors."""


def person(name: str) -> str:
    """Return the form of a name in which people are counted: `Ada` and `ada` are the same person."""
    composed = unicodedata.normalize("NFKC", name)
    visible = "".join(one for one in composed if unicodedata.category(one) not in _INVISIBLE and one not in _FILLERS)
    # Folding the case can take apart what was composed.
    return unicodedata.normalize("NFKC", " ".join(visible.casefold().split()))


Person = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_STRICTNESS = (Ruling.PRE_APPROVED, Ruling.NEEDS_APPROVAL, Ruling.BLOCKED)


class Patience(Value):
    """Times that people are given to decide; None leaves a time to the more general rules."""

    timeout: Duration | None = None
    """Seconds until the question is decided without a person: never in favour of the call."""
    on_timeout: OnTimeout | None = None
    remind_after: Duration | None = None
    """Seconds until people are reminded."""

    @model_validator(mode="after")
    def _reminds_in_time(self) -> Patience:
        if self.timeout is not None and self.remind_after is not None and self.remind_after >= self.timeout:
            raise ValueError("`remind_after` is not before `timeout`, so nobody would be reminded")
        return self


class Rule(Patience):
    """Entry of `rules:`. A ruling alone is short for `{ruling: …}`."""

    ruling: Ruling = Ruling.NEEDS_APPROVAL
    approvers: tuple[Person, ...] | None = Field(default=None, min_length=1)
    """People who may decide; None: everybody."""
    quorum: int = Field(default=1, ge=1)
    """Number of different people who must agree."""
    forbid_own: bool = False
    """Whether the person who started the run may not agree."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if isinstance(value, str):
            return {"ruling": _as_ruling(value)}
        if not isinstance(value, dict):
            return value
        # What passes here counts as Python and no longer as JSON, where strict validation takes lists and text.
        given = cast("dict[str, Any]", value)
        taken = {key: tuple(cast("list[Any]", one)) if isinstance(one, list) else one for key, one in given.items()}
        return taken | {"ruling": _as_ruling(taken["ruling"])} if "ruling" in taken else taken

    @model_validator(mode="after")
    def _can_be_met(self) -> Rule:
        if self.approvers is not None and self.quorum > (people := len({person(one) for one in self.approvers})):
            raise ValueError(f"`quorum: {self.quorum}` can never be met: `approvers` names {people}")
        if self.ruling is Ruling.BLOCKED and self.says_more:
            raise ValueError("what is blocked asks nobody; leave the other keys out")
        return self

    @property
    def says_more(self) -> bool:
        """Whether the rule has more than its ruling."""
        return len(self._said) > 1

    @property
    def _said(self) -> set[str]:
        fields = type(self).model_fields
        return {"ruling"} | {name for name, field in fields.items() if getattr(self, name) != field.default}

    @model_serializer(mode="wrap")
    def _shortest_form(self, write: SerializerFunctionWrapHandler) -> object:
        # Rules are part of what every invocation starts with.
        written: dict[str, Any] = write(self)
        if not self.says_more:
            return written["ruling"]
        return {name: value for name, value in written.items() if name in self._said}


def _as_ruling(value: object) -> object:
    return Ruling(value) if value in set(Ruling) else value


class ApprovalRules(Patience):
    """`approvals:` of `workshop.yaml`."""

    mode: Mode = Mode.INTERACTIVE
    rules: dict[str, Rule] = Field(default_factory=dict)
    """The workshop's own rules, by capability; they are merged over the defaults."""
    default: Ruling = Ruling.NEEDS_APPROVAL
    """Ruling on a capability that no rule names."""
    allow: tuple[AllowEntry, ...] = Field(default=(), exclude_if=lambda given: not given)
    """Kinds of calls that need no person, where no rule names people."""

    def pinned(self) -> ApprovalRules:
        """Return the rules as runs take them along: without examples."""
        return self.model_copy(update={"allow": tuple(entry.pinned() for entry in self.allow)})


class Terms(Value):
    """Terms of a question: the people who must agree, and the times they are given."""

    approvers: tuple[str, ...] | None = None
    """People who may decide; None: everybody."""
    quorum: int = 1
    """Number of different people who must agree."""
    forbid_own: bool = False
    """Whether the person who started the run may not agree."""
    timeout: int | None = None
    """Seconds until the question is decided without a person; None: it waits however long it takes."""
    on_timeout: OnTimeout = "reject"
    remind_after: int | None = None
    """Seconds until people are reminded; None: never."""

    @property
    def names_people(self) -> bool:
        """Whether it matters which people agree."""
        return self.approvers is not None or self.quorum > 1 or self.forbid_own

    @property
    def can_be_met(self) -> bool:
        """Whether enough people may decide."""
        return self.approvers is None or len({person(one) for one in self.approvers}) >= self.quorum


class Judgement(Value):
    """Verdict of policy on a call."""

    kind: Literal["allow", "ask", "block"]
    reason: str
    terms: Terms = Terms()
    """Terms of the question, for a call that asks."""
    asks_nobody: bool = False
    """Whether no person is asked, for a call that asks: it runs where an entry of `allow` covers it, and else not."""


def ruling_of(rules: ApprovalRules, capability: str) -> Ruling:
    """Return the ruling of the most specific rule: `proc.exec.unlisted`, else `proc.exec`, else `proc`, else the
    default.

    A default that is more specific than every rule of the workshop's own can only make it stricter: `proc.exec:
    pre_approved` leaves `proc.exec.unlisted` blocked, and `proc: blocked` blocks all of it.
    """
    own = _most_specific(rules.rules, capability)
    built_in = _most_specific(DEFAULT_RULES, capability)
    if own is None:
        return rules.default if built_in is None else built_in[1]
    if built_in is None or len(own[0]) >= len(built_in[0]):
        return own[1].ruling
    return max(own[1].ruling, built_in[1], key=_STRICTNESS.index)


def _most_specific(rules: Mapping[str, T], capability: str) -> tuple[str, T] | None:
    name = capability
    while name:
        if name in rules:
            return name, rules[name]
        name = name.rpartition(".")[0]
    return None


def terms_of(rules: ApprovalRules, capabilities: Iterable[str]) -> Terms:
    """Return the strictest terms in the most specific rules of these capabilities.

    The people are those who may decide on all of them, the quorum is the largest, the times are the shortest.
    """
    own = [_most_specific(rules.rules, name) for name in dict.fromkeys(capabilities)] or [None]
    found = [Rule() if one is None else one[1] for one in own]
    named = [one.approvers for one in found if one.approvers is not None]
    timeouts = [seconds for one in found if (seconds := one.timeout or rules.timeout) is not None]
    reminders = [seconds for one in found if (seconds := one.remind_after or rules.remind_after) is not None]
    return Terms(
        approvers=tuple(one for one in dict.fromkeys(named[0]) if all(one in each for each in named))
        if named
        else None,
        quorum=max(one.quorum for one in found),
        forbid_own=any(one.forbid_own for one in found),
        timeout=min(timeouts, default=None),
        on_timeout="fail" if "fail" in {one.on_timeout or rules.on_timeout for one in found} else "reject",
        remind_after=min(reminders, default=None),
    )


def asking(rules: ApprovalRules, uses: Sequence[CapabilityUse]) -> list[str]:
    """Return the capabilities for which these uses need a person, each once."""
    return list(
        dict.fromkeys(
            use.name
            for use in uses
            if (use.asks if use.asks is not None else ruling_of(rules, use.name) is Ruling.NEEDS_APPROVAL)
        )
    )


def decide(
    rules: ApprovalRules, mode: Mode, tool: str, uses: Sequence[CapabilityUse], *, allowable: bool = False
) -> Judgement:
    """Judge a call of `tool` that is about to make these uses, in this mode.

    `allowable` says that an entry of `allow` may cover the call, which its preview will tell.
    """
    for use in uses:
        if ruling_of(rules, use.name) is Ruling.BLOCKED:
            return Judgement(kind="block", reason=f"'{tool}' is blocked: the workshop does not allow {use.name}")
    needs = asking(rules, uses)
    if not needs:
        return Judgement(kind="allow", reason="pre-approved")
    terms = terms_of(rules, needs)
    if mode is Mode.STRICT:
        asks = allowable and not terms.names_people
        reason = f"Strict mode: {tool} requires approval"
        return Judgement(kind="ask" if asks else "block", reason=reason, terms=terms, asks_nobody=asks)
    if mode is Mode.APPROVE_ALL and not terms.names_people:
        return Judgement(kind="allow", reason="approve_all")
    if not terms.can_be_met:
        return Judgement(kind="block", reason=f"'{tool}' is blocked: nobody may approve {' and '.join(needs)} together")
    return Judgement(kind="ask", reason=f"{', '.join(needs)} needs approval", terms=terms)


def allowed_by(rules: ApprovalRules, terms: Terms, call: AskedCall) -> str | None:
    """Return the entry of `allow` that lets the call through, in words; None where none does.

    Where the call's terms name people, no entry answers for them.
    """
    found = None if terms.names_people else covering(rules.allow, call)
    if found is None:
        return None
    number, entry = found
    why = f" ({entry.why})" if entry.why else ""
    return f"entry {number} of approvals.allow: {entry.sentence}{why}"
