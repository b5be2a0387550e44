"""`read_file`: parts of long texts, what is no text, and what must not be read."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from llm_do_temporal.messages.sizes import MAX_READ_CHARS
from llm_do_temporal.policy.files.sandbox import Mount
from llm_do_temporal.sandbox.text_files import MAX_READ_BYTES
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
