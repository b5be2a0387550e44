"""Verdict of a policy on a call of the past, from the facts that its history has.

A fact that the history lacks is not guessed: the call is judged with each value that the fact may have had, and where
these verdicts differ the verdict is unknown. The judgement is that of the gate, `policy.approvals.decide`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import product

from llm_do_temporal.errors import Refusal
from llm_do_temporal.policy.approvals import ApprovalRules, allowed_by, decide
from llm_do_temporal.policy.files.protection import PATH_TOOLS
from llm_do_temporal.policy.files.sandbox import Tree, WorkshopSandbox, join, locate
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.kind import AskedCall, may_cover
from llm_do_temporal.policy.values import ALWAYS_ASKS, CapabilityUse, Value

_ELSEWHERE = "another-place"
"""Real place of a file behind a link that leads elsewhere."""


def lacks_places(call: AskedCall) -> bool:
    """Return whether the call names files of which nobody has noted where they really are."""
    if any(one.place is None for one in (*call.files, *call.attachments)):
        return True
    return call.tool in PATH_TOOLS and not call.files


def with_places(call: AskedCall, *, are_linked: bool) -> AskedCall:
    """Return the call with its files where their paths say, or, where they `are_linked`, at another place."""
    attachments = tuple(
        one.model_copy(update={"place": _place(call.tree, one.path, is_linked=are_linked)}) for one in call.attachments
    )
    seen = [SeenFile(path=path, place=_place(call.tree, path, is_linked=are_linked)) for path in _named(call)]
    return call.model_copy(update={"files": tuple(seen), "attachments": attachments})


def _named(call: AskedCall) -> list[str]:
    """Return the virtual paths of the files that a file tool's call or a command names; none for another call."""
    if call.tool in PATH_TOOLS:
        given = [str(call.args.get("path", ""))]
    elif call.tool == "shell":
        payload = call.uses[0].payload
        given = [f"{payload.get('cwd', '/')}/{word}" for word in payload.get("argv", ())[1:] if word]
    else:
        return []
    return [place for path in given if (place := _virtual(call.tree, path)) is not None]


def _virtual(tree: Tree, path: str) -> str | None:
    try:
        return locate(tree, path).path
    except Refusal:
        return None


def _place(tree: Tree, path: str, *, is_linked: bool) -> str | None:
    if is_linked:
        return _ELSEWHERE
    try:
        place = locate(tree, path)
    except Refusal:
        return None
    return join(place.mount.root, place.relative)


_APPROVAL_KEYS = {
    "sandbox.read": "read_approval",
    "sandbox.write": "write_approval",
    "sandbox.write.definitions": "write_approval",
}
"""Keys of a sandbox that decide for its files, by capability."""
_PLACES = "where its files were, links followed, is not in the history"
_OWN_FILE = "whether the worker's own file asks is not in the history"


class PastVerdict(StrEnum):
    """Verdict on a call that was, or might have been."""

    PASSES = "passes"
    ASKS = "asks"
    BLOCKED = "blocked"
    REFUSED = "refused"
    """Refused by a check, before any rule is looked at."""
    UNKNOWN = "unknown"
    """Decided by a fact that is not known."""


class GateOutcome(Value):
    """Verdict and its reason."""

    verdict: PastVerdict
    reason: str = ""
    """Rule that gives the verdict, or the fact that is not known."""


class Policy(Value):
    """Part of a `workshop.yaml` that decides which calls ask."""

    approvals: ApprovalRules = ApprovalRules()
    sandbox: WorkshopSandbox | None = None


class ChangeKind(StrEnum):
    """Kinds of differences between two outcomes of one call, the gravest first."""

    NEWLY_PASSED = "newly passed"
    NEWLY_ASKED = "newly asked"
    NEWLY_BLOCKED = "newly blocked"
    UNKNOWN = "unknown"


