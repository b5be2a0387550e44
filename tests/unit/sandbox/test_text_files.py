"""`read_file`, `write_file`, `edit_file` and their previews: whole or not at all, once or twice the same."""

from __future__ import annotations

import dataclasses
import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from llm_do_temporal.messages.sizes import MAX_DIFF_CHARS, MAX_READ_CHARS
from llm_do_temporal.policy.files.sandbox import TEMPORARY_NAME, Mount
from llm_do_temporal.sandbox.changes import MAX_COMPARED_LINES, MAX_READ_BYTES, replace_file
from tests.support.workshops.file_tree import Files, assert_failed, assert_refused, failure_of


@pytest.mark.parametrize(
    ("max_chars", "offset", "content", "truncated"),
    [
        (100, 0, "zwölf Boxkämpfer", False),
        (16, 0, "zwölf Boxkämpfer", False),
        (15, 0, "zwölf Boxkämpfe", True),
        # characters, not bytes
        (3, 2, "ölf", True),
        (14, 2, "ölf Boxkämpfer", False),
        (1, 15, "r", False),
        (5, 16, "", False),
        (5, 1000, "", False),
    ],
)
def test_a_part_of_a_text_says_whether_there_is_more(
    files: Files, max_chars: int, offset: int, content: str, truncated: bool
) -> None:
    files.put("a.txt", "zwölf Boxkämpfer")
    text = files.read("a.txt", max_chars, offset)
    assert (text.content, text.truncated, text.total_chars) == (content, truncated, 16)


@pytest.mark.parametrize(("max_chars", "offset"), [(0, 0), (-1, 0), (1, -1)])
def test_a_part_that_makes_no_sense_is_an_error(files: Files, max_chars: int, offset: int) -> None:
    files.put("a.txt")
    assert_failed(files.read, "a.txt", max_chars, offset, says="it ")


def test_one_call_returns_no_more_than_a_payload_holds(files: Files) -> None:
    files.put("a.txt", "y" * (MAX_READ_CHARS + 1))
    text = files.read("a.txt", max_chars=10**9)
    assert (len(text.content), text.truncated) == (MAX_READ_CHARS, True)
    assert files.read("a.txt", 10**9, MAX_READ_CHARS).content == "y"


def test_an_empty_file_is_an_empty_text(files: Files) -> None:
    files.put("empty.txt", "")
    assert files.read("empty.txt").model_dump() == {"content": "", "truncated": False, "total_chars": 0}


def test_line_ends_and_marks_stay_as_they_are(files: Files) -> None:
    files.put("a.txt", b"\xef\xbb\xbfa\r\nb\rc\x0b")
    assert files.read("a.txt").content == "\ufeffa\r\nb\rc\x0b"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_mark_names_the_encoding_of_a_text(files: Files, encoding: str) -> None:
    files.put("export.csv", "Name\tBetrag\r\nMüller\t1,5 €".encode(encoding))
    assert files.read("export.csv").content == "Name\tBetrag\r\nMüller\t1,5 €"


@pytest.mark.parametrize(
    ("content", "why"),
    [("one\nMüller".encode("cp1252"), "line 2 has the byte 0xfc"), (b"a\n\nb\0", "line 3 has a NUL byte")],
)
def test_the_place_at_which_a_text_cannot_be_read_is_named(files: Files, content: bytes, why: str) -> None:
    files.put("a.log", content)
    assert failure_of(files.read, "a.log").message == f"'/a.log' is not UTF-8 text: {why}"


@pytest.mark.parametrize(
    "content",
    [
        b"\x00",
        b"text\x00text",
        b"\xff\xfe\0",
        b"\xff\xfea\0\0\0",
        "ä".encode("latin-1"),
        b"%PDF-1.7\n\xe2\xe3",
        b"%PDF-1.4\nletters only",
    ],
)
def test_what_is_no_text_points_at_attachments(files: Files, content: bytes) -> None:
    files.put("deck.pdf", content)
    failure = failure_of(files.read, "deck.pdf")
    assert failure.type == "EffectFailed"
    assert failure.message.startswith("'/deck.pdf' is not UTF-8 text")
    assert "attachments" in failure.details[0]["next_step"]


