"""The verdict on a tool call, for every way rules, places and modes can meet."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.policy.approvals import (
    DEFAULT_RULES,
    ApprovalRules,
    Mode,
    Rule,
    Ruling,
    Terms,
    asking,
    decide,
    ruling_of,
    terms_of,
)
from llm_do_temporal.policy.values import CapabilityUse, canonical

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


def rules(own: dict[str, Any] | None = None, **keys: Any) -> ApprovalRules:
    """Rules as a workshop's file gives them."""
    return ApprovalRules.model_validate_json(json.dumps({"rules": own or {}, **keys}), strict=True)


@pytest.mark.parametrize(
    ("given", "capabilities", "expected"),
    [
        # nothing is said: one of anybody, however long it takes
        (rules(), ["worker.call"], Terms()),
        (rules(), [], Terms()),
        ({"worker.call": "needs_approval"}, ["worker.call"], Terms()),
        # a rule's own keys
        (
            {"worker.call": {"approvers": ["ann", "bob"], "quorum": 2, "forbid_own": True}},
            ["worker.call"],
            Terms(approvers=("ann", "bob"), quorum=2, forbid_own=True),
        ),
        (
            {"a": {"timeout": "1h", "on_timeout": "fail", "remind_after": "10m"}},
            ["a"],
            Terms(timeout=3600, on_timeout="fail", remind_after=600),
        ),
        ({"a": {"approvers": ["ann", "ann"]}}, ["a"], Terms(approvers=("ann",))),
        ({"a": {"approvers": [" ann "]}}, ["a"], Terms(approvers=("ann",))),
        # what a rule does not say is said for all
        (
            rules({"a": {"timeout": "1h"}}, timeout="72h", on_timeout="fail", remind_after="30m"),
            ["a"],
            Terms(timeout=3600, on_timeout="fail", remind_after=1800),
        ),
        (rules(timeout="72h"), ["b"], Terms(timeout=259200)),
        (rules(timeout=90), [], Terms(timeout=90)),
        (rules({"a": {"on_timeout": "reject"}}, on_timeout="fail"), ["a"], Terms()),
        # the most specific name decides, and it alone
        ({"proc": {"quorum": 3}, "proc.exec": {"approvers": ["ann"]}}, ["proc.exec.git"], Terms(approvers=("ann",))),
        ({"sandbox": {"quorum": 2}}, ["sandbox.write"], Terms(quorum=2)),
        # of several the strictest of each
        (
            {"a": {"approvers": ["ann", "bob"]}, "b": {"approvers": ["bob", "eve"]}},
            ["a", "b"],
            Terms(approvers=("bob",)),
        ),
        ({"a": {"approvers": ["ann"]}, "b": {"quorum": 1}}, ["a", "b"], Terms(approvers=("ann",))),
        ({"a": {"approvers": ["ann"]}, "b": {"approvers": ["bob"]}}, ["a", "b"], Terms(approvers=())),
        ({"a": {"quorum": 2}, "b": {"quorum": 3}, "c": {}}, ["a", "b", "c"], Terms(quorum=3)),
        ({"a": {}, "b": {"forbid_own": True}}, ["a", "b"], Terms(forbid_own=True)),
        ({"a": {"timeout": "2h"}, "b": {"timeout": "1h"}, "c": {}}, ["a", "b", "c"], Terms(timeout=3600)),
        ({"a": {"remind_after": "2h"}, "b": {}}, ["b", "a"], Terms(remind_after=7200)),
        ({"a": {"on_timeout": "fail"}, "b": {"on_timeout": "reject"}}, ["a", "b"], Terms(on_timeout="fail")),
        # one that is named twice counts once
        ({"a": {"quorum": 2}}, ["a", "a"], Terms(quorum=2)),
    ],
)
def test_the_strictest_terms_of_the_most_specific_rules_hold(
    given: ApprovalRules | dict[str, Any], capabilities: list[str], expected: Terms
) -> None:
    assert terms_of(given if isinstance(given, ApprovalRules) else rules(given), capabilities) == expected


NAMED: dict[str, Any] = {"worker.call": {"approvers": ["ann"]}}
APART: dict[str, Any] = {"worker.call": {"approvers": ["ann"]}, "sandbox.write": {"approvers": ["bob"]}}


