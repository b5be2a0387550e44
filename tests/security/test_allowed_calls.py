"""Calls that an entry of `approvals: allow:` lets through: never more than the entry says, on real files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.policy.approvals import ApprovalRules, Mode
from tests.support.workflow.gated_calls import GatedFiles, Person, gated_files

READ: dict[str, Any] = {"tool": "read_file", "below": "/notes"}
NOTES: dict[str, Any] = {"tool": "write_file", "below": "/notes", "suffix": ".md"}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedFiles:
    workshop = tmp_path / "workshop"
    for folder in ("notes", "secret"):
        (workshop / "files" / folder).mkdir(parents=True)
    (workshop / "files/secret/a.md").write_text("secret\n")
    return gated_files(workshop, monkeypatch, root="files", base="files")


def allowing(files: GatedFiles, mode: Mode = Mode.INTERACTIVE, **rules: Any) -> GatedFiles:
    """Return the tools under rules with these entries."""
    return replace(files, rules=ApprovalRules.model_validate({"allow": [NOTES]} | rules), mode=mode)


def let_through(person: Person) -> list[str]:
    """Return the entry that let each question's call through; empty: a person is asked."""
    return [question.allowed for question, _ in person.asked]


@pytest.mark.parametrize("mode", [Mode.INTERACTIVE, Mode.STRICT])
async def test_an_entry_lets_a_call_through_and_is_named(files: GatedFiles, mode: Mode) -> None:
    person = Person()

    assert "Wrote" in await allowing(files, mode).call(person, "write_file", path="./notes//a.md", content="x")
    assert let_through(person) == ["entry 1 of approvals.allow: write_file of .md files below /notes"]


async def test_the_reason_of_an_entry_is_kept(files: GatedFiles) -> None:
    person = Person()
    tools = allowing(files, allow=[NOTES | {"why": "a person reads them"}])

    await tools.call(person, "write_file", path="/notes/a.md", content="x")

    assert let_through(person)[0].endswith("below /notes (a person reads them)")


@pytest.mark.parametrize(
    "path", ["/a.md", "/notes/a.txt", "/notes/A.MD", "/NOTES/a.md", "/notes/.a.md", "/notes/deep/.x/a.md"]
)
async def test_every_other_call_asks(files: GatedFiles, path: str) -> None:
    person = Person(agrees=0)

    assert "Rejected" in await allowing(files).call(person, "write_file", path=path, content="x")
    assert let_through(person) == [""]
    refused = await allowing(files, Mode.STRICT).call(Person(), "write_file", path=path, content="x")
    assert refused == "Strict mode: write_file requires approval"


async def test_no_link_takes_a_call_elsewhere(files: GatedFiles) -> None:
    (files.workshop / "files/notes/link").symlink_to("../secret")
    (files.workshop / "files/notes/a.md").symlink_to("../secret/a.md")
    person = Person()

    for path in ("/notes/link/a.md", "/notes/a.md"):
        assert "link" in await allowing(files).call(person, "write_file", path=path, content="x")
    assert (files.workshop / "files/secret/a.md").read_text() == "secret\n"


async def test_no_link_lets_a_worker_read_elsewhere(files: GatedFiles) -> None:
    (files.workshop / "files/notes/a.md").symlink_to("../secret/a.md")
    rules: dict[str, Any] = {
        "rules": {"sandbox.read": "needs_approval"},
        "allow": [{"tool": "read_file", "below": "/notes"}],
    }
    person = Person(agrees=0)

    assert "Rejected" in await allowing(files, **rules).call(person, "read_file", path="/notes/a.md")
    assert let_through(person) == [""]


async def test_a_file_that_changes_before_the_effect_is_looked_at_again(files: GatedFiles) -> None:
    note = files.workshop / "files/notes/a.md"
    person = Person(agrees=2)

    def put() -> None:
        note.write_text("somebody else's\n")

    told = await allowing(files).call(person, "write_file", put, path="/notes/a.md", content="x")

    assert "Wrote" in told
    assert len(person.asked) == 2


@pytest.mark.parametrize(
    "rule", [{"approvers": ["ann"]}, {"quorum": 2}, {"forbid_own": True}, {"approvers": ["ann"], "timeout": "1h"}]
)
async def test_an_entry_does_not_answer_for_people(files: GatedFiles, rule: dict[str, Any]) -> None:
    person = Person(agrees=0)
    tools = allowing(files, rules={"sandbox.write": rule})

    assert "Rejected" in await tools.call(person, "write_file", path="/notes/a.md", content="x")
    assert let_through(person) == [""]


async def test_what_is_blocked_stays_blocked(files: GatedFiles) -> None:
    person = Person()
    tools = allowing(files, rules={"sandbox.write": "blocked"})

    assert "is blocked" in await tools.call(person, "write_file", path="/notes/a.md", content="x")
    assert "is blocked" in await allowing(files).call(person, "write_file", path="/notes/.git/x.md", content="x")
    assert person.asked == []


async def test_nobody_is_asked_in_approve_all(files: GatedFiles) -> None:
    person = Person()

    assert "Wrote" in await allowing(files, Mode.APPROVE_ALL).call(person, "write_file", path="/a.txt", content="x")
    assert person.asked == []
