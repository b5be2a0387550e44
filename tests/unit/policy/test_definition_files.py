"""Files that define workers are told apart from the files that workers work on."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.approvals import ApprovalRules, CapabilityUse, Mode, Ruling, decide
from llm_do_temporal.policy.sandbox import (
    Mount,
    Tree,
    WorkshopSandbox,
    check_readable,
    check_writable,
    defines_workers,
    locate,
    root_tree,
)

WHOLE = root_tree(WorkshopSandbox(root="."))


@pytest.mark.parametrize(
    ("path", "defines"),
    [
        # worker files, wherever they lie
        ("/a.worker", True),
        ("/deep/down/a.WORKER", True),
        # the workshop, workers in YAML, and Python that definitions name
        ("/workshop.yaml", True),
        ("/schemas.py", True),
        ("/tools.PY", True),
        ("/workers/a.yml", True),
        ("/workers/a/tools.py", True),
        # what workers work on
        ("/src/app.py", False),
        ("/data/a.yaml", False),
        ("/README.md", False),
        ("/evaluations/a.md", False),
    ],
)
def test_a_file_is_a_definition_where_definitions_are_looked_for(path: str, defines: bool) -> None:
    assert defines_workers(locate(WHOLE, path)) is defines


def test_the_place_in_the_workshop_counts_and_not_the_name_in_the_tree() -> None:
    tree = Tree(mounts=(Mount(at="/in", root="workers"), Mount(at="/workers", root="data")))
    assert defines_workers(locate(tree, "/in/a.yaml"))
    assert not defines_workers(locate(tree, "/workers/a.yaml"))


@pytest.mark.parametrize("mode", list(Mode))
def test_writing_a_definition_is_blocked_until_a_rule_names_it(mode: Mode) -> None:
    use = CapabilityUse(name="sandbox.write.definitions", asks=False)
    for rules in ({}, {"sandbox.write": Ruling.PRE_APPROVED}):
        assert decide(ApprovalRules.model_validate({"rules": rules}), mode, "write_file", [use]).kind == "block"
    named = ApprovalRules.model_validate({"rules": {"sandbox.write.definitions": Ruling.PRE_APPROVED}})
    assert decide(named, mode, "write_file", [use]).kind == "allow"


@pytest.mark.parametrize("path", ["/.llm-do", "/.llm-do/temporal.db", "/.LLM-DO/x"])
def test_our_own_state_is_refused_before_anybody_is_asked(path: str) -> None:
    place = locate(WHOLE, path)
    with pytest.raises(SandboxRefusal, match="its own state"):
        check_readable(place)
    with pytest.raises(SandboxRefusal, match="its own state"):
        check_writable(place)