@pytest.mark.parametrize(
    ("own", "mode", "uses", "kind", "reason"),
    [
        # approve_all speaks for the starter, not for those whom a rule names
        (NAMED, Mode.APPROVE_ALL, ["worker.call"], "ask", "worker.call needs approval"),
        ({"worker.call": {"quorum": 2}}, Mode.APPROVE_ALL, ["worker.call"], "ask", "worker.call needs approval"),
        ({"worker.call": {"forbid_own": True}}, Mode.APPROVE_ALL, ["worker.call"], "ask", "worker.call needs approval"),
        ({"worker.call": {"timeout": "1h"}}, Mode.APPROVE_ALL, ["worker.call"], "allow", "approve_all"),
        (NAMED, Mode.APPROVE_ALL, ["sandbox.write"], "allow", "approve_all"),
        (NAMED, Mode.STRICT, ["worker.call"], "block", "Strict mode: tool requires approval"),
        (NAMED, Mode.INTERACTIVE, ["worker.call"], "ask", "worker.call needs approval"),
        # nobody could ever say yes
        (
            APART,
            Mode.INTERACTIVE,
            ["worker.call", "sandbox.write"],
            "block",
            "'tool' is blocked: nobody may approve worker.call and sandbox.write together",
        ),
        (
            {"worker.call": {"approvers": ["ann"]}, "sandbox.write": {"quorum": 2}},
            Mode.APPROVE_ALL,
            ["worker.call", "sandbox.write"],
            "block",
            "'tool' is blocked: nobody may approve worker.call and sandbox.write together",
        ),
    ],
)
def test_a_rule_that_names_people_is_answered_by_them_alone(
    own: dict[str, Any], mode: Mode, uses: list[str], kind: str, reason: str
) -> None:
    verdict = decide(rules(own), mode, "tool", [CapabilityUse(name=name) for name in uses])
    assert (verdict.kind, verdict.reason) == (kind, reason)


def test_terms_are_those_of_the_capabilities_that_ask() -> None:
    own = rules({"sandbox.read": {"ruling": "pre_approved", "approvers": ["ann"]}, "worker.call": {"quorum": 2}})
    silent = [CapabilityUse(name="sandbox.read"), CapabilityUse(name="worker.call")]
    assert asking(own, silent) == ["worker.call"]
    assert decide(own, Mode.INTERACTIVE, "tool", silent).terms == Terms(quorum=2)
    place = CapabilityUse(name="sandbox.read", asks=True)
    assert decide(own, Mode.INTERACTIVE, "tool", [place]).terms == Terms(approvers=("ann",))


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("allow", "should be 'pre_approved', 'needs_approval' or 'blocked'"),
        ({"ruling": "allow"}, "should be 'pre_approved', 'needs_approval' or 'blocked'"),
        ({"ruling": ["blocked"]}, "should be 'pre_approved', 'needs_approval' or 'blocked'"),
        (5, "should be an object"),
        ({"approver": ["ann"]}, "Extra inputs are not permitted"),
        ({"approvers": "ann"}, "should be a valid"),
        ({"approvers": []}, "at least 1 item"),
        ({"approvers": [" "]}, "at least 1 character"),
        ({"quorum": 0}, "greater than or equal to 1"),
        ({"quorum": "2"}, "should be a valid integer"),
        ({"approvers": ["ann", "ann "], "quorum": 2}, "`quorum: 2` can never be met: `approvers` names 1"),
        ({"timeout": "soon"}, "'soon' is not a time"),
        ({"timeout": "0s"}, "greater than or equal to 1"),
        ({"on_timeout": "approve"}, "should be 'reject' or 'fail'"),
        ({"timeout": "1h", "remind_after": "1h"}, "`remind_after` is not before `timeout`"),
        ({"approvers": ["ann", "Ann"], "quorum": 2}, "`quorum: 2` can never be met: `approvers` names 1"),
        ({"ruling": "blocked", "approvers": ["ann"]}, "what is blocked asks nobody"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: Any, wrong: str) -> None:
    with pytest.raises(ValidationError, match=wrong.replace("(", "\\(")):
        rules({"a": rule})


@pytest.mark.parametrize(
    "written",
    [
        "blocked",
        "pre_approved",
        {"ruling": "needs_approval", "approvers": ["ann"], "quorum": 1},
        {"ruling": "pre_approved", "timeout": 60, "on_timeout": "fail", "remind_after": 5, "forbid_own": True},
    ],
)
def test_a_rule_is_kept_in_its_shortest_form_and_read_again_as_it_was(written: Any) -> None:
    rule = Rule.model_validate(written)
    kept = rule.model_dump(mode="json")
    assert Rule.model_validate(kept) == rule
    assert Rule.model_validate_json(rule.model_dump_json(), strict=True) == rule
    assert isinstance(kept, str) is isinstance(written, str)
    assert rule.says_more is not isinstance(written, str)


def test_a_ruling_alone_is_a_rule() -> None:
    assert Rule.model_validate(Ruling.BLOCKED) == Rule(ruling=Ruling.BLOCKED)