def test_what_is_not_there_is_an_error_that_names_it(files: Files) -> None:
    files.put("a.txt")
    assert_failed(files.read, "b.txt", says="'/b.txt' does not exist")
    assert_failed(files.read, "no/folder/b.txt", says="'/no/folder/b.txt' does not exist")
    assert_failed(files.read, "a.txt/b.txt", says="'/a.txt/b.txt' cannot be reached: a part of the path is a file")
    assert_failed(files.read, "x" * 300, says="the name is too long")


def test_only_regular_files_are_read_and_none_of_the_others_hangs(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.put("folder/a.txt")
    assert_failed(files.read, "folder", says="'/folder' is a folder, not a file")
    assert_failed(files.read, "/", says="'/' is a folder, not a file")
    os.mkfifo(files.workshop / "fifo")
    assert_failed(files.read, "fifo", says="'/fifo' is not a regular file")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(files.workshop)  # the whole path can be too long for a socket
        listener.bind("socket")
        assert_failed(files.read, "socket", says="'/socket' is not a regular file")


def test_a_huge_file_is_refused_before_it_is_read(files: Files) -> None:
    with files.put("big.txt").open("wb") as big:
        big.truncate(50_000_000)
    assert_failed(files.read, "big.txt", says=f"'/big.txt' is larger than the {MAX_READ_BYTES} bytes")


def test_max_file_bytes_decides_either_way(files: Files) -> None:
    files.put("five.txt", "12345")
    small = files.seen_through(Mount(at="/", root=".", max_file_bytes=4))
    assert_refused(small.read, "five.txt", says="'/five.txt' has 5 bytes; the limit here is 4")
    assert files.seen_through(Mount(at="/", root=".", max_file_bytes=5)).read("five.txt").content == "12345"
    files.put("big.txt", b"y" * (MAX_READ_BYTES + 1))
    large = files.seen_through(Mount(at="/", root=".", max_file_bytes=MAX_READ_BYTES * 2))
    assert large.read("big.txt", 1).total_chars == MAX_READ_BYTES + 1
    assert_failed(files.read, "big.txt", says="is larger than")


def test_suffixes_are_checked_again_on_the_file(files: Files) -> None:
    files.put("key.pem", "private")
    files.put("a.txt", "fine")
    (files.workshop / "key.txt").symlink_to("key.pem")
    (files.workshop / "b.txt").symlink_to("a.txt")
    texts = files.seen_through(Mount(at="/", root=".", suffixes=(".txt",)))
    assert texts.read("a.txt").content == texts.read("b.txt").content == "fine"
    assert_refused(texts.read, "key.pem", says="'/key.pem' has a suffix that is not allowed here")
    assert_refused(texts.read, "key.txt", says="'/key.txt' is a link to a file with a suffix that is not allowed")


def test_no_message_names_a_folder_of_the_host(files: Files, outside: Path) -> None:
    (files.workshop / "out").symlink_to(outside)
    for path in ("nothing", "out/secret.txt", "out", ".llm-do/x", "x" * 300):
        failure = failure_of(files.read, path)
        assert str(files.workshop.parent) not in f"{failure.message}{failure.details}"


def test_a_workshop_that_is_gone_is_an_error_like_any_other(files: Files) -> None:
    files.workshop.rmdir()
    assert_failed(files.read, "a.txt", says="'/a.txt' does not exist")


def retried(files: Files) -> Files:
    """The same activities at their second attempt."""
    return dataclasses.replace(files, attempt=2)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_file_comes_with_its_folders_and_a_diff(files: Files) -> None:
    change = files.write("a/b/c.txt", "one\ntwo\n")
    assert (change.path, change.bytes, change.created) == ("/a/b/c.txt", 8, True)
    assert change.diff == "--- /dev/null\n+++ /a/b/c.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert (files.workshop / "a/b/c.txt").read_bytes() == b"one\ntwo\n"


def test_a_file_is_replaced_and_the_diff_shows_what_changed(files: Files) -> None:
    files.put("a.txt", "one\ntwo\nthree")
    change = files.write("a.txt", "one\n2\nthree")
    assert not change.created
    assert change.diff == (
        "--- /a.txt\n+++ /a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n\\ No newline at end of file\n"
    )


def test_writing_the_same_again_changes_nothing(files: Files) -> None:
    files.write("a.txt", "text")
    before = (files.workshop / "a.txt").stat()
    change = retried(files).write("a.txt", "text")
    after = (files.workshop / "a.txt").stat()
    assert (change.diff, change.created, change.bytes) == ("", False, 4)
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o444 | stat.S_IWUSR])
def test_permissions_are_kept(files: Files, mode: int) -> None:
    files.put("a.sh", "old").chmod(mode)
    files.write("a.sh", "new")
    assert stat.S_IMODE((files.workshop / "a.sh").stat().st_mode) == mode


