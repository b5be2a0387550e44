"""What docs/how-to/migrate.md shows is what `check` says, and what it warns of happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llm_do_temporal.errors import SandboxEscalation
from llm_do_temporal.policy.files.sandbox import (
    WorkerSandbox,
    WorkshopSandbox,
    check_writable,
    locate,
    narrow,
    root_tree,
)
from tests.support.workshops.workshop_folder import WorkshopFolder

GUIDE = (Path(__file__).parents[3] / "docs/how-to/migrate.md").read_text(encoding="utf-8")
RESTRICTED = WorkerSandbox(restrict="/pipeline", readonly=True)


def test_check_says_of_the_guides_worker_what_the_guide_shows(workshop: WorkshopFolder) -> None:
    (worker,) = re.findall(r"```yaml\n(# workers/analyzer.worker\n.+?)```", GUIDE, re.DOTALL)
    (shown,) = re.findall(r"```text\n(workers/analyzer.worker.+?)\n```", GUIDE)
    workshop.write("workshop.yaml", "name: decks\n")
    workshop.write("pipeline/deck.pdf", "")
    workshop.write("workers/analyzer.worker", f"{worker}---\nRead input/deck.pdf.\n")
    said = [f"{one.file}:{one.line}: {one.severity}: {one.message}" for one in workshop.problems()]
    assert said == [shown]
    assert workshop.load("analyzer").warnings != ()


def test_a_caller_that_is_restricted_calls_nobody_who_writes_elsewhere() -> None:
    caller = narrow(root_tree(WorkshopSandbox(root=".")), RESTRICTED, workshop_has_sandbox=True)
    with pytest.raises(SandboxEscalation, match="lies outside the caller's files"):
        narrow(caller, WorkerSandbox(restrict="/evaluations"), workshop_has_sandbox=True)


def test_without_a_sandbox_of_its_own_a_worker_reads_one_folder_and_writes_the_other() -> None:
    tree = narrow(root_tree(WorkshopSandbox(root=".")), None, workshop_has_sandbox=True)
    assert locate(tree, "/pipeline/deck.pdf").relative == "pipeline/deck.pdf"
    check_writable(locate(tree, "/evaluations/deck.md"))
