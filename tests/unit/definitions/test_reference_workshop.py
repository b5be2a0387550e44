"""A workshop as the reference shows it, word for word, and the files that its workers can reach."""

from __future__ import annotations

import pytest

from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.policy.files.sandbox import WorkerSandbox, narrow, root_tree
from tests.support.workshops.workshop_folder import WorkshopFolder

WORKSHOP = """\
name: my-workshop
model: anthropic:claude-haiku-4-5

sandbox:
  root: "."
  readonly: false
"""
ANALYZER = """\
---
name: analyzer
instructions: |
  Analyze source code in /src directory.
sandbox:
  restrict: "/src"
  readonly: true
---
"""
EDITOR = """\
---
name: editor
instructions: |
  Edit files in the workshop.
# No sandbox config - inherits full workshop sandbox (read-write)
---
"""


def reached(workshop: WorkshopFolder, sandbox: WorkerSandbox | None) -> list[tuple[str, str, bool]]:
    """Where the files begin, the folder that is, and whether they are read-only."""
    tree = narrow(root_tree(load_workshop(workshop.root).config.sandbox), sandbox, workshop_has_sandbox=True)
    return [(mount.at, mount.root, mount.readonly) for mount in tree.mounts]


@pytest.mark.parametrize(
    ("name", "text", "instructions", "files"),
    [
        ("analyzer", ANALYZER, "Analyze source code in /src directory.", [("/src", "src", True)]),
        ("editor", EDITOR, "Edit files in the workshop.", [("/", ".", False)]),
    ],
)
def test_its_workers_inherit_or_narrow_its_sandbox(
    workshop: WorkshopFolder, name: str, text: str, instructions: str, files: list[tuple[str, str, bool]]
) -> None:
    workshop.write("workshop.yaml", WORKSHOP)
    workshop.write(f"workers/{name}.worker", text)
    worker = workshop.load(name)
    assert (worker.name, worker.instructions) == (name, instructions)
    assert reached(workshop, worker.sandbox) == files
    assert load_workshop(workshop.root).config.model == "anthropic:claude-haiku-4-5"
    assert workshop.problems() == []


def test_the_keys_of_the_two_levels_are_not_each_others(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", 'sandbox:\n  root: "."\n  restrict: /src\n')
    workshop.write("workers/a.worker", 'sandbox:\n  root: "."\n---\nDo it.\n')
    said = " ".join(workshop.said())
    assert "unknown key 'restrict' in 'sandbox'; allowed: max_file_bytes, read_approval, readonly, root" in said
    assert "unknown key 'root' in 'sandbox'; allowed: max_file_bytes, paths, read_approval, readonly, restrict" in said