def test_a_write_protected_file_is_left_alone(files: Files) -> None:
    files.put("a.txt", "old").chmod(0o444)
    for call in (files.write, files.preview_write):
        assert_failed(call, "a.txt", "new", says="'/a.txt' is write-protected")
    assert_failed(files.edit, "a.txt", "old", "new", says="'/a.txt' is write-protected")
    assert (files.workshop / "a.txt").read_text() == "old"


def test_an_open_reader_keeps_the_old_file_whole(files: Files) -> None:
    with files.put("a.txt", "old" * 1000).open() as reader:
        files.write("a.txt", "new")
        assert reader.read() == "old" * 1000


def test_nothing_is_left_of_a_write_that_fails(files: Files) -> None:
    (files.workshop / "taken").mkdir()
    folder = os.open(files.workshop, os.O_RDONLY)
    try:
        with pytest.raises(IsADirectoryError):
            replace_file(folder, "taken", b"text", None)
    finally:
        os.close(folder)
    assert [path.name for path in files.workshop.iterdir()] == ["taken"]


def test_what_is_being_written_is_not_listed(files: Files) -> None:
    name = ".llm-do-0123456789abcdef.tmp"
    assert TEMPORARY_NAME.fullmatch(name)
    files.put(name, "half")
    files.put(".llm-do-notes.tmp", "whole")
    assert files.names() == ["/.llm-do-notes.tmp"]


@pytest.mark.parametrize("path", ["a.txt", "no/such/folder/a.txt"])
def test_a_preview_shows_the_change_and_makes_none(files: Files, path: str) -> None:
    files.put("a.txt", "old")
    before = snapshot(files.workshop)
    preview = files.preview_write(path, "new")
    assert snapshot(files.workshop) == before
    assert sorted(child.name for child in files.workshop.iterdir()) == ["a.txt"]
    assert files.write(path, "new") == preview


def test_a_preview_in_a_mount_that_has_no_folder_yet_makes_none(files: Files) -> None:
    output = files.seen_through(Mount(at="/output", root="evaluations/2026", base="evaluations/2026"))
    assert output.preview_write("output/a/b.txt", "new").created
    assert list(files.workshop.iterdir()) == []
    assert_failed(output.preview_edit, "output/b.txt", "old", "new", says="'/output/b.txt' does not exist")
    assert output.write("output:a/b.txt", "new").path == "/output/a/b.txt"
    assert snapshot(files.workshop / "evaluations") == {"2026/a/b.txt": b"new"}


def test_write_and_preview_give_the_same_errors(files: Files) -> None:
    files.put("folder/a.txt")
    os.mkfifo(files.workshop / "fifo")
    for path, code, says in (
        ("folder", "EffectFailed", "'/folder' is a folder, not a file"),
        ("folder/a.txt/b.txt", "EffectFailed", "'/folder/a.txt/b.txt' cannot be reached: a part of the path is a file"),
        ("fifo", "EffectFailed", "'/fifo' is not a regular file"),
        ("/", "SandboxRefusal", "'/' is a folder; a file name is needed"),
        ("x" * 300, "EffectFailed", "the name is too long"),
    ):
        failures = [failure_of(call, path, "text") for call in (files.write, files.preview_write)]
        assert {failure.type for failure in failures} == {code}
        assert all(says in failure.message for failure in failures)


@pytest.mark.parametrize(
    ("mount", "path", "says"),
    [
        (Mount(at="/", root=".", readonly=True), "a.txt", "'/a.txt' is read-only"),
        (Mount(at="/", root=".", suffixes=(".md",)), "a.txt", "'/a.txt' has a suffix that is not allowed here"),
        (Mount(at="/", root=".", max_file_bytes=3), "a.txt", "'/a.txt' has 4 bytes; the limit here is 3"),
        (Mount(at="/", root=".", max_file_bytes=3), "made/a.txt", "'/made/a.txt' has 4 bytes"),
    ],
)
def test_the_rules_of_the_mount_hold_when_it_is_used(files: Files, mount: Mount, path: str, says: str) -> None:
    limited = files.seen_through(mount)
    for call in (limited.write, limited.preview_write):
        assert_refused(call, path, "four", says=says)
    assert list(files.workshop.iterdir()) == []


