"""Rules of a workshop in plain words: for each capability the verdict, the people it asks, and the rule behind it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from llm_do_temporal.policy.approvals import DEFAULT_RULES, ApprovalRules, Ruling, Terms, ruling_of, terms_of
from llm_do_temporal.policy.budget import Dimension, described
from llm_do_temporal.policy.values import ALWAYS_ASKS, Value

_SUBJECTS = {
    "sandbox.list": "list files",
    "sandbox.read": "read a file, or hand one to a worker",
    "sandbox.write": "write or edit a file",
    "sandbox.write.definitions": "write a file that defines workers or rules",
    "worker.call": "call another worker",
    "worker.create": "make a new worker",
    "proc.exec": "run a command that the worker's file knows",
    "proc.exec.unlisted": "run any other command",
    "python.call": "call a Python tool of the worker",
    "tool.call": "call a tool of a package or an MCP server",
    "changes.commit": "make the changes of a layer",
    "changes.commit.automation": "make changes of a layer to version control, CI or editors",
    "changes.commit.links_out": "make links of a layer that lead out of the workshop",
    "limit.exceed": "go on past a limit",
    "effect.repeat": "repeat an effect that may have happened",
}
_RULINGS = {Ruling.PRE_APPROVED: "runs", Ruling.BLOCKED: "is blocked"}


class RuleSentence(Value):
    """Rule on one capability, in words."""

    capability: str
    subject: str
    """Doing of a worker that the capability stands for; the capability itself where that is not known."""
    verdict: str
    """Verdict with the people and times: `asks ann or bob; 2 must agree`."""
    decided_by: str
    """Origin of the verdict: the name of the workshop's rule, `default`, or `built in`."""


def rules_in_words(rules: ApprovalRules) -> tuple[RuleSentence, ...]:
    """Return a sentence for each capability that is built in or that the workshop's rules name."""
    names = dict.fromkeys([*DEFAULT_RULES, *sorted(ALWAYS_ASKS), *rules.rules])
    return tuple(
        RuleSentence(
            capability=name,
            subject=_SUBJECTS.get(name, name),
            verdict=_verdict(rules, name),
            decided_by=_decided_by(rules, name),
        )
        for name in names
    )


def _verdict(rules: ApprovalRules, capability: str) -> str:
    ruling = Ruling.NEEDS_APPROVAL if capability in ALWAYS_ASKS else ruling_of(rules, capability)
    if ruling is not Ruling.NEEDS_APPROVAL:
        return _RULINGS[ruling]
    return "; ".join(_asking(terms_of(rules, [capability])))


def _asking(terms: Terms) -> list[str]:
    said = [f"asks {_any_of(terms.approvers)}" if terms.approvers else "asks"]
    if terms.quorum > 1:
        said.append(f"{terms.quorum} must agree")
    if terms.forbid_own:
        said.append("whoever started the run may not agree")
    if terms.timeout is not None:
        then = "the call is refused" if terms.on_timeout == "reject" else "the worker fails"
        said.append(f"after {_time(terms.timeout)} {then}")
    if terms.remind_after is not None:
        said.append(f"people are reminded after {_time(terms.remind_after)}")
    return said


def _time(seconds: int) -> str:
    return described(Dimension.TIME, Decimal(seconds))


def _any_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _decided_by(rules: ApprovalRules, capability: str) -> str:
    """Return the rule that gives the verdict, as `ruling_of` finds it."""
    own = _nearest(list(rules.rules), capability)
    built_in = _nearest(list(DEFAULT_RULES), capability)
    if capability in ALWAYS_ASKS:
        return "built in" if own is None else own
    if own is None:
        return "default" if built_in is None else "built in"
    if built_in is None or len(own) >= len(built_in):
        return own
    # A rule for a group can only be stricter than what is built in for its member.
    return own if ruling_of(rules, capability) is rules.rules[own].ruling is not DEFAULT_RULES[built_in] else "built in"


def _nearest(names: Sequence[str], capability: str) -> str | None:
    return max((name for name in names if f"{capability}.".startswith(f"{name}.")), key=len, default=None)
