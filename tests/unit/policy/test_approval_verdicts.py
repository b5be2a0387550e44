"""The verdict on a tool call, for every way rules, places and modes can meet."""

from __future__ import annotations

import pytest

from llm_do_temporal.policy.approvals import DEFAULT_RULES, ApprovalRules, Mode, Ruling, decide, ruling_of
from llm_do_temporal.policy.uses import CapabilityUse, canonical

PRE, ASK, BLOCKED = Ruling.PRE_APPROVED, Ruling.NEEDS_APPROVAL, Ruling.BLOCKED


@pytest.mark.parametrize(
    ("own", "capability", "expected"),
    [
        # nothing configured: the defaults, each by its name
        *(({}, name, ruling) for name, ruling in DEFAULT_RULES.items()),
        # which are, of those that the reference names
        ({}, "sandbox.read", PRE),
        ({}, "sandbox.write", ASK),
        ({}, "worker.call", ASK),
        ({}, "worker.create", ASK),
        ({}, "proc.exec.unlisted", BLOCKED),
        # a name below a default takes its ruling
        ({}, "sandbox.read.secret", PRE),
        ({}, "proc.exec.unlisted.again", BLOCKED),
        ({}, "proc.exec.listed", ASK),
        # nobody listed it, nor anything above it
        ({}, "network.fetch", ASK),
        ({}, "sandbox", ASK),
        ({}, "", ASK),
        # a name is more than its beginning
        ({"net": BLOCKED}, "network.fetch", ASK),
        ({"sandbox.read": BLOCKED}, "sandbox.readonly", ASK),
        # own rules win over the default of the same name, either way
        ({"worker.call": PRE}, "worker.call", PRE),
        ({"sandbox.read": BLOCKED}, "sandbox.read", BLOCKED),
        ({"proc.exec.unlisted": PRE}, "proc.exec.unlisted", PRE),
        # loosening a name leaves a stricter default below it
        ({"proc.exec": PRE}, "proc.exec", PRE),
        ({"proc.exec": PRE}, "proc.exec.unlisted", BLOCKED),
        ({"proc": PRE}, "proc.exec.unlisted", BLOCKED),
        ({"worker": PRE}, "worker.call", ASK),
        # tightening a name takes everything below it along
        ({"proc": BLOCKED}, "proc.exec", BLOCKED),
        ({"sandbox": BLOCKED}, "sandbox.read", BLOCKED),
        ({"sandbox": ASK}, "sandbox.list", ASK),
        # among own rules the most specific wins
        ({"proc": BLOCKED, "proc.exec": PRE}, "proc.exec", PRE),
        ({"proc": PRE, "proc.exec.git": BLOCKED}, "proc.exec.git", BLOCKED),
        # a rule for something else is no rule
        ({"worker.call": PRE}, "worker.create", ASK),
    ],
)
def test_the_most_specific_rule_decides_and_defaults_only_tighten(
    own: dict[str, Ruling], capability: str, expected: Ruling
) -> None:
    assert ruling_of(ApprovalRules.model_validate({"rules": own}), capability) is expected


@pytest.mark.parametrize("default", list(Ruling))
def test_a_capability_that_nobody_listed_gets_the_workshops_default(default: Ruling) -> None:
    assert ruling_of(ApprovalRules(default=default), "network.fetch") is default
    assert ruling_of(ApprovalRules(default=default), "sandbox.list") is PRE  # this one is listed


@pytest.mark.parametrize(
    ("uses", "kind", "reason"),
    [
        # a call that does nothing policy speaks of
        ([], "allow", "pre-approved"),
        ([CapabilityUse(name="sandbox.list")], "allow", "pre-approved"),
        ([CapabilityUse(name="worker.call")], "ask", "worker.call needs approval"),
        # one asking use is enough, and each is named once
        (
            [CapabilityUse(name="sandbox.read"), CapabilityUse(name="worker.call"), CapabilityUse(name="worker.call")],
            "ask",
            "worker.call needs approval",
        ),
        (
            [CapabilityUse(name="sandbox.write"), CapabilityUse(name="worker.call")],
            "ask",
            "sandbox.write, worker.call needs approval",
        ),
        # the place decides over the rule, both ways
        ([CapabilityUse(name="sandbox.write", asks=False)], "allow", "pre-approved"),
        ([CapabilityUse(name="sandbox.read", asks=True)], "ask", "sandbox.read needs approval"),
        # blocked wins wherever it stands, and no place unblocks it
        (
            [CapabilityUse(name="worker.call"), CapabilityUse(name="proc.exec.unlisted")],
            "block",
            "'tool' is blocked: the workshop does not allow proc.exec.unlisted",
        ),
        (
            [CapabilityUse(name="proc.exec.unlisted", asks=False), CapabilityUse(name="sandbox.list")],
            "block",
            "'tool' is blocked: the workshop does not allow proc.exec.unlisted",
        ),
    ],
)
def test_blocked_blocks_then_asking_asks_then_the_call_runs(uses: list[CapabilityUse], kind: str, reason: str) -> None:
    verdict = decide(ApprovalRules(), Mode.INTERACTIVE, "tool", uses)
    assert (verdict.kind, verdict.reason) == (kind, reason)


@pytest.mark.parametrize(
    ("mode", "capability", "kind", "reason"),
    [
        (Mode.STRICT, "sandbox.list", "allow", "pre-approved"),
        (Mode.STRICT, "worker.call", "block", "Strict mode: tool requires approval"),
        (Mode.STRICT, "proc.exec.unlisted", "block", "'tool' is blocked: the workshop does not allow"),
        (Mode.APPROVE_ALL, "sandbox.list", "allow", "pre-approved"),
        (Mode.APPROVE_ALL, "worker.call", "allow", "approve_all"),
        (Mode.APPROVE_ALL, "proc.exec.unlisted", "block", "'tool' is blocked: the workshop does not allow"),
    ],
)
def test_a_mode_answers_what_would_be_asked_and_unblocks_nothing(
    mode: Mode, capability: str, kind: str, reason: str
) -> None:
    verdict = decide(ApprovalRules(), mode, "tool", [CapabilityUse(name=capability)])
    assert verdict.kind == kind
    assert verdict.reason.startswith(reason)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}, True),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        # a grant for one value is none for another that merely looks like it
        ({"a": 1}, {"a": True}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": "é"}, {"a": "e\u0301"}, False),
    ],
)
def test_arguments_are_the_same_whatever_the_order_of_their_keys(one: object, other: object, same: bool) -> None:
    assert (canonical(one) == canonical(other)) is same


def test_canonical_arguments_keep_letters_readable() -> None:
    assert canonical({"b": "ü", "a": [None]}) == '{"a":[null],"b":"ü"}'
