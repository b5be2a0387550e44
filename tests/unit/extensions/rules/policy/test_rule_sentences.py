"""Rules in plain words: the verdict on each capability, the people it asks, and the rule that says so."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.extensions.rules.policy.sentences import RuleSentence, rules_in_words
from llm_do_temporal.policy.approvals import DEFAULT_RULES, ApprovalRules


def sentence(capability: str, rules: dict[str, Any], **more: Any) -> RuleSentence:
    found = rules_in_words(ApprovalRules.model_validate({"rules": rules, **more}))
    return next(one for one in found if one.capability == capability)


def test_every_capability_that_is_built_in_has_a_sentence_with_a_subject() -> None:
    found = rules_in_words(ApprovalRules())
    assert {*DEFAULT_RULES, "limit.exceed", "effect.repeat"} == {one.capability for one in found}
    assert not [one for one in found if one.subject == one.capability]
    assert {one.decided_by for one in found} == {"built in"}


@pytest.mark.parametrize(
    ("capability", "rules", "verdict", "decided_by"),
    [
        ("sandbox.read", {}, "runs", "built in"),
        ("sandbox.write", {"sandbox.write": "pre_approved"}, "runs", "sandbox.write"),
        # A rule for a group loosens nothing that is built in more specifically.
        ("sandbox.write", {"sandbox": "pre_approved"}, "asks", "built in"),
        ("sandbox.read", {"sandbox": "blocked"}, "is blocked", "sandbox"),
        ("sandbox.read", {"sandbox": "pre_approved"}, "runs", "built in"),
        ("web.search", {"web": "blocked", "web.search": "pre_approved"}, "runs", "web.search"),
        # A name that merely begins the same is another capability.
        ("web.search", {"web.search": "pre_approved", "web.sea": "blocked"}, "runs", "web.search"),
        ("limit.exceed", {"limit.exceed": {"approvers": ["ann"]}}, "asks ann", "limit.exceed"),
        ("proc.exec", {"proc.exec": {"approvers": ["ann", "bob", "cy"], "quorum": 2}}, None, "proc.exec"),
    ],
)
def test_the_verdict_and_the_rule_that_gives_it(
    capability: str, rules: dict[str, Any], verdict: str | None, decided_by: str
) -> None:
    found = sentence(capability, rules)
    assert found.verdict == (verdict or "asks ann, bob or cy; 2 must agree")
    assert found.decided_by == decided_by


def test_people_and_times_are_told() -> None:
    rule = {"forbid_own": True, "timeout": "1h", "on_timeout": "fail", "remind_after": "30m"}
    assert sentence("worker.call", {"worker.call": rule}).verdict == (
        "asks; whoever started the run may not agree; after 1 hour the worker fails; "
        "people are reminded after 30 minutes"
    )
    assert sentence("worker.call", {}, timeout="3d").verdict == "asks; after 3 days the call is refused"
