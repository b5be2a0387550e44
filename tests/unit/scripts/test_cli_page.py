"""The page about the command line is what the program writes itself; a difference is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.cli.app import COMMANDS
from scripts import check_docs
from scripts.check_docs import Fault
from scripts.pages import command_line


def faults_of(root: Path, page: str) -> list[Fault]:
    for folder in ("concepts", "how-to", "reference"):
        (root / "docs" / folder).mkdir(parents=True, exist_ok=True)
    # The page links to these.
    (root / "docs/concepts/approvals.md").write_text("# Approvals\n\n## Undo\n")
    (root / "docs/concepts/limits.md").write_text("# Limits\n")
    (root / "docs/how-to/observe.md").write_text("# Observability\n\n## Traces\n")
    (root / "docs/how-to/encrypt.md").write_text("# Encryption\n\n## A key that is missing or wrong\n")
    (root / "docs/how-to/http.md").write_text("# The HTTP door\n\n## Who may do what\n")
    (root / "docs/how-to/slack.md").write_text("# The Slack door\n\n## The app\n")
    (root / "docs/reference/shell.md").write_text("# The shell toolset\n")
    (root / check_docs.COMMANDS_PAGE).write_text(page)
    return check_docs.check_docs(root, lambda: COMMANDS)


def test_the_page_as_the_program_writes_it_has_no_faults(tmp_path: Path) -> None:
    assert faults_of(tmp_path, command_line.render()) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("change", ["another first line", "a line is missing", "all the rest is missing", "one more"])
def test_a_planted_difference_is_named_with_the_command_that_mends_it(tmp_path: Path, change: str) -> None:
    lines = command_line.render().split("\n")
    changed, line = {
        "another first line": (["# Commands", *lines[1:]], 1),
        "a line is missing": ([*lines[:9], *lines[10:]], 10),
        "all the rest is missing": (lines[:3], 4),
        "one more": ([*lines[:-1], "One more."], len(lines)),
    }[change]
    (fault,) = faults_of(tmp_path, "\n".join(changed))
    assert (fault.path, fault.line) == (tmp_path / check_docs.COMMANDS_PAGE, line)
    assert fault.message.endswith("write it anew with `python scripts/pages/command_line.py`")


def test_every_command_and_flag_is_on_the_page() -> None:
    page = command_line.render()
    assert all(f"## {name}\n" in page for name in COMMANDS)
    assert page.count("--workshop PATH") == 1
    assert "| `--output, -o text\\|json\\|jsonl` |" in page
    assert "llm-do-temporal modify RUN [ID] [--args JSON] [FLAGS]" in page
    assert "| `--tls, --no-tls` |" in page
