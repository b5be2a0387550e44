"""Grants of a kind of calls: what a further call must have in common with the one that a person granted them on."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.policy.approvals import ApprovalRules, Mode, Terms, allowed_by, decide
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.kind import AskedCall, CallKind, GrantedKind, KindGrant
from llm_do_temporal.policy.values import CapabilityUse
from tests.support.people.asked_calls import command, delegation, python, write

ELSEWHERE = Tree(mounts=(Mount(at="/", root="others", base="others"),))


def granted(kind: dict[str, Any], call: AskedCall, whom: tuple[Any, ...] = ()) -> GrantedKind:
    return GrantedKind.of(KindGrant(kind=CallKind(**kind)), call, whom)


def with_file(call: AskedCall, path: str, sha256: str) -> AskedCall:
    """The call of a command that names a file with these bytes."""
    return call.model_copy(update={"files": (SeenFile(path=path, place=f"files{path}", sha256=sha256),)})


NOTES = {"tool": "write_file", "below": "/notes"}


def test_a_grant_covers_further_calls_of_its_kind() -> None:
    grant = granted(NOTES, write("/notes/a.md"))

    assert grant.places == ("files/notes",)
    assert grant.covers(write("/notes/a.md"), ())
    assert grant.covers(write("/notes/deep/b.md"), ())
    assert not grant.covers(write("/other/a.md"), ())
    assert not grant.covers(write("/notes/a.md", tool="edit_file"), ())


@pytest.mark.parametrize(
    "change",
    [
        {"surroundings": "another digest"},
        {"tree": ELSEWHERE, "files": (SeenFile(path="/notes/b.md", place="others/notes/b.md"),)},
    ],
    ids=["other surroundings", "another real folder"],
)
def test_a_grant_is_bound_to_the_circumstances_of_its_call(change: dict[str, Any]) -> None:
    other = write("/notes/b.md").model_copy(update=change)
    grant = granted(NOTES, write("/notes/a.md"))

    assert grant.kind.covers(other)
    assert not grant.covers(other, ())


def test_a_grant_covers_no_further_capability() -> None:
    call = python("restart", service="web")
    further = CapabilityUse(name="deploy", payload=call.uses[0].payload)
    both = call.model_copy(update={"uses": (*call.uses, further)})
    exactly = {"tool": "restart", "args": call.args, "sha256": "1" * 64}

    assert granted(exactly, both).covers(call, ())
    assert granted(exactly, call).kind.covers(both)
    assert not granted(exactly, call).covers(both, ())


def test_a_grant_holds_under_the_same_people_only() -> None:
    grant = granted(NOTES, write("/notes/a.md"), ("ann",))

    assert grant.covers(write("/notes/b.md"), ("ann",))
    assert not grant.covers(write("/notes/b.md"), ("ann", "bob"))
    assert not grant.covers(write("/notes/b.md"), ())


@pytest.mark.parametrize(
    ("kind", "call", "places"),
    [
        ({"tool": "write_file", "path": "/a.md"}, write("/a.md"), ("files/a.md",)),
        ({"tool": "write_file", "folder": "/in", "suffix": ".md"}, write("/in/a.md"), ("files/in",)),
        ({"worker": "reader", "attachments": "/in"}, delegation("reader", "/in/a.md"), ("files/in",)),
        ({"worker": "reader"}, delegation("reader"), ()),
        ({"command": "git status"}, command("git status"), ()),
        # a folder outside of the worker's files is no place
        (NOTES, write("/notes/a.md").model_copy(update={"tree": Tree()}), ()),
    ],
)
def test_the_real_place_of_a_kind_is_noted(kind: dict[str, Any], call: AskedCall, places: tuple[str, ...]) -> None:
    assert granted(kind, call).places == places


def test_files_that_a_command_spells_out_stay_as_they_were() -> None:
    call = command("make -f build/rules.mk")
    grant = granted({"command": "make -f build/rules.mk"}, with_file(call, "/build/rules.mk", "1" * 64))

    assert grant.covers(with_file(call, "/build/rules.mk", "1" * 64), ())
    assert not grant.covers(with_file(call, "/build/rules.mk", "2" * 64), ())
    assert not grant.covers(call, ())


def test_the_file_of_a_free_word_may_be_another() -> None:
    grant = granted({"command": "wc -l {path}"}, command("wc -l logs/a.log"))

    assert grant.held == ()
    assert grant.covers(command("wc -l logs/b.log"), ())
    # of a word that is no file, a program may make one, which belongs to it
    assert grant.covers(with_file(command("wc -l logs/b"), "/logs/b.js", "1" * 64), ())
    assert not grant.covers(with_file(command("wc -l logs/b.log"), "/logs/b.log.old.gz", "1" * 64), ())
    assert not grant.covers(with_file(command("wc -l logs/b.log"), "/logs/other.log", "1" * 64), ())


@pytest.mark.parametrize(
    ("line", "free", "path"),
    [
        ("tools/do notes/a.md notes/a.md", "tools/do notes/a.md {path}", "/notes/a.md"),
        ("./do.js do", "./do.js {path}", "/do.js"),
        ("tools/do from=file:notes/%61.md notes/a.md", "tools/do from=file:notes/%61.md {path}", "/notes/a.md"),
        ("tools/do page page", "tools/do page {path}", "/page.js"),
    ],
)
def test_a_file_that_the_other_words_name_is_held_though_the_free_word_names_it_too(
    line: str, free: str, path: str
) -> None:
    call = command(line)
    grant = granted({"command": free}, with_file(call, path, "1" * 64))

    assert [file.path for file in grant.held] == [path]
    assert grant.covers(with_file(call, path, "1" * 64), ())
    assert not grant.covers(with_file(call, path, "2" * 64), ())


def test_all_files_are_held_where_the_free_word_names_none() -> None:
    # a branch, run where the worker has no files
    call = command("git show main").model_copy(update={"tree": Tree()})
    grant = granted({"command": "git show {name}"}, with_file(call, "/config", "1" * 64))

    assert [file.path for file in grant.held] == ["/config"]
    assert not grant.covers(with_file(call, "/config", "2" * 64), ())


ENTRY: dict[str, Any] = {"tool": "write_file", "below": "/notes"}
USE = CapabilityUse(name="sandbox.write", payload={"path": "/notes/a.md"})
CALL = AskedCall(
    tool="write_file",
    args={"path": "/notes/a.md"},
    uses=(USE,),
    tree=Tree(mounts=(Mount(at="/", root="files", base="files"),)),
    files=(SeenFile(path="/notes/a.md", place="files/notes/a.md"),),
)


@pytest.mark.parametrize(
    ("mode", "rule", "allowable", "expected"),
    [
        # nobody is asked in `strict`: the call goes on by an entry alone, or is refused
        (Mode.STRICT, {}, True, ("ask", True)),
        (Mode.STRICT, {}, False, ("block", False)),
        (Mode.STRICT, {"approvers": ["ann"]}, True, ("block", False)),
        (Mode.INTERACTIVE, {}, True, ("ask", False)),
        (Mode.INTERACTIVE, {"approvers": ["ann"]}, True, ("ask", False)),
        (Mode.APPROVE_ALL, {}, True, ("allow", False)),
        (Mode.APPROVE_ALL, {"quorum": 2}, True, ("ask", False)),
        *((mode, {"ruling": "blocked"}, True, ("block", False)) for mode in Mode),
        *((mode, {"ruling": "pre_approved"}, True, ("allow", False)) for mode in Mode),
    ],
)
def test_an_entry_changes_nothing_but_who_is_asked(
    mode: Mode, rule: dict[str, Any], allowable: bool, expected: tuple[str, bool]
) -> None:
    rules = ApprovalRules.model_validate({"rules": {"sandbox.write": rule}, "allow": [ENTRY]})
    judged = decide(rules, mode, "write_file", [USE], allowable=allowable)

    assert (judged.kind, judged.asks_nobody) == expected


def test_the_entry_that_lets_a_call_through_is_named() -> None:
    other = {"command": "ls"}
    rules = ApprovalRules.model_validate({"allow": [other, ENTRY | {"why": "read by people"}]})

    assert allowed_by(rules, Terms(), CALL) == (
        "entry 2 of approvals.allow: write_file of files below /notes (read by people)"
    )
    assert allowed_by(rules, Terms(), CALL.model_copy(update={"tool": "edit_file"})) is None
    plain = ApprovalRules.model_validate({"allow": [ENTRY]})
    assert allowed_by(plain, Terms(), CALL) == "entry 1 of approvals.allow: write_file of files below /notes"


@pytest.mark.parametrize("terms", [Terms(approvers=("ann",)), Terms(quorum=2), Terms(forbid_own=True)])
def test_no_entry_answers_for_people(terms: Terms) -> None:
    assert allowed_by(ApprovalRules.model_validate({"allow": [ENTRY]}), terms, CALL) is None


def test_runs_take_rules_along_without_examples() -> None:
    rules = ApprovalRules.model_validate({"allow": [ENTRY | {"match": ["/notes/a.md"], "why": "x"}], "timeout": "1h"})

    assert rules.pinned() == ApprovalRules.model_validate({"allow": [ENTRY | {"why": "x"}], "timeout": "1h"})
    assert "allow" not in ApprovalRules().model_dump()
