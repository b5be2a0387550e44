"""`list_files`: what a pattern matches, across mounts, and what is never shown."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.activities import ListFilesInput, ReadInputsInput
from llm_do_temporal.messages.runs import InputFiles
from llm_do_temporal.policy.files.attachments import AttachmentPolicy
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.sandbox.input_files import InputReader, measure
from llm_do_temporal.sandbox.listing import MAX_FILES, Walk, list_tree, parse_pattern
from llm_do_temporal.sandbox.safe_open import WorkshopFolder
from tests.support.rights import modes_count
from tests.support.workshops.file_tree import WHOLE, Files, assert_failed, assert_refused

SEVERAL = ("a.md", "b.txt", "src/a.md", "src/lib/a.md", "src/lib/b.py", "src-old/a.md", ".hidden/c.md", ".env")

ALL = ["/.env", "/.hidden/c.md", "/a.md", "/b.txt", "/src-old/a.md", "/src/a.md", "/src/lib/a.md", "/src/lib/b.py"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*", ALL),
        ("*", ["/.env", "/a.md", "/b.txt"]),
        ("*.md", ["/a.md"]),
        ("./*.md", ["/a.md"]),
        ("*/*.md", ["/.hidden/c.md", "/src-old/a.md", "/src/a.md"]),
        # `**` is any number of folders, none among them
        ("**/a.md", ["/a.md", "/src-old/a.md", "/src/a.md", "/src/lib/a.md"]),
        ("src/**/a.md", ["/src/a.md", "/src/lib/a.md"]),
        ("src/**", ["/src/a.md", "/src/lib/a.md", "/src/lib/b.py"]),
        ("**", ALL),
        ("**/lib/**", ["/src/lib/a.md", "/src/lib/b.py"]),
        ("**/src/**/lib/**/*.py", ["/src/lib/b.py"]),
        ("**/**/**/b.py", ["/src/lib/b.py"]),
        # inside a name two stars are one
        ("src**/a.md", ["/src-old/a.md", "/src/a.md"]),
        ("?.md", ["/a.md"]),
        ("[ab].*", ["/a.md", "/b.txt"]),
        ("[!a].*", ["/b.txt"]),
        # braces
        ("*.{md,txt}", ["/a.md", "/b.txt"]),
        ("{src,src-old}/*.md", ["/src-old/a.md", "/src/a.md"]),
        ("{src/lib,.hidden}/**/*.{md,py}", ["/.hidden/c.md", "/src/lib/a.md", "/src/lib/b.py"]),
        ("{a,{b,c}}.{md,txt}", ["/a.md", "/b.txt"]),
        ("src/{,lib/}a.md", ["/src/a.md", "/src/lib/a.md"]),
        ("{a}.md", []),
        # capitals count, and a pattern is the whole path
        ("*.MD", []),
        ("lib/a.md", []),
        ("src", []),
        ("src/", []),
        ("[", []),
        ("nothing/**/*", []),
    ],
)
def test_a_pattern_matches_paths_below_the_folder(files: Files, pattern: str, expected: list[str]) -> None:
    for path in SEVERAL:
        files.put(path)
    assert files.names(pattern=pattern) == expected


def test_a_pattern_is_relative_to_the_folder_asked_for(files: Files) -> None:
    for path in SEVERAL:
        files.put(path)
    assert files.names("src", "*.md") == files.names("/src/", "*.md") == ["/src/a.md"]
    assert files.names("src", "src/*") == []
    assert files.names("src/lib", "**/*") == ["/src/lib/a.md", "/src/lib/b.py"]


@pytest.mark.parametrize("pattern", ["", "/", ".", "/a.md", "../*", "src/../*", "**/.."])
def test_a_pattern_that_is_not_relative_is_an_error(files: Files, pattern: str) -> None:
    assert_failed(files.list, ".", pattern, says=f"pattern '{pattern}' is not relative to a folder")


def test_special_characters_in_names_match_themselves(files: Files) -> None:
    for path in ("a[1].txt", "a\\b.txt", "a\nb.txt", "a{b}.txt", "ä.txt", "😀.txt", "-rf", "a b.txt"):
        files.put(path)
    assert len(files.names()) == 8
    assert files.names(pattern="a[[]1].txt") == ["/a[1].txt"]
    assert files.names(pattern="a?b.txt") == ["/a\nb.txt", "/a b.txt", "/a\\b.txt"]
    assert files.names(pattern="?.txt") == ["/ä.txt", "/😀.txt"]


def test_a_pattern_made_to_be_slow_is_not(files: Files) -> None:
    files.put("/".join(["a"] * 30) + "/" + "a" * 200 + ".txt")
    assert files.names(pattern="**/a/" * 12 + "*a" * 40 + "b") == []
    assert len(files.names(pattern="**/a/" * 12 + "*a" * 40 + "*")) == 1


def test_paths_are_sorted_as_text_and_sizes_are_bytes(files: Files) -> None:
    for path in ("b", "a/x", "a-b", "a.b", "a/y/z", "B", "a0", "ä"):
        files.put(path, "ä")
    names = files.names()
    assert names == sorted(names)
    assert {entry.bytes for entry in files.list().files} == {2}


def test_only_regular_files_are_listed(files: Files) -> None:
    files.put("folder/a.txt", "")
    (files.workshop / "empty").mkdir()
    os.mkfifo(files.workshop / "fifo")
    assert [entry.model_dump() for entry in files.list().files] == [{"path": "/folder/a.txt", "bytes": 0}]


def test_links_are_listed_where_they_lead_to_a_file_inside(files: Files, outside: Path) -> None:
    files.put("real/a.txt", "12345")
    for name, target in (
        ("inside", "real/a.txt"),
        ("out", str(outside / "secret.txt")),
        ("up", "../outside/secret.txt"),
        ("dangling", "nowhere"),
        ("circle", "circle"),
        ("folder", "real"),
        ("outer-folder", "../outside"),
        ("again", "."),
        ("state", ".llm-do/db"),
    ):
        (files.workshop / name).symlink_to(target)
    files.put(".llm-do/db")
    assert [(entry.path, entry.bytes) for entry in files.list().files] == [("/inside", 5), ("/real/a.txt", 5)]
    assert files.names("folder") == ["/folder/a.txt"]
    # our own state stays out of sight, whatever the way
    assert files.names("again", "**/*") == ["/again/inside", "/again/real/a.txt"]
    assert_refused(files.list, "outer-folder", says="leads out")
    assert_refused(files.list, ".llm-do", says="its own state")


def test_suffixes_hide_what_could_not_be_read(files: Files) -> None:
    for path in ("a.txt", "b.pem", "sub.pem/c.TXT"):
        files.put(path)
    (files.workshop / "key.txt").symlink_to("b.pem")
    assert files.seen_through(Mount(at="/", root=".", suffixes=(".txt",))).names() == ["/a.txt", "/sub.pem/c.TXT"]


def test_names_that_nobody_could_write_are_left_out(files: Files) -> None:
    files.put("fine.txt")
    folder = os.fsencode(files.workshop)
    with open(folder + b"/bad-\xff.txt", "wb"):  # noqa: PTH123 - a Path cannot be made of such bytes
        pass
    os.mkdir(folder + b"/bad-\xff")  # noqa: PTH102
    assert files.names() == ["/fine.txt"]


def test_several_mounts_make_one_listing(files: Files) -> None:
    files.put("pipeline/b.pdf")
    files.put("evaluations/deep/a.md")
    files.put("secret/x")
    two = files.seen_through(Mount(at="/input", root="pipeline"), Mount(at="/a/output", root="evaluations"))
    assert two.names("/") == two.names() == ["/a/output/deep/a.md", "/input/b.pdf"]
    assert two.names("/", "*/*.pdf") == two.names("/", "input/**") == ["/input/b.pdf"]
    assert two.names("/a", "output/**") == ["/a/output/deep/a.md"]
    assert two.names("input:", "*") == ["/input/b.pdf"]
    assert_refused(two.list, "/secret", says="outside this worker's files; it can reach /input")


def test_a_mount_hides_what_lies_under_it(files: Files) -> None:
    files.put("docs/old.md")
    files.put("docs-file")
    files.put("manuals/new.md")
    files.put("z.md")
    nested = files.seen_through(Mount(at="/", root="."), Mount(at="/docs", root="manuals"))
    assert nested.names() == ["/docs-file", "/docs/new.md", "/manuals/new.md", "/z.md"]
    assert nested.names("docs") == ["/docs/new.md"]


def test_a_folder_that_is_not_there_is_an_error(files: Files) -> None:
    files.put("a.txt")
    assert_failed(files.list, "none", says="'/none' does not exist")
    assert_failed(files.list, "a.txt", says="'/a.txt' cannot be reached: a part of the path is a file, not a folder")
    output = Mount(at="/output", root="evaluations")
    assert_failed(files.seen_through(output).list, "/output", says="'/output' does not exist")
    # but the folder that mounts lie in is there
    assert files.seen_through(output).names("/") == []
    assert files.seen_through(output, Mount(at="/input", root=".")).names("/") == ["/input/a.txt"]


def test_a_mount_that_cannot_be_opened_is_not_passed_over(files: Files) -> None:
    files.put("a.txt")
    two = files.seen_through(Mount(at="/input", root="."), Mount(at="/odd", root="a.txt"))
    assert_failed(two.list, "/", says="'/odd' cannot be reached")


@pytest.mark.parametrize(("count", "truncated"), [(MAX_FILES, False), (MAX_FILES + 1, True)])
def test_a_long_listing_is_cut_in_order(files: Files, count: int, truncated: bool) -> None:
    for number in range(count):
        (files.workshop / f"{number:05}").touch()
    listing = files.list()
    assert (len(listing.files), listing.truncated) == (MAX_FILES, truncated)
    assert listing.files[-1].path == f"/{MAX_FILES - 1:05}"


def test_a_walk_that_takes_too_long_says_so(files: Files) -> None:
    for number in range(20):
        files.put(f"{number}/a.txt")
    asked = ListFilesInput(tree=WHOLE, path="/", pattern="**/*.none")
    opener = WorkshopFolder(files.workshop, files.open_below)
    assert list_tree(opener, asked, max_visited=40).truncated is False
    assert list_tree(opener, asked, max_visited=39).truncated is True


@pytest.fixture
def deep(files: Files) -> Generator[int]:
    """Folders in folders, deeper than Python can call; how deep. Taken away again, as pytest could not do that."""
    depth = 1_200
    current = os.open(files.workshop, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=current)
        inner = os.open("d", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = inner
    os.close(os.open("end.txt", os.O_CREAT | os.O_WRONLY, dir_fd=current))
    yield depth
    os.unlink("end.txt", dir_fd=current)
    for _ in range(depth):
        outer = os.open("..", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = outer
        os.rmdir("d", dir_fd=current)
    os.close(current)


@pytest.mark.sampled(1)
def test_folders_nested_deeper_than_python_can_call(files: Files, deep: int) -> None:
    assert files.names() == ["/" + "d/" * deep + "end.txt"]


def test_a_folder_removed_during_the_walk_is_passed_over(files: Files) -> None:
    files.put("a/1.txt")
    files.put("b/2.txt")
    found = Walk(WorkshopFolder(files.workshop, files.open_below), WHOLE, files.place("/"), parse_pattern("**"), "/")
    walk = found.files(required=True)
    assert next(walk).path == "/a/1.txt"
    shutil.rmtree(files.workshop / "b")
    (files.workshop / "b").symlink_to("a")
    assert list(walk) == []


def test_a_tree_without_files_is_refused(files: Files) -> None:
    files.tree = Tree()
    assert_refused(files.list, says="no file access")


def test_listings_never_name_the_host(files: Files) -> None:
    files.put("a.txt")
    assert not re.search(re.escape(str(files.workshop)), files.list().model_dump_json())


@pytest.mark.parametrize("pattern", ["!*.md", "*.md|*.txt", "*.md,*.txt", "*.md *.txt", "@(a|b).md", "src\\*.md"])
def test_a_pattern_of_other_programs_that_finds_nothing_is_explained(files: Files, pattern: str) -> None:
    files.put("a.md")
    found = files.list("/", pattern)
    assert found.files == ()
    assert "A pattern knows *, ?, [abc], [!abc], {a,b} and **" in found.note


@pytest.mark.parametrize("name", ["a!b.md", "a|b.md", "a, b.md", "{a,b}.md", "(a).md"])
def test_a_name_with_such_signs_is_found_by_itself(files: Files, name: str) -> None:
    files.put(name)
    found = files.list("/", name)
    assert ([entry.path for entry in found.files], found.note) == ([f"/{name}"], "")


def test_braces_that_stand_for_too_much_are_refused() -> None:
    with pytest.raises(EffectFailed, match="more than 64 patterns"):
        parse_pattern("{a,b}" * 10)


@pytest.mark.parametrize(
    ("pattern", "counted", "shown"),
    [
        ("**/*", 3, "/d\ufffd"),
        ("*.md", 1, "/b\ufffd.md"),
        ("**/*.md", 2, "/d\ufffd"),
        ("c/*", 1, "/c/\ufffd"),
        ("a*", 0, ""),
    ],
)
def test_names_that_are_not_utf8_are_counted(files: Files, pattern: str, counted: int, shown: str) -> None:
    files.put("a.txt")
    files.put("c/a.txt")
    top = os.fsencode(files.workshop)
    for path in (b"/b\xff.md", b"/c/\xff"):
        Path(os.fsdecode(top + path)).touch()
    Path(os.fsdecode(top + b"/d\xff")).mkdir()
    found = files.list("/", pattern)
    assert (f": {counted} of the files" in found.note) is (counted > 0)
    assert shown in found.note
    found.model_dump_json()


@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_folders_that_may_not_be_read_are_counted(files: Files, mode: int) -> None:
    names = [f"closed{number}" for number in range(5)]
    for name in names:
        files.put(f"{name}/a.txt")
        (files.workshop / name).chmod(mode)
    files.put("open/a.txt")
    with modes_count():
        listing, other = files.list(), files.list(pattern="open/*")
    for name in names:
        (files.workshop / name).chmod(0o700)
    assert [file.path for file in listing.files] == ["/open/a.txt"]
    assert listing.note == (
        "not all is listed, because permission to read was denied for 5 folders: '/closed0', '/closed1', '/closed2' "
        "and 2 more"
    )
    assert other.note == ""


def test_a_folder_that_may_not_be_read_is_an_item_that_fails(tmp_path: Path) -> None:
    for name in ("inbox/open", "inbox/shut", "inbox/.shut", "other/shut"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.txt").write_text("a")
    shut = [tmp_path / name for name in ("inbox/shut", "inbox/.shut", "other/shut")]
    for folder in shut:
        folder.chmod(0)
    files = InputFiles(each=("inbox/**/*.txt",))
    asked = ReadInputsInput(files=files, policy=AttachmentPolicy(), worker="reader")
    with modes_count():
        found = InputReader(tmp_path, asked, measure).read()
    for folder in shut:
        folder.chmod(0o700)
    assert found.items is not None
    assert [(item.name, item.unusable) for item in found.items] == [
        ("inbox/open/a.txt", ""),
        ("inbox/shut/", "its files are not known, because permission to read was denied for the folder 'inbox/shut'"),
    ]
