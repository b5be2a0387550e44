"""What a path means in a tree, however it is spelled, and what may be done there."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.errors import AttachmentRefusal, SandboxRefusal
from llm_do_temporal.policy.files.protection import file_use, judge_path
from llm_do_temporal.policy.files.sandbox import (
    NO_FILES,
    Mount,
    Tree,
    check_input_path,
    check_readable,
    check_size,
    check_writable,
    describe_roots,
    input_place,
    is_hidden_path,
    join,
    locate,
    locate_all,
    normalise,
)

WHOLE = Tree(mounts=(Mount(at="/", root="."),))
NAMED = Tree(mounts=(Mount(at="/input", root="pipeline", readonly=True), Mount(at="/output", root="evaluations")))
NESTED = Tree(mounts=(Mount(at="/", root="."), Mount(at="/docs", root="manuals", readonly=True)))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("input/deck.pdf", "/input/deck.pdf"),
        ("/input/deck.pdf", "/input/deck.pdf"),
        ("input:deck.pdf", "/input/deck.pdf"),
        ("input:/deck.pdf", "/input/deck.pdf"),
        ("./input//deck.pdf", "/input/deck.pdf"),
        ("//input/./deck.pdf/", "/input/deck.pdf"),
        ("///input/deck.pdf", "/input/deck.pdf"),
        ("input:", "/input"),
        ("input", "/input"),
        # only a mount's name makes a colon special, and only once
        ("input:input:x", "/input/input:x"),
        ("input/a:b", "/input/a:b"),
        # everything else is an ordinary character
        ("input/a\\..\\b", "/input/a\\..\\b"),
        ("input/~", "/input/~"),
        ("input/*.pdf", "/input/*.pdf"),
        ("input/$HOME", "/input/$HOME"),
        ("input/...", "/input/..."),
        ("input/a\nb", "/input/a\nb"),
        ("input/%2e%2e/x", "/input/%2e%2e/x"),
        ("input/Präsentation.pdf", "/input/Präsentation.pdf"),
        ("input/\uff0e\uff0e/x", "/input/\uff0e\uff0e/x"),
    ],
)
def test_every_spelling_of_a_path_names_one_file(path: str, expected: str) -> None:
    assert locate(NAMED, path).path == expected


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("..", "contains '..'"),
        ("../secret", "contains '..'"),
        ("/input/../x", "contains '..'"),
        ("/input/deck/..", "contains '..'"),
        ("input:../x", "contains '..'"),
        ("input:..", "contains '..'"),
        ("/input/a\0.pdf", "NUL"),
        # a lone surrogate, which is also how Python spells a byte that is no UTF-8
        ("input/a\ud800", "half a character"),
        ("input/\udcff.pdf", "half a character"),
        ("/", "is outside this worker's files; it can reach /input (read-only), /output (read-write)"),
        ("", "is outside"),
        (".", "is outside"),
        ("/etc/passwd", "is outside"),
        ("~/x", "is outside"),
        ("/inputs/x", "is outside"),
        ("/Input/x", "is outside"),
        ("other:x", "is outside"),
        ("/input:x", "is outside"),
    ],
)
def test_a_path_that_leads_out_is_refused(path: str, message: str) -> None:
    with pytest.raises(SandboxRefusal) as refused:
        locate(NAMED, path)
    assert message in str(refused.value)


def test_without_files_the_refusal_says_how_to_get_some() -> None:
    with pytest.raises(SandboxRefusal, match=r"'a\.txt' cannot be reached: this worker has no file access") as refused:
        locate(NO_FILES, "a.txt")
    assert "workshop.yaml" in (refused.value.next_step or "")


@pytest.mark.parametrize(
    ("tree", "path", "at", "relative"),
    [
        (WHOLE, "/", "/", "."),
        (WHOLE, "", "/", "."),
        (WHOLE, "a/b.txt", "/", "a/b.txt"),
        # with the whole workshop at `/`, a colon is part of a name
        (WHOLE, "input:deck.pdf", "/", "input:deck.pdf"),
        (WHOLE, ":x", "/", ":x"),
        # `~` is a folder of that name, nobody's home
        (WHOLE, "~/x", "/", "~/x"),
        (NAMED, "/output", "/output", "."),
        # the mount furthest in wins
        (NESTED, "/docs/a.md", "/docs", "a.md"),
        (NESTED, "/docs", "/docs", "."),
        (NESTED, "/docs2/a.md", "/", "docs2/a.md"),
    ],
)
def test_a_path_lies_in_the_innermost_mount(tree: Tree, path: str, at: str, relative: str) -> None:
    place = locate(tree, path)
    assert (place.mount.at, place.relative) == (at, relative)


@pytest.mark.parametrize(
    ("tree", "path", "virtual", "places"),
    [
        (WHOLE, ".", "/", [("/", ".")]),
        (WHOLE, "a/b", "/a/b", [("/a/b", "a/b")]),
        (NAMED, "/", "/", [("/input", "."), ("/output", ".")]),
        (NAMED, "input:sub", "/input/sub", [("/input/sub", "sub")]),
        (NESTED, "/", "/", [("/", "."), ("/docs", ".")]),
        (NESTED, "/docs", "/docs", [("/docs", ".")]),
        (NESTED, "/a", "/a", [("/a", "a")]),
        (Tree(mounts=(Mount(at="/src/app", root="src/app"),)), "/src", "/src", [("/src/app", ".")]),
    ],
)
def test_a_listing_shows_the_folder_and_the_mounts_below_it(
    tree: Tree, path: str, virtual: str, places: list[tuple[str, str]]
) -> None:
    found, located = locate_all(tree, path)
    assert (found, [(place.path, place.relative) for place in located]) == (virtual, places)


@pytest.mark.parametrize("path", ["/inp", "/etc", "/input/../x"])
def test_a_listing_outside_the_tree_is_refused(path: str) -> None:
    with pytest.raises(SandboxRefusal):
        locate_all(NAMED, path)


def test_a_listing_without_files_is_refused() -> None:
    with pytest.raises(SandboxRefusal, match="no file access"):
        locate_all(NO_FILES, "/")


def test_normalising_twice_changes_nothing() -> None:
    once = normalise("input:a:b//./c/", names=frozenset({"input"}))
    assert normalise(once, names=frozenset({"input"})) == once == "/input/a:b/c"


@pytest.mark.parametrize(
    ("mount", "path", "readable", "writable"),
    [
        (Mount(at="/", root="."), "/a.txt", True, True),
        (Mount(at="/", root=".", readonly=True), "/a.txt", True, False),
        # the mount itself is a folder
        (Mount(at="/", root="."), "/", True, False),
        (Mount(at="/", root=".", suffixes=(".pdf",)), "/A.PDF", True, True),
        (Mount(at="/", root=".", suffixes=(".pdf",)), "/a.pdf.exe", False, False),
        (Mount(at="/", root=".", suffixes=(".pdf",)), "/a.pdf/b", False, False),
        (Mount(at="/", root=".", suffixes=(".pdf",)), "/apdf", False, False),
        (Mount(at="/", root=".", suffixes=()), "/a.pdf", False, False),
        (Mount(at="/", root=".", suffixes=(".pdf",), readonly=True), "/a.pdf", True, False),
    ],
)
def test_readonly_and_suffixes_hold(mount: Mount, path: str, readable: bool, writable: bool) -> None:
    place = locate(Tree(mounts=(mount,)), path)
    for check, allowed in ((check_readable, readable), (check_writable, writable)):
        if allowed:
            check(place)
        else:
            with pytest.raises(SandboxRefusal, match=f"'{place.path}'"):
                check(place)


def test_a_mount_that_allows_no_suffix_says_so() -> None:
    with pytest.raises(SandboxRefusal, match="allowed: none"):
        check_readable(locate(Tree(mounts=(Mount(at="/", root=".", suffixes=()),)), "/a"))


@pytest.mark.parametrize(
    ("limit", "size", "fits"),
    [(None, 10**12, True), (10, 10, True), (10, 11, False), (0, 0, True), (0, 1, False)],
)
def test_a_file_may_have_as_many_bytes_as_the_limit(limit: int | None, size: int, fits: bool) -> None:
    place = locate(Tree(mounts=(Mount(at="/", root=".", max_file_bytes=limit),)), "/a")
    if fits:
        check_size(place, size)
        return
    with pytest.raises(SandboxRefusal, match=f"'/a' has {size} bytes; the limit here is {limit}"):
        check_size(place, size)


def test_a_tree_is_described_by_its_mounts() -> None:
    assert describe_roots(NAMED) == "/input (read-only), /output (read-write)"
    assert describe_roots(NO_FILES) == ""


@pytest.mark.parametrize(
    ("folder", "relative", "joined"), [(".", ".", "."), ("a", ".", "a"), (".", "b", "b"), ("a", "b/c", "a/b/c")]
)
def test_joining_adds_what_is_below(folder: str, relative: str, joined: str) -> None:
    assert join(folder, relative) == joined


def test_who_may_not_write_somewhere_is_told_where_they_may() -> None:
    place = locate(NAMED, "/input/deck.pdf")
    with pytest.raises(SandboxRefusal) as caught:
        check_writable(place, NAMED)
    assert str(caught.value) == "'/input/deck.pdf' is read-only; writable: /output"
    with pytest.raises(SandboxRefusal, match="is read-only; nothing here can be written"):
        check_writable(place, Tree(mounts=(NAMED.mounts[0],)))
    with pytest.raises(SandboxRefusal, match="is read-only; it cannot be written"):
        check_writable(place)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/a.txt", "leads out"),
        ("../a.txt", "leads out"),
        ("a/../b.txt", "leads out"),
        ("", "is no path"),
        (".", "is no path"),
        ("a\0b", "is no path"),
        ("a\ud800", "is no path"),
        (".llm-do/x", "its own state"),
        ("a/.LLM-Do/x", "its own state"),
        (".env", "is hidden"),
        ("a/.git/config", "is hidden"),
    ],
    ids=ascii,
)
def test_what_leads_out_or_is_hidden_is_refused(path: str, words: str) -> None:
    with pytest.raises(AttachmentRefusal, match=words):
        check_input_path(path)


def test_a_path_of_the_workshop_is_a_place_in_it() -> None:
    place = input_place("./inbox//news.txt")
    assert (place.relative, place.path, place.mount.root, place.mount.readonly) == (
        "inbox/news.txt",
        "inbox/news.txt",
        ".",
        True,
    )


@pytest.mark.parametrize(("path", "hidden"), [("a/b.c", False), ("a/.b", True), (".a/b", True), ("a..b", False)])
def test_a_part_that_begins_with_a_dot_hides_a_path(path: str, hidden: bool) -> None:
    assert is_hidden_path(path) is hidden


TREE = Tree(
    mounts=(
        Mount(at="/notes", root="notes", suffixes=(".md",), max_file_bytes=10),
        Mount(at="/input", root="pipeline", readonly=True),
    )
)


@pytest.mark.parametrize(
    ("tool", "args", "refusal"),
    [
        # reading wants the suffix, nothing else
        ("read_file", {"path": "/notes/a.md"}, None),
        ("read_file", {"path": "/notes/a.pdf"}, "has a suffix that is not allowed here"),
        ("read_file", {"path": "/input/a.pdf"}, None),
        # writing wants a writable place, the suffix and the size, in bytes
        ("write_file", {"path": "/notes/a.md", "content": "ten bytes!"}, None),
        ("write_file", {"path": "/notes/a.md", "content": "ten bytes!!"}, "has 11 bytes; the limit here is 10"),
        ("write_file", {"path": "/notes/a.md", "content": "ääääää"}, "has 12 bytes; the limit here is 10"),
        ("write_file", {"path": "/notes/a.pdf", "content": ""}, "has a suffix that is not allowed here"),
        ("write_file", {"path": "/input/a.pdf", "content": ""}, "is read-only"),
        ("write_file", {"path": "/notes", "content": ""}, "is a folder"),
        # editing wants both; the size is known only with the file
        ("edit_file", {"path": "/notes/a.md", "old_text": "a", "new_text": "b" * 99}, None),
        ("edit_file", {"path": "/input/a.pdf", "old_text": "a", "new_text": "b"}, "is read-only"),
        # a listing is judged by its place alone
        ("list_files", {"path": "/input/a.pdf"}, None),
        # outside, whatever the tool
        ("read_file", {"path": "/a.md"}, "is outside this worker's files"),
        ("write_file", {"path": "notes/../a.md", "content": ""}, "contains '..'"),
        ("edit_file", {}, "is outside this worker's files"),
    ],
)
def test_a_path_is_judged_for_what_the_tool_would_do(tool: str, args: dict[str, Any], refusal: str | None) -> None:
    if refusal is None:
        assert judge_path(tool, TREE, args).path == args["path"]
        return
    with pytest.raises(SandboxRefusal) as refused:
        judge_path(tool, TREE, args)
    assert refusal in str(refused.value)


@pytest.mark.parametrize(
    ("tool", "args", "name", "payload"),
    [
        ("read_file", {"path": "/notes/a.md"}, "sandbox.read", {"path": "/notes/a.md"}),
        ("write_file", {"path": "/notes/a.md", "content": "ä"}, "sandbox.write", {"path": "/notes/a.md", "bytes": 2}),
        (
            "edit_file",
            {"path": "/notes/a.md", "old_text": "", "new_text": "abc"},
            "sandbox.write",
            {"path": "/notes/a.md", "bytes": 3},
        ),
    ],
)
def test_a_file_tool_uses_one_capability(tool: str, args: dict[str, Any], name: str, payload: dict[str, Any]) -> None:
    use = file_use(tool, judge_path(tool, TREE, args), args)
    assert (use.name, use.payload) == (name, payload)
