"""Which calls of file tools are of a kind, whatever spelling, link or file name somebody tries."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.kind import CallKind
from llm_do_temporal.policy.uses import CapabilityUse

TREE = Tree(mounts=(Mount(at="/", root="files", base="files"),))
NOTES = CallKind(tool="write_file", below="/notes", suffix=".md")
AS_NAMED = object()


def write(path: Any, *, place: Any = AS_NAMED, seen: str | None = None, **more: Any) -> AskedCall:
    """Return the call of write_file on a path that was found at its own place, or at another."""
    normal = seen or "/" + "/".join(part for part in str(path).split("/") if part not in ("", "."))
    found = SeenFile(path=normal, place=f"files{normal}" if place is AS_NAMED else place)
    use = CapabilityUse(name="sandbox.write", payload={"path": normal, "bytes": 3})
    given: dict[str, Any] = {"tool": "write_file", "args": {"path": path, "content": "abc"}, "uses": (use,)}
    return AskedCall.model_validate(given | {"tree": TREE, "files": (found,)} | more)


@pytest.mark.parametrize(
    "path", ["/notes/a.md", "notes/a.md", "/notes//a.md", "./notes/./a.md", "/notes/deep/er/a.md", "/notes/ä b.md"]
)
def test_a_kind_covers_a_file_below_its_folder_however_the_path_is_spelled(path: str) -> None:
    assert NOTES.covers(write(path))


@pytest.mark.parametrize(
    "path",
    [
        "/notes.md",  # beside the folder
        "/notes-2/a.md",  # a folder that only begins so
        "/Notes/a.md",  # other letters
        "/NOTES/A.MD",
        "/notes/a.txt",  # another suffix
        "/notes/a.MD",
        "/notes/a.md.sh",
        "/notes/.md",  # a suffix and no name
        "/notes/.hidden/a.md",
        "/notes/.a.md",
        "/notes",  # the folder itself
        "/notes/../a.md",  # refused by its text
        "/notes/..",
        "/notes/\u2024\u2024/../a.md",
        "/n\u043etes/a.md",  # a Cyrillic letter
        "/notes\\a.md",
        "/notes/a.md\0",
        "/notes/\ud800.md",
        "",
        7,
        None,
    ],
)
def test_a_kind_covers_no_path_that_only_looks_like_its_own(path: Any) -> None:
    assert not NOTES.covers(write(path))


@pytest.mark.parametrize("place", ["files/secret/a.md", "files/notes/b.md", "notes/a.md", None])
def test_a_kind_covers_no_file_that_a_link_leads_to(place: str | None) -> None:
    assert not NOTES.covers(write("/notes/a.md", place=place))


def test_a_kind_covers_no_file_that_nobody_looked_at() -> None:
    call = write("/notes/a.md", files=())

    assert NOTES.fits(call)
    assert not NOTES.covers(call)
    assert not NOTES.covers(write("/notes/a.md", seen="/notes/b.md"))
    other = SeenFile(path="/other.md", place="files/other.md")
    assert not NOTES.covers(write("/notes/a.md", files=(*write("/notes/a.md").files, other)))


def test_a_kind_covers_its_own_tool_alone() -> None:
    read = CapabilityUse(name="sandbox.read", payload={"path": "/notes/a.md"})

    assert not NOTES.covers(write("/notes/a.md", tool="edit_file"))
    assert not NOTES.covers(write("/notes/a.md", tool="read_file", uses=(read,)))
    assert CallKind(tool="read_file", below="/notes").covers(write("/notes/a.md", tool="read_file", uses=(read,)))
    # a tool from elsewhere that is called write_file, and hands files over
    attached = Attachment(path="/notes/a.md", sha256="0" * 64, bytes=1, media_type="text/plain")
    assert not NOTES.covers(write("/notes/a.md", attachments=(attached,)))


@pytest.mark.parametrize(
    "name", ["effect.repeat", "limit.exceed", "sandbox.write.definitions", "worker.create", "tool.call"]
)
def test_a_kind_covers_no_question_that_is_always_asked_and_no_foreign_capability(name: str) -> None:
    use = CapabilityUse(name=name, payload={"path": "/notes/a.md"})

    assert not NOTES.covers(write("/notes/a.md", uses=(use,)))
    assert not NOTES.covers(write("/notes/a.md", uses=(*write("/notes/a.md").uses, use)))
    assert not NOTES.covers(write("/notes/a.md", uses=()))


@pytest.mark.parametrize("path", ["/notes/x.worker", "/notes/workshop.yaml", "/notes/.git/hooks/pre-commit"])
def test_a_kind_covers_no_file_that_defines(path: str) -> None:
    assert not CallKind(tool="write_file", below="/notes").covers(write(path))


def test_a_kind_may_mean_one_file() -> None:
    kind = CallKind(tool="write_file", path="//notes/./a.md")

    assert kind.path == "/notes/a.md"
    assert kind.covers(write("notes/a.md"))
    assert not kind.covers(write("/notes/b.md"))
    assert not kind.covers(write("/notes/a.md", place="files/b.md"))


def test_the_top_of_the_tree_is_a_folder_too() -> None:
    assert CallKind(tool="write_file", below="/").covers(write("/a.md"))


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ({"tool": "write_file", "below": "/notes", "suffix": ".md"}, "write_file of .md files below /notes"),
        ({"tool": "edit_file", "below": "/notes"}, "edit_file of files below /notes"),
        ({"tool": "read_file", "path": "/a.md"}, "read_file of /a.md"),
    ],
)
def test_a_kind_is_a_sentence_and_yaml(kind: dict[str, Any], sentence: str) -> None:
    assert CallKind(**kind).sentence == sentence
    assert CallKind(**kind).as_mapping() == kind


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ({"tool": "write_file", "below": "notes"}, "starts with '/'"),
        ({"tool": "write_file", "below": "/notes/../.."}, "contains '..'"),
        ({"tool": "write_file", "below": "/notes/*"}, "no pattern"),
        ({"tool": "write_file", "below": "/notes", "suffix": "md"}, "starts with a dot"),
        ({"tool": "write_file", "below": "/notes", "suffix": "."}, "starts with a dot"),
        ({"tool": "write_file", "path": "/a.md", "suffix": ".md"}, "`path` is one file already"),
        ({"tool": "write_file", "path": "/a.md", "below": "/"}, "a kind of calls is"),
        ({"tool": "write_file"}, "a kind of calls is"),
        ({"tool": "write_file", "below": "/", "command": "ls"}, "`below` does not go with `command`"),
        ({"below": "/notes"}, "`tool` is missing"),
        ({"tool": "list_files", "below": "/notes"}, "is no file tool"),
        ({"tool": "write_file", "below": "/", "upto": 3}, "Extra inputs"),
        ({}, "a kind of calls is"),
    ],
)
def test_a_kind_that_means_nothing_is_refused(kind: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        CallKind(**kind)