_VERDICTS = {"allow": PastVerdict.PASSES, "ask": PastVerdict.ASKS, "block": PastVerdict.BLOCKED}
_CHANGES = {
    PastVerdict.PASSES: ChangeKind.NEWLY_PASSED,
    PastVerdict.ASKS: ChangeKind.NEWLY_ASKED,
    PastVerdict.BLOCKED: ChangeKind.NEWLY_BLOCKED,
    PastVerdict.REFUSED: ChangeKind.NEWLY_BLOCKED,
    PastVerdict.UNKNOWN: ChangeKind.UNKNOWN,
}


def change_between(before: GateOutcome, after: GateOutcome) -> ChangeKind | None:
    """Return the kind of the difference; None where the call fares as before.

    A call of which nobody can tell is unknown, even if nobody could tell before. Where nobody could tell before, and it
    passes now, it counts as newly passed.
    """
    if PastVerdict.UNKNOWN in (before.verdict, after.verdict) and after.verdict is not PastVerdict.PASSES:
        return ChangeKind.UNKNOWN
    return None if after.verdict is before.verdict else _CHANGES[after.verdict]


def judge_again(policy: Policy, call: AskedCall) -> GateOutcome:
    """Return the outcome that the call would have under this policy, in a run that is started without `--strict` or
    `--approve-all`.
    """
    if any(use.name in ALWAYS_ASKS for use in call.uses):
        return GateOutcome(verdict=PastVerdict.ASKS, reason="no rule answers this question")
    found: dict[PastVerdict, GateOutcome] = {}
    for one in _possible(policy, call):
        outcome = judge(policy.approvals, one)
        found.setdefault(outcome.verdict, outcome)
    if len(found) == 1:
        return next(iter(found.values()))
    missing = _PLACES if lacks_places(call) else _OWN_FILE
    return GateOutcome(verdict=PastVerdict.UNKNOWN, reason=missing)


def judge(rules: ApprovalRules, call: AskedCall) -> GateOutcome:
    """Return the outcome of a call of which all facts are known, as the gate judges it."""
    judgement = decide(rules, rules.mode, call.tool, call.uses, allowable=may_cover(rules.allow, call))
    if judgement.kind != "ask":
        return GateOutcome(verdict=_VERDICTS[judgement.kind], reason=_told(call, judgement.reason))
    allowed = allowed_by(rules, judgement.terms, call)
    if allowed is not None:
        return GateOutcome(verdict=PastVerdict.PASSES, reason=allowed)
    verdict = PastVerdict.BLOCKED if judgement.asks_nobody else PastVerdict.ASKS
    return GateOutcome(verdict=verdict, reason=judgement.reason)


def _told(call: AskedCall, reason: str) -> str:
    """Return the reason with the capabilities, where the gate's own words name none."""
    if reason != "pre-approved":
        return reason
    return ", ".join(
        f"{use.name}: {'pre_approved' if use.asks is None else 'its own place asks nobody'}" for use in call.uses
    )


def _possible(policy: Policy, call: AskedCall) -> Iterator[AskedCall]:
    """Yield the call with each combination of the values that unknown facts may have had."""
    seen = [call]
    if lacks_places(call):
        seen = [with_places(call, are_linked=False), with_places(call, are_linked=True)]
    for one in seen:
        for uses in product(*(_settings(policy.sandbox, use) for use in call.uses)):
            yield one.model_copy(update={"uses": uses})


def _settings(sandbox: WorkshopSandbox | None, use: CapabilityUse) -> list[CapabilityUse]:
    """Return the use with each setting of its place that today's `sandbox:` may give it.

    A place asks where the workshop or the worker's own file says so; what is recorded is both together.
    """
    key = _APPROVAL_KEYS.get(use.name)
    if sandbox is None or key is None:
        return [use]
    setting: bool | None = getattr(sandbox, key)
    now = use.model_copy(update={"asks": setting})
    return [use, now] if use.asks and not setting else [now]
