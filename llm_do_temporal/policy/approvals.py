"""The verdict on a tool call: allow it, ask a person, or block it.

Policy speaks of capabilities ("sandbox.write"), not of tools. Order: anything blocked blocks and nothing
pre-approves past it; else anything that needs approval asks; else the call runs. The modes turn Ask
into a refusal (strict) or into yes (approve_all); neither unblocks anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from llm_do_temporal.policy.values import Value

REPEAT = "effect.repeat"
"""The capability of the question whether to repeat what may have happened. No rule answers it: only a person can."""


class Mode(StrEnum):
    """What happens to a call that needs approval."""

    INTERACTIVE = "interactive"
    APPROVE_ALL = "approve_all"
    STRICT = "strict"


class Ruling(StrEnum):
    """What a rule says of one capability."""

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
}


_STRICTNESS = (Ruling.PRE_APPROVED, Ruling.NEEDS_APPROVAL, Ruling.BLOCKED)


class ApprovalRules(Value):
    """`approvals:` of `workshop.yaml`."""

    mode: Mode = Mode.INTERACTIVE
    rules: dict[str, Ruling] = Field(default_factory=dict)
    """The workshop's own rules; they are merged over the defaults."""
    default: Ruling = Ruling.NEEDS_APPROVAL
    """For a capability that no rule names."""


class CapabilityUse(Value):
    """One thing a call is about to do, and what a person is shown about it."""

    name: str
    payload: dict[str, Any] = Field(default_factory=dict)
    asks: bool | None = None
    """What the place itself says (`read_approval`, `write_approval`); None leaves it to the rules."""


class Verdict(Value):
    """What policy says of one call."""

    kind: Literal["allow", "ask", "block"]
    reason: str


def ruling_of(rules: ApprovalRules, capability: str) -> Ruling:
    """The ruling of the most specific rule: `proc.exec.unlisted`, else `proc.exec`, else `proc`, else the default.

    A default that is more specific than every rule of the workshop's own can only make it stricter:
    `proc.exec: pre_approved` leaves `proc.exec.unlisted` blocked, and `proc: blocked` blocks all of it.
    """
    own = _most_specific(rules.rules, capability)
    built_in = _most_specific(DEFAULT_RULES, capability)
    if own is None or built_in is None:
        found = own or built_in
        return rules.default if found is None else found[1]
    if len(own[0]) >= len(built_in[0]):
        return own[1]
    return max(own[1], built_in[1], key=_STRICTNESS.index)


def _most_specific(rules: Mapping[str, Ruling], capability: str) -> tuple[str, Ruling] | None:
    name = capability
    while name:
        if name in rules:
            return name, rules[name]
        name = name.rpartition(".")[0]
    return None


def decide(rules: ApprovalRules, mode: Mode, tool: str, uses: Sequence[CapabilityUse]) -> Verdict:
    """Judge a call of `tool` that is about to make these uses, in this mode."""
    asking: list[str] = []
    for use in uses:
        ruling = ruling_of(rules, use.name)
        if ruling is Ruling.BLOCKED:
            return Verdict(kind="block", reason=f"'{tool}' is blocked: the workshop does not allow {use.name}")
        if use.asks if use.asks is not None else ruling is Ruling.NEEDS_APPROVAL:
            asking.append(use.name)
    if not asking:
        return Verdict(kind="allow", reason="pre-approved")
    if mode is Mode.STRICT:
        return Verdict(kind="block", reason=f"Strict mode: {tool} requires approval")
    if mode is Mode.APPROVE_ALL:
        return Verdict(kind="allow", reason="approve_all")
    return Verdict(kind="ask", reason=f"{', '.join(dict.fromkeys(asking))} needs approval")


def canonical(arguments: object) -> str:
    """Arguments as JSON that is the same whatever the order of their keys: what a grant remembers."""
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
