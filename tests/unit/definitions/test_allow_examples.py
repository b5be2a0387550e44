"""Entries of `approvals: allow:` in a workshop's file: mistakes in them, and examples that they do not keep."""

from __future__ import annotations

import pytest

from tests.support.workshops.workshop_folder import WorkshopFolder


def said(workshop: WorkshopFolder, *entries: str, more: str = "sandbox: {root: files}") -> list[str]:
    """Return what `check` says of a workshop with these entries, which begin at line 4."""
    (workshop.root / "files").mkdir(exist_ok=True)
    listed = "\n".join(f"    - {entry}" for entry in entries)
    workshop.write("workshop.yaml", f"{more}\napprovals:\n  allow:\n{listed}\n")
    workshop.write("workers/a.worker", "description: x\n---\nx")
    return workshop.said()


def test_entries_that_keep_their_examples_are_good(workshop: WorkshopFolder) -> None:
    entries = [
        "{tool: write_file, below: /notes, suffix: .md, match: [/notes/a.md], not_match: [/notes/a.sh, /../a.md]}",
        "{command: 'git log {path}', match: [git log a.md], not_match: [git log -p, git log /etc/passwd, ls]}",
        "{worker: reader, attachments: /in, match: [reader /in/a.pdf], not_match: [reader /out/a.pdf, writer]}",
        '{tool: rate, args: {of: EUR}, why: cheap, match: [\'{"of": "EUR"}\'], not_match: [\'{"of": "USD"}\']}',
    ]

    assert said(workshop, *entries) == []
    assert said(workshop, *entries, more="name: none") == []


def test_each_example_that_fails_is_named_with_its_line(workshop: WorkshopFolder) -> None:
    entry = (
        "tool: write_file\n      below: /notes\n      match:\n        - /notes/a.md\n        - /a.md\n"
        "      not_match: [/notes/b.md]"
    )

    assert said(workshop, entry) == [
        "error workshop.yaml:8: the `match` example '/a.md' is not covered by 'write_file of files below /notes'",
        "error workshop.yaml:9: the `not_match` example '/notes/b.md' is covered by 'write_file of files below /notes'",
    ]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{command: 'sudo {name}'}", "'sudo {name}' is refused: 'sudo' runs whatever program it is given"),
        ("{command: 'cat {path} > x'}", "(a redirection)"),
        ("{tool: write_file}", "a kind of calls is `tool` with `path`, `below` or `folder`"),
        ("{tool: write_file, below: notes}", "starts with '/'; got 'notes'"),
        ("{tool: write_file, below: /notes, sufix: .md}", "unknown key 'sufix' in 'approvals.allow.0'"),
        ("write_file", "not 'write_file'"),
    ],
)
def test_a_mistake_is_said_with_its_line(workshop: WorkshopFolder, entry: str, words: str) -> None:
    (only,) = said(workshop, entry)

    assert only.startswith("error workshop.yaml:4: ")
    assert words in only


def test_a_sandbox_that_cannot_be_is_said_alone(workshop: WorkshopFolder) -> None:
    found = said(workshop, "{tool: write_file, below: /x, match: [/x/y]}", more="sandbox: {root: /etc}")

    assert len(found) == 1
    assert "sandbox" in found[0]
