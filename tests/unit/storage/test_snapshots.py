"""Copying files for a run: what they are, what they are called, and which ones a person cannot attach."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llm_do_temporal.errors import UsageError
from llm_do_temporal.storage.blobs import LocalBlobStore
from llm_do_temporal.storage.snapshots import (
    SNIFFED_BYTES,
    UnreadableFile,
    copy_into,
    guess_media_type,
    snapshot_host_files,
)

PDF, PNG = b"%PDF-1.7\n", b"\x89PNG\r\n\x1a\n"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.fixture
def blobs(tmp_path: Path) -> LocalBlobStore:
    return LocalBlobStore(tmp_path / "blobs")


@pytest.mark.parametrize(
    ("name", "head", "media_type"),
    [
        # content first, whatever the name says
        ("deck.pdf", PDF, "application/pdf"),
        ("deck.txt", PDF, "application/pdf"),
        ("deck", PNG, "image/png"),
        ("photo.png", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("a", b"GIF87a", "image/gif"),
        ("a", b"GIF89a", "image/gif"),
        ("a", b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"),
        # not only the beginning of the beginning
        ("a", b"RIFF\x10\x00\x00\x00WAVE", "application/octet-stream"),
        ("a.wav", b"RIFF\x10\x00\x00\x00WAVE", "audio/wav"),
        ("a.txt", b"%PD", "text/plain"),
        # a text about PDFs is a text
        ("a.md", b"how to read %PDF-1.7", "text/markdown"),
        # then the suffix, in any case
        ("a.CSV", b"\xff\xfe", "text/csv"),
        ("a.docx", b"PK\x03\x04", DOCX),
        ("/input/a.b.json", b"{}", "application/json"),
        ("deck.pdf", b"no PDF at all", "application/pdf"),
        # then what is text, then the rest
        ("README", b"text", "text/plain"),
        ("a.unknown", "zwölf".encode(), "text/plain"),
        (".pdf", b"text", "text/plain"),
        ("a", b"text\x00", "application/octet-stream"),
        ("a", "zwölf".encode("latin-1"), "application/octet-stream"),
        ("a", b"", "text/plain"),
        # a character cut in two by the end of the part looked at is still text
        ("a", b"x" * (SNIFFED_BYTES - 1) + "ö".encode(), "text/plain"),
        # but one that is broken by the end of the file is not
        ("a", b"x" + "ö".encode()[:1], "application/octet-stream"),
        ("a", b"\xff" + b"x" * SNIFFED_BYTES, "application/octet-stream"),
        # what comes later is not looked at
        ("a", b"x" * SNIFFED_BYTES + b"\x00", "text/plain"),
    ],
)
def test_the_media_type_comes_from_content_then_suffix_then_text(name: str, head: bytes, media_type: str) -> None:
    assert guess_media_type(name, head) == media_type


def test_files_are_copied_as_they_are_now(tmp_path: Path, blobs: LocalBlobStore) -> None:
    deck, notes = tmp_path / "sub" / "deck.pdf", tmp_path / "notes.txt"
    deck.parent.mkdir()
    deck.write_bytes(PDF)
    notes.write_text("notes")
    first, second = snapshot_host_files([deck, notes], blobs, 100)
    deck.write_bytes(b"changed")
    assert (first.path, first.bytes, first.media_type) == ("deck.pdf", len(PDF), "application/pdf")
    assert (second.path, second.media_type) == ("notes.txt", "text/plain")
    assert blobs.read(first.sha256) == PDF


def test_no_files_are_no_attachments(blobs: LocalBlobStore) -> None:
    assert snapshot_host_files([], blobs, 0) == ()


def test_a_large_file_is_told_by_its_beginning(tmp_path: Path, blobs: LocalBlobStore) -> None:
    (tmp_path / "big").write_bytes(PDF + b"\0" * 3_000_000)
    (attachment,) = snapshot_host_files([tmp_path / "big"], blobs, 10_000_000)
    assert (attachment.media_type, attachment.bytes) == ("application/pdf", 3_000_000 + len(PDF))


def test_a_person_may_attach_through_a_link(tmp_path: Path, blobs: LocalBlobStore) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "link.md").symlink_to(tmp_path / "a.txt")
    assert snapshot_host_files([tmp_path / "link.md"], blobs, 10)[0].path == "link.md"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.pdf", "there is no file '{path}'"),
        ("folder", "'{path}' is a folder; only files can be attached"),
        ("fifo", "'{path}' is not a regular file"),
        ("empty.txt", "the file '{path}' is empty"),
        ("file.txt/x", "the file '{path}' cannot be opened: Not a directory"),
        ("dangling", "there is no file '{path}'"),
        ("memory", "the file '{path}' cannot be read: Input/output error"),
    ],
)
def test_what_cannot_be_attached_is_named_as_it_was_typed(
    tmp_path: Path, blobs: LocalBlobStore, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file.txt").write_text("text")
    Path("empty.txt").touch()
    Path("dangling").symlink_to("nowhere")
    Path("memory").symlink_to("/proc/self/mem")
    os.mkfifo("fifo")
    for typed in (Path(name), tmp_path / name):
        with pytest.raises(UsageError) as wrong:
            snapshot_host_files([typed], blobs, 100)
        assert says.format(path=typed) in str(wrong.value)
        with pytest.raises(UsageError) as sent:
            snapshot_host_files([typed], blobs, 100, were_sent=True)
        assert says.format(path=typed.name) in str(sent.value)


def test_a_read_that_gives_nothing_and_is_no_end_is_an_unreadable_file(blobs: LocalBlobStore) -> None:
    out, into = os.pipe()
    os.set_blocking(out, False)
    with os.fdopen(out, "rb") as file, pytest.raises(UnreadableFile, match="it has no bytes to read now"):
        copy_into(blobs, file, path="a.txt", max_bytes=100)
    os.close(into)


@pytest.mark.parametrize(
    ("sizes", "limit", "too_large"),
    [([10], 10, None), ([11], 10, 0), ([5, 5], 10, None), ([5, 6], 10, 1), ([10, 1], 10, 1), ([50_000_000], 20, 0)],
)
def test_all_files_together_stay_within_the_limit(
    tmp_path: Path, blobs: LocalBlobStore, sizes: list[int], limit: int, too_large: int | None
) -> None:
    paths = [tmp_path / str(index) for index in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        with path.open("wb") as file:
            file.truncate(size)
    if too_large is None:
        assert [attachment.bytes for attachment in snapshot_host_files(paths, blobs, limit)] == sizes
        return
    with pytest.raises(UsageError, match=f"all files together may have {limit} bytes") as wrong:
        snapshot_host_files(paths, blobs, limit)
    assert f"'{paths[too_large]}'" in str(wrong.value)


def test_a_file_without_a_size_is_measured_while_it_is_copied(blobs: LocalBlobStore) -> None:
    # Files of /proc say that they have 0 bytes, whatever is in them.
    attachment, *_ = snapshot_host_files([Path("/proc/self/status")], blobs, 100_000)
    assert attachment.bytes > 0
    with pytest.raises(UsageError, match="too large to attach"):
        snapshot_host_files([Path("/proc/self/status")], blobs, 10)


def test_the_command_line_can_import_it_without_the_heavy_libraries() -> None:
    code = "import sys, llm_do_temporal.storage.snapshots as _; print({'temporalio', 'pydantic_ai'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
