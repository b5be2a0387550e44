"""`shell:` of worker files and of `workshop.yaml`: what is pinned, and which mistakes are named with their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.policy.shell import ShellDefault, ShellPolicy, ShellRule


def loaded(folder: Path, toolsets: str, workshop: str = "") -> PinnedWorker:
    write(folder, toolsets, workshop)
    return Registry(load_workshop(folder)).load("runner")


def write(folder: Path, toolsets: str, workshop: str) -> None:
    (folder / "workshop.yaml").write_text(f"sandbox: {{root: .}}\n{workshop}")
    (folder / "runner.worker").write_text(f"toolsets: {{{toolsets}}}\n---\nRun.\n")


@pytest.mark.parametrize(
    ("toolsets", "policy"),
    [
        ("", None),
        ("shell: ", ShellPolicy()),
        ("shell: {enabled: false}", None),
        (
            "shell: {rules: [{pattern: git status, approval_required: false, sandbox_paths: [/src/]}], default: {}}",
            ShellPolicy(
                rules=(ShellRule(pattern="git status", approval_required=False, sandbox_paths=("/src",)),),
                default=ShellDefault(),
            ),
        ),
        ("shell: {network: true}", ShellPolicy(network=True)),
    ],
)
def test_the_commands_of_a_worker_are_pinned(tmp_path: Path, toolsets: str, policy: ShellPolicy | None) -> None:
    assert loaded(tmp_path, toolsets).shell == policy


@pytest.mark.parametrize(
    ("toolsets", "workshop", "place", "says"),
    [
        ("shell: {rules: [{pattern: ''}]}", "", "runner.worker:1", "first words"),
        ("shell: {rules: [{pattern: ls, aproved: true}]}", "", "runner.worker:1", "0'; allowed: approval_required"),
        ("shell: {rules: [{pattern: ls, sandbox_paths: [src]}]}", "", "runner.worker:1", "starts with '/'"),
        ("", "shell: {isolation: maybe}", "workshop.yaml:2", "'required' or 'preferred'"),
        ("", "shell: {env: [OPENAI_API_KEY]}", "workshop.yaml:2", "never given keys"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, toolsets: str, workshop: str, place: str, says: str) -> None:
    write(tmp_path, toolsets, workshop)
    (problem,) = check_workshop(tmp_path)
    assert (f"{problem.file}:{problem.line}", says in problem.message) == (place, True), problem.message
