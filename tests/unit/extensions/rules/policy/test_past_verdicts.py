"""Past calls judged again: by the gate's own functions, with no fact guessed that a history lacks."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.extensions.rules.policy.verdicts import (
    ChangeKind,
    GateOutcome,
    PastVerdict,
    Policy,
    change_between,
    judge_again,
)
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.values import CapabilityUse
from tests.support.extensions.rules.past_calls import asked, asked_to_write
from tests.support.people.asked_calls import delegation

NOTES = {"tool": "write_file", "below": "/notes"}


def policy(sandbox: dict[str, Any] | None = None, **approvals: Any) -> Policy:
    return Policy.model_validate({"approvals": approvals, "sandbox": sandbox})


def tree(**rules: Any) -> Tree:
    return Tree(mounts=(Mount(at="/", root="files", base="files", **rules),))


@pytest.mark.parametrize(
    ("approvals", "verdict"),
    [
        ({}, "asks"),
        ({"rules": {"sandbox.write": "pre_approved"}}, "passes"),
        ({"rules": {"sandbox": "blocked"}}, "blocked"),
        ({"allow": [NOTES]}, "passes"),
        ({"allow": [{"tool": "write_file", "below": "/drafts"}]}, "asks"),
        ({"allow": [NOTES], "rules": {"sandbox.write": "blocked"}}, "blocked"),
        # Where a rule names people, no entry answers for them.
        ({"allow": [NOTES], "rules": {"sandbox.write": {"approvers": ["ann"]}}}, "asks"),
        ({"mode": "strict"}, "blocked"),
        ({"mode": "strict", "allow": [NOTES]}, "passes"),
        ({"mode": "strict", "allow": [{"tool": "write_file", "path": "/b.md"}]}, "blocked"),
        ({"mode": "approve_all"}, "passes"),
    ],
)
def test_a_past_call_fares_as_at_the_gate(approvals: dict[str, Any], verdict: str) -> None:
    assert judge_again(policy(**approvals), asked_to_write("/notes/a.md").call).verdict == verdict


@pytest.mark.parametrize("name", ["limit.exceed", "effect.repeat"])
def test_no_rule_answers_questions_that_always_ask(name: str) -> None:
    call = asked("the run", {}, (CapabilityUse(name=name),)).call
    assert judge_again(policy(default="pre_approved", mode="approve_all"), call).verdict == "asks"


def test_a_file_behind_a_link_is_not_what_its_path_says() -> None:
    linked = asked_to_write("/notes/a.md", linked_to="files/secret/a.md").call
    assert judge_again(policy(allow=[NOTES]), linked).verdict == "asks"


@pytest.mark.parametrize("files", [(), (SeenFile(path="/notes/a.md"),)], ids=["no file", "a file without its place"])
def test_where_nobody_knows_if_a_link_led_elsewhere_nobody_knows_the_verdict(files: Any) -> None:
    call = asked_to_write("/notes/a.md", files=files).call
    found = judge_again(policy(allow=[NOTES]), call)
    assert found.verdict == "unknown"
    assert "links followed, is not in the history" in found.reason
    # A verdict that does not hang on the file is known all the same.
    assert judge_again(policy(), call).verdict == "asks"
    rules = {"sandbox.write": "pre_approved"}
    assert judge_again(policy(rules=rules), call).verdict == "passes"
    elsewhere = [{"tool": "write_file", "below": "/drafts"}]
    assert judge_again(policy(allow=elsewhere), call).verdict == "asks"


@pytest.mark.parametrize(("path", "verdict"), [("/in/a.pdf", "unknown"), ("/../in/a.pdf", "asks")])
def test_only_a_file_of_the_callers_tree_is_handed_over_by_a_rule(path: str, verdict: str) -> None:
    call = delegation("reader", path)
    unseen = call.model_copy(update={"attachments": (call.attachments[0].model_copy(update={"place": None}),)})
    assert judge_again(policy(allow=[{"worker": "reader", "attachments": "/in"}]), unseen).verdict == verdict


@pytest.mark.parametrize(
    ("recorded", "today", "verdict"),
    [
        (None, None, "asks"),
        (None, True, "asks"),
        (None, False, "passes"),
        (False, None, "asks"),  # the workshop said so then, and no more
        (False, True, "asks"),
        (True, True, "asks"),
        (True, False, "unknown"),  # the workshop asked then, or the worker's own file, which asks still
        (True, None, "asks"),  # both ways
    ],
)
def test_the_places_own_setting_is_todays_where_the_worker_did_not_tighten_it(
    recorded: bool | None, today: bool | None, verdict: str
) -> None:
    call = asked_to_write("/notes/a.md", tree=tree(write_approval=recorded)).call
    found = judge_again(policy({"root": "files", "write_approval": today}), call)
    assert found.verdict == verdict
    if verdict == "unknown":
        assert "worker's own file" in found.reason


def outcome(verdict: PastVerdict) -> GateOutcome:
    return GateOutcome(verdict=verdict)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("asks", "passes", ChangeKind.NEWLY_PASSED),
        ("blocked", "passes", ChangeKind.NEWLY_PASSED),
        ("unknown", "passes", ChangeKind.NEWLY_PASSED),
        ("passes", "asks", ChangeKind.NEWLY_ASKED),
        ("blocked", "asks", ChangeKind.NEWLY_ASKED),
        ("passes", "blocked", ChangeKind.NEWLY_BLOCKED),
        ("asks", "refused", ChangeKind.NEWLY_BLOCKED),
        ("asks", "unknown", ChangeKind.UNKNOWN),
        ("unknown", "asks", ChangeKind.UNKNOWN),
        ("unknown", "unknown", ChangeKind.UNKNOWN),
        ("asks", "asks", None),
        ("passes", "passes", None),
    ],
)
def test_what_is_new_about_a_call(before: str, after: str, change: ChangeKind | None) -> None:
    assert change_between(outcome(PastVerdict(before)), outcome(PastVerdict(after))) is change