def test_bytes_are_what_counts_and_the_limit_is_allowed(files: Files) -> None:
    limited = files.seen_through(Mount(at="/", root=".", max_file_bytes=4))
    assert limited.write("a.txt", "ää").bytes == 4
    assert_refused(limited.write, "a.txt", "äää", says="has 6 bytes")
    assert_refused(limited.edit, "a.txt", "ää", "äää", says="has 6 bytes")
    assert (files.workshop / "a.txt").read_text() == "ää"


def test_half_a_character_is_an_error_before_anything_is_made(files: Files) -> None:
    def write(content: str) -> object:
        return files.write("made/a.txt", content)

    assert_failed(write, "ab\ud800", says="the text for '/made/a.txt' holds half a character at 2")
    assert list(files.workshop.iterdir()) == []


def test_replacing_what_is_no_text_says_so(files: Files) -> None:
    files.put("a.bin", b"\xff\xfe")
    assert "not text, or too large to compare" in files.write("a.bin", "text").diff
    limited = files.seen_through(Mount(at="/", root=".", max_file_bytes=3))
    files.put("big.txt", "too big to be kept")
    assert "not text, or too large to compare" in limited.write("big.txt", "ok").diff
    assert (files.workshop / "big.txt").read_text() == "ok"


def test_a_long_diff_is_cut_with_a_line_that_says_so(files: Files) -> None:
    diff = files.write("a.txt", "".join(f"line {number} of many\n" for number in range(9_000))).diff
    *lines, last = diff.splitlines()
    assert len(diff) <= MAX_DIFF_CHARS + len(last) + 1
    assert last.startswith("... the diff is cut here: ")
    assert lines[-1] in {f"+line {number} of many" for number in range(9_000)}
    one_line = files.write("b.txt", "y" * 200_000).diff
    assert one_line.splitlines()[-1].startswith("... the diff is cut here")


def test_many_lines_are_compared_from_both_ends(files: Files) -> None:
    lines = [f"{number}\n" for number in range(MAX_COMPARED_LINES)]
    files.put("a.txt", "".join(lines))
    change = files.edit("a.txt", "\n1000\n", "\nchanged\nadded\n")
    assert change.diff == "--- /a.txt\n+++ /a.txt\n@@ -1001,1 +1001,2 @@\n-1000\n+changed\n+added\n"
    assert files.edit("a.txt", "0\n1\n", "0\n").diff.endswith("@@ -2,1 +1,0 @@\n-1\n")
    assert files.edit("a.txt", "0\n2\n", "0\nx\n2\n").diff.endswith("@@ -1,0 +2,1 @@\n+x\n")


def test_lines_end_only_where_everybody_ends_them(files: Files) -> None:
    files.put("a.txt", "a\u2028b\x0bc\r\n")
    assert files.write("a.txt", "a\u2028b\x0bd\r\n").diff.count("\n") == 5


def test_an_edit_replaces_the_one_place(files: Files) -> None:
    files.put("a.txt", "alpha beta gamma")
    change = files.edit("a.txt", "beta", "BETA")
    assert (files.workshop / "a.txt").read_text() == "alpha BETA gamma"
    assert (change.bytes, change.created) == (16, False)
    assert "-alpha beta gamma" in change.diff


@pytest.mark.parametrize(
    ("text", "old", "says"),
    [
        ("abc", "x", "old_text does not occur in '/a.txt'; it must occur exactly once"),
        ("abc", "ABC", "does not occur"),
        ("a\r\nb", "a\n\nb", "does not occur"),
        ("x x x", "x", "old_text occurs 3 times in '/a.txt'; it must occur exactly once"),
        # one that overlaps itself names two places
        ("aaa", "aa", "occurs 2 times"),
        ("", "a", "does not occur"),
        ("abc", "", "old_text is empty"),
    ],
)
def test_an_edit_without_one_place_says_how_many(files: Files, text: str, old: str, says: str) -> None:
    files.put("a.txt", text)
    for call in (files.edit, files.preview_edit):
        assert_failed(call, "a.txt", old, "new", says=says)
    assert (files.workshop / "a.txt").read_bytes() == text.encode()


