"""Workshops with every kind of file that defines, and a model that tries to write there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.approvals import ApprovalRules, Mode, decide
from llm_do_temporal.policy.files.protection import defines
from llm_do_temporal.policy.files.sandbox import WorkshopSandbox, check_writable, locate, root_tree
from llm_do_temporal.policy.values import CapabilityUse
from tests.support.workshops.file_tree import Files

EVIL = "evil: true\n"
ALL_WRITES = ApprovalRules.model_validate({"rules": {"sandbox": "pre_approved", "sandbox.write": "pre_approved"}})
TEMPLATE_USER = """\
toolsets:
  delegation:
    templates: {{allow: {allow}, lock: {lock}}}
---
Call a template.
"""
WHOLE_WORKSHOP = {
    "workshop.yaml": "sandbox: {root: .}\n",
    "workers/main.worker": "description: Does it.\n---\nDo it.\n",
    "workers/clerk/worker.worker": "description: Reads.\n---\n{{ file('RULES.md') }}\n{% include 'texts/more.md' %}\n",
    "texts/more.md": "More.\n",
    "RULES.md": "Rules.\n",
    "assistant.yaml": "instructions: Help.\n",
    "tools.py": "def add(a: int, b: int) -> int:\n    'Add.'\n    return a + b\n",
    "lib/deep/helper.py": "x = 1\n",
    "workers/prompter.worker": TEMPLATE_USER.format(
        allow="['./prompts/**/*.yaml', 'one/*/x?.yml', './files/t/*.yaml']", lock="./locked/only.yaml"
    ),
    "prompts/a.yaml": "prompt: hello\n",
    "prompts/deep/er/b.yaml": "prompt: hello\n",
    "locked/only.yaml": "prompt: hello\n",
    "files/t/chain.yaml": "prompt: x\ntoolsets: {delegation: {templates: {allow: [chained/*.yaml]}}}\n",
    "chained/c.yaml": "prompt: hello\n",
    ".git/config": "[core]\n",
    ".git/hooks/pre-commit": "#!/bin/sh\n",
    "sub/.git/config": "[core]\n",
    ".githooks/pre-push": "#!/bin/sh\n",
    ".llm-do/host.json": "{}\n",
    "notes.md": "notes\n",
    "data/list.yaml": "a: 1\n",
}
OWN_FOLDER = WHOLE_WORKSHOP | {"workshop.yaml": "sandbox: {root: files}\n", "files/notes.md": "notes\n"}


def lay_out(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below the folder, but for links and the product's own locks."""
    return {
        os.fspath(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.parent.name != "locks"
    }


def writes(files: Files, path: str, *, edit: bool = False) -> bool:
    """Whether a model gets text to `path`, in a workshop that approves every write it may."""
    try:
        place = locate(files.tree, path)
        check_writable(place)
    except SandboxRefusal:
        return False
    name = "sandbox.write.definitions" if defines(place) else "sandbox.write"
    if decide(ALL_WRITES, Mode.APPROVE_ALL, "write_file", [CapabilityUse(name=name, asks=False)]).kind != "allow":
        return False
    try:
        files.edit(path, "\n", f"\n{EVIL}") if edit else files.write(path, EVIL)
    except ApplicationError:
        return False
    return True


@pytest.fixture
def whole(tmp_path: Path) -> Files:
    """A workshop whose workers' files are the whole of it."""
    return Files(lay_out(tmp_path, WHOLE_WORKSHOP), root_tree(WorkshopSandbox(root=".")))


@pytest.fixture
def own_folder(tmp_path: Path) -> Files:
    """A workshop whose workers have a folder of their own."""
    return Files(lay_out(tmp_path, OWN_FOLDER), root_tree(WorkshopSandbox(root="files")))
