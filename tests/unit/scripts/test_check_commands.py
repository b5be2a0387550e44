"""What runs before a commit is what `make check` runs, command for command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def test_the_hooks_are_the_commands_of_make_check() -> None:
    command = ["make", "--dry-run", "--no-print-directory", "--assume-old=.venv/.ready", "check"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for hook in local["hooks"]] == made
    assert not any(hook["pass_filenames"] for hook in local["hooks"])
