"""The verdict on a call that an entry of `approvals: allow:` may cover, for every mode and rule."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.policy.approvals import ApprovalRules, Mode, Terms, allowed_by, decide
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.uses import CapabilityUse

ENTRY: dict[str, Any] = {"tool": "write_file", "below": "/notes"}
USE = CapabilityUse(name="sandbox.write", payload={"path": "/notes/a.md"})
CALL = AskedCall(
    tool="write_file",
    args={"path": "/notes/a.md"},
    uses=(USE,),
    tree=Tree(mounts=(Mount(at="/", root="files", base="files"),)),
    files=(SeenFile(path="/notes/a.md", place="files/notes/a.md"),),
)


@pytest.mark.parametrize(
    ("mode", "rule", "allowable", "expected"),
    [
        # nobody is asked in `strict`: the call goes on by an entry alone, or is refused
        (Mode.STRICT, {}, True, ("ask", True)),
        (Mode.STRICT, {}, False, ("block", False)),
        (Mode.STRICT, {"approvers": ["ann"]}, True, ("block", False)),
        (Mode.INTERACTIVE, {}, True, ("ask", False)),
        (Mode.INTERACTIVE, {"approvers": ["ann"]}, True, ("ask", False)),
        (Mode.APPROVE_ALL, {}, True, ("allow", False)),
        (Mode.APPROVE_ALL, {"quorum": 2}, True, ("ask", False)),
        *((mode, {"ruling": "blocked"}, True, ("block", False)) for mode in Mode),
        *((mode, {"ruling": "pre_approved"}, True, ("allow", False)) for mode in Mode),
    ],
)
def test_an_entry_changes_nothing_but_who_is_asked(
    mode: Mode, rule: dict[str, Any], allowable: bool, expected: tuple[str, bool]
) -> None:
    rules = ApprovalRules.model_validate({"rules": {"sandbox.write": rule}, "allow": [ENTRY]})
    judged = decide(rules, mode, "write_file", [USE], allowable=allowable)

    assert (judged.kind, judged.asks_nobody) == expected


def test_the_entry_that_lets_a_call_through_is_named() -> None:
    other = {"command": "ls"}
    rules = ApprovalRules.model_validate({"allow": [other, ENTRY | {"why": "read by people"}]})

    assert allowed_by(rules, Terms(), CALL) == (
        "entry 2 of approvals.allow: write_file of files below /notes (read by people)"
    )
    assert allowed_by(rules, Terms(), CALL.model_copy(update={"tool": "edit_file"})) is None
    plain = ApprovalRules.model_validate({"allow": [ENTRY]})
    assert allowed_by(plain, Terms(), CALL) == "entry 1 of approvals.allow: write_file of files below /notes"


@pytest.mark.parametrize("terms", [Terms(approvers=("ann",)), Terms(quorum=2), Terms(forbid_own=True)])
def test_no_entry_answers_for_people(terms: Terms) -> None:
    assert allowed_by(ApprovalRules.model_validate({"allow": [ENTRY]}), terms, CALL) is None


def test_runs_take_rules_along_without_examples() -> None:
    rules = ApprovalRules.model_validate({"allow": [ENTRY | {"match": ["/notes/a.md"], "why": "x"}], "timeout": "1h"})

    assert rules.pinned() == ApprovalRules.model_validate({"allow": [ENTRY | {"why": "x"}], "timeout": "1h"})
    assert "allow" not in ApprovalRules().model_dump()
