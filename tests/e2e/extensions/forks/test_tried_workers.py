"""A person who writes a prompt: `try --watch` at a real terminal, with an editor beside it."""

from __future__ import annotations

import pytest

from tests.support.patience import eventually
from tests.support.people.desk import Desk
from tests.support.people.tmux import at_terminal

WORKER = "---\nmodel: offline:notes\ntoolsets: {filesystem: {}}\n---\n"


@pytest.mark.thorough
def test_each_save_of_a_workers_file_is_tried_beside_the_run_before(desk: Desk) -> None:
    """A broken file is told and waited over; nothing is written into the workshop's files."""
    file = desk.workshop / "scribe.worker"
    file.write_text(f"{WORKER}Keep notes in /notes.md.\n")
    before = sorted((desk.workshop / "files").rglob("*"))
    with at_terminal(desk) as terminal:
        terminal.command("try", "scribe", "buy bread", "--watch")
        terminal.see("changed aside", "+ files/notes.md", "Ctrl-C ends")
        file.write_text("---\nmodel: [\n---\nKeep notes.\n")
        terminal.see("scribe.worker", "llm-do-temporal: ")
        file.write_text(f"{WORKER}Keep short notes in /notes.md.\n")
        seen = terminal.see(
            "first difference: main, the instructions", "answer: the same", "files: 0 differ, 1 the same"
        )
        assert "Keep short notes in /notes.md." in seen
        terminal.press("C-c")
        assert "the last run was scribe-" in terminal.see("exit 0")
    assert sorted((desk.workshop / "files").rglob("*")) == before


@pytest.mark.thorough
def test_a_save_of_a_tool_or_a_schema_is_tried_too(desk: Desk) -> None:
    """The worker stands in a folder of its own, beside its Python."""
    folder = desk.workshop / "workers/scribe"
    folder.mkdir(parents=True)
    tools, schemas = folder / "tools.py", folder / "schemas.py"
    tools.write_text('def count_words(text: str) -> int:\n    """Count words."""\n    return len(text.split())\n')
    schemas.write_text("from pydantic import BaseModel\n\nclass Order(BaseModel):\n    note: str\n")
    keys = "model: offline:echo\nschema_in_ref: schemas.py:Order\ntoolsets: {custom: {count_words: {}}}\n"
    (folder / "worker.worker").write_text(f"---\n{keys}---\nCount.\n")
    with at_terminal(desk) as terminal:
        terminal.command("try", "scribe", "--input", '{"note": "buy bread"}', "--watch")
        terminal.see("Ctrl-C ends")
        tools.write_text(tools.read_text().replace("Count words.", "Count the words."))
        eventually(lambda: terminal.screen.count("Ctrl-C ends") == 2, "the end of the first fork")
        schemas.write_text(f"{schemas.read_text()}    urgent: bool = False\n")
        eventually(lambda: terminal.screen.count("Ctrl-C ends") == 3, "the end of the second fork")
        terminal.press("C-c")
        terminal.see("the last run was scribe-", "exit 0")
