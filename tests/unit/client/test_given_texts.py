"""Texts that a person gives in a file or a pipe."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from llm_do_temporal.cli.options import read_json
from llm_do_temporal.client.batches import items_of_lines, read_given
from llm_do_temporal.errors import UsageError
from llm_do_temporal.ui.access import read_token_file

READERS: list[Callable[[Path], object]] = [
    items_of_lines,
    read_token_file,
    lambda path: read_json(f"@{path}", "--input"),
]


@pytest.mark.parametrize("read", READERS)
def test_a_file_without_end_is_refused_at_the_bound(read: Callable[[Path], object]) -> None:
    with pytest.raises(UsageError, match=r"'/dev/zero'.* has more than \d+ bytes"):
        read(Path("/dev/zero"))


@pytest.mark.parametrize("read", READERS)
def test_text_of_another_encoding_is_named_with_its_place(tmp_path: Path, read: Callable[[Path], object]) -> None:
    file = tmp_path / "export.csv"
    file.write_bytes("Name;Betrag\nMüller;1,5".encode("cp1252"))
    with pytest.raises(UsageError, match=r"export.csv'.* not UTF-8 text \(line 2 has the byte 0xfc\)") as raised:
        read(file)
    assert "iconv" in str(raised.value.next_step)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_text_of_wide_characters_without_a_mark_is_refused(
    tmp_path: Path, read: Callable[[Path], object], encoding: str
) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes("eins\nzwei\n".encode(encoding))
    with pytest.raises(
        UsageError, match=r"lines.txt'.* not UTF-8 text \(line 1 has a NUL character, as UTF-16"
    ) as raised:
        read(file)
    assert "iconv -f UTF-16" in str(raised.value.next_step)


@pytest.mark.parametrize("read", READERS)
def test_an_archive_is_no_text_to_be_converted(tmp_path: Path, read: Callable[[Path], object]) -> None:
    file = tmp_path / "export.csv"
    file.write_bytes(b"PK\x03\x04\x14\0\x06\0 [Content_Types].xml xl/workbook.xml \xff")
    with pytest.raises(UsageError, match=r"export.csv'.* no text, its content is .*spreadsheetml.sheet") as raised:
        read(file)
    assert "iconv" not in str(raised.value.next_step)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("name", ["gone", "a\0b", "folder/"])
def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, read: Callable[[Path], object], name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_pipe_without_a_name_is_read_to_its_end_with_plain_newlines(encoding: str) -> None:
    out, into = os.pipe()
    text = "ü\r\n1\r2\n" * 50_000

    def write() -> None:
        with os.fdopen(into, "wb") as file:
            file.write(text.encode(encoding))

    writer = threading.Thread(target=write)
    writer.start()
    assert read_given(Path(f"/dev/fd/{out}"), "the pipe") == "ü\n1\n2\n" * 50_000
    writer.join()
    os.close(out)


@pytest.mark.parametrize("read", READERS)
def test_a_named_pipe_is_refused_at_once_though_nobody_writes_to_it(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(UsageError, match=f"{name}'.* is a named pipe, and nobody may ever write to it"):
            read(tmp_path / name)


@pytest.mark.parametrize("read", READERS)
def test_a_file_whose_reading_fails_is_named(tmp_path: Path, read: Callable[[Path], object]) -> None:
    (tmp_path / "memory").symlink_to("/proc/self/mem")
    with pytest.raises(UsageError, match=r"memory'.* cannot be read: Input/output error"):
        read(tmp_path / "memory")


def test_as_many_bytes_as_are_allowed_are_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "full"
    file.write_bytes(b"x" * 10)
    assert read_given(file, "the file", most=10) == "x" * 10
    with pytest.raises(UsageError, match="the file has more than 9 bytes"):
        read_given(file, "the file", most=9)