def test_an_edit_that_changes_nothing_is_an_error(files: Files) -> None:
    files.put("a.txt", "abc")
    assert_failed(files.edit, "a.txt", "b", "b", says="old_text and new_text are the same")


def test_an_edit_of_another_kind_of_line_ends_keeps_those_of_the_file(files: Files) -> None:
    files.put("a.txt", "one\r\ntwo\r\nthree\r\n")
    shown = files.preview_edit("a.txt", "one\ntwo\n", "1\n2\nplus\n")
    done = files.edit("a.txt", "one\ntwo\n", "1\n2\nplus\n")
    assert (shown.diff, shown.seen) == (done.diff, done.seen)
    assert (files.workshop / "a.txt").read_bytes() == b"1\r\n2\r\nplus\r\nthree\r\n"
    assert_failed(files.edit, "a.txt", "plus\n", "plus\r", says="differ in line ends alone")


def test_an_edit_needs_a_text_file(files: Files) -> None:
    files.put("a.bin", b"\x00")
    for call in (files.edit, files.preview_edit):
        assert_failed(call, "none.txt", "a", "b", says="'/none.txt' does not exist")
        assert_failed(call, "no/folder/none.txt", "a", "b", says="'/no/folder/none.txt' does not exist")
        assert_failed(call, "a.bin", "a", "b", says="'/a.bin' is not UTF-8 text")
    for encoding in ("utf-16", "utf-32"):
        files.put("a.bin", "ab".encode(encoding))
        for call in (files.edit, files.preview_edit):
            assert_failed(call, "a.bin", "a", "b", says=f"'/a.bin' is {encoding.upper()} text, and only UTF-8")
    with files.put("big.txt").open("wb") as big:
        big.truncate(50_000_000)
    assert_failed(files.edit, "big.txt", "a", "b", says="'/big.txt' is larger than")
    assert not (files.workshop / "no").exists()


def test_an_edit_may_empty_a_file(files: Files) -> None:
    files.put("a.txt", "all")
    assert files.edit("a.txt", "all", "").bytes == 0
    assert (files.workshop / "a.txt").read_bytes() == b""


@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        ("alpha beta", "beta", "gamma"),
        # the new text holds the old one: doing it again would do it twice
        ("alpha beta", "beta", "beta beta2"),
        ("import os\n", "import os\n", "import os\nimport sys\n"),
        ("alpha beta", " beta", ""),
    ],
)
def test_a_second_attempt_after_the_first_one_worked_changes_nothing(
    files: Files, before: str, old: str, new: str
) -> None:
    files.put("a.txt", before)
    files.edit("a.txt", old, new)
    done = (files.workshop / "a.txt").read_text()
    assert retried(files).edit("a.txt", old, new).diff == ""
    assert (files.workshop / "a.txt").read_text() == done == before.replace(old, new)


@pytest.mark.parametrize(
    ("before", "old", "new"),
    [("alpha beta", "beta", "gamma"), ("alpha beta", "beta", "beta beta2"), ("alpha beta", " beta", "")],
)
def test_a_second_attempt_after_the_first_one_died_makes_the_edit(
    files: Files, before: str, old: str, new: str
) -> None:
    files.put("a.txt", before)
    assert retried(files).edit("a.txt", old, new).diff
    assert (files.workshop / "a.txt").read_text() == before.replace(old, new)


def test_a_second_attempt_still_reports_what_cannot_have_worked(files: Files) -> None:
    files.put("a.txt", "new new")
    assert_failed(retried(files).edit, "a.txt", "old", "new", says="does not occur")
    assert_failed(files.edit, "a.txt", "old", "new new", says="does not occur")
    files.put("a.txt", "old old")
    assert_failed(retried(files).edit, "a.txt", "old", "new", says="occurs 2 times")


def test_edits_side_by_side_are_all_kept(files: Files) -> None:
    files.put("a.txt", "".join(f"<{number}>" for number in range(40)))
    start = threading.Barrier(8)

    def edit(first: int) -> None:
        start.wait()
        for number in range(first, 40, 8):
            files.edit("a.txt", f"<{number}>", f"[{number}]")

    threads = [threading.Thread(target=edit, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (files.workshop / "a.txt").read_text() == "".join(f"[{number}]" for number in range(40))
    assert {path.name for path in files.workshop.iterdir()} == {"a.txt", ".llm-do"}
