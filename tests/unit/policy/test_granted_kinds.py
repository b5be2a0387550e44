"""Grants of a kind of calls: what a further call must have in common with the one that a person granted them on."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.grants import GrantedKind, KindGrant
from llm_do_temporal.policy.kinds.kind import CallKind
from llm_do_temporal.policy.uses import CapabilityUse
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
