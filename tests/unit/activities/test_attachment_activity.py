"""`snapshot_attachments`: the facts policies judge, and bytes that no longer change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.attachments import AttachmentActivities
from llm_do_temporal.messages.effects import AttachedFile, SnapshotInput
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount
from llm_do_temporal.storage.blobs import Readable
from llm_do_temporal.storage.local import LocalBlobStore, blob_folder
from tests.support.workshops.file_tree import Files, assert_failed, assert_refused, failure_of

Attach = Callable[..., tuple[Attachment, ...]]


@pytest.fixture
def attach(files: Files) -> Attach:
    blobs = LocalBlobStore(blob_folder(files.workshop))
    activities = AttachmentActivities(files.workshop, blobs)

    def call(*paths: str, limit: int = 1_000, through: Files | None = None) -> tuple[Attachment, ...]:
        places = [(through or files).place(path) for path in paths]
        attached = tuple(AttachedFile(mount=p.mount, relative=p.relative, path=p.path) for p in places)
        asked = SnapshotInput(files=attached, max_total_bytes=limit)
        return ActivityEnvironment().run(activities.snapshot_attachments, asked).attachments

    return call


def stored(files: Files) -> list[bytes]:
    return [path.read_bytes() for path in blob_folder(files.workshop).rglob("*") if path.is_file()]


def test_files_are_looked_up_and_kept_as_they_are(files: Files, attach: Attach) -> None:
    deck = files.put("pipeline/deck.pdf", b"%PDF-1.7 first")
    files.put("notes.md", "# notes")
    first, second = attach("pipeline/deck.pdf", "/notes.md")
    assert (first.path, first.bytes, first.media_type) == ("/pipeline/deck.pdf", 14, "application/pdf")
    assert (second.path, second.bytes, second.media_type) == ("/notes.md", 7, "text/markdown")
    deck.write_bytes(b"%PDF-1.7 second, and longer")
    assert LocalBlobStore(blob_folder(files.workshop)).read(first.sha256) == b"%PDF-1.7 first"


def test_an_attachment_knows_where_its_file_really_is(files: Files, attach: Attach) -> None:
    files.put("secret/deck.pdf", b"%PDF-1.7")
    (files.workshop / "link").symlink_to("secret")
    (plain, linked) = attach("secret/deck.pdf", "link/deck.pdf")
    assert (plain.place, linked.place) == ("secret/deck.pdf", "secret/deck.pdf")
    assert linked.path == "/link/deck.pdf"


def test_no_files_are_no_attachments(attach: Attach) -> None:
    assert attach(limit=0) == ()


def test_the_same_file_twice_is_two_attachments_of_one_blob(files: Files, attach: Attach) -> None:
    files.put("a.txt", "text")
    one, other = attach("a.txt", "./a.txt")
    assert one == other
    assert stored(files) == [b"text"]


def test_an_empty_file_is_refused(files: Files, attach: Attach) -> None:
    files.put("a.txt", "")
    failure = failure_of(attach, "a.txt")
    assert (failure.type, failure.message) == (
        "AttachmentRefusal",
        "'/a.txt' is empty; attach a file with content",
    )


def test_files_too_large_together_are_refused_before_any_is_copied(files: Files, attach: Attach) -> None:
    files.put("a.txt", "12345")
    files.put("b.txt", "12345")
    assert len(attach("a.txt", "b.txt", limit=10)) == 2
    files.put("c.txt", "new")
    failure = failure_of(lambda: attach("c.txt", "a.txt", "b.txt", limit=12))
    assert failure.type == "AttachmentRefusal"
    assert "with '/b.txt' the attachments have 13 bytes; at most 12 are accepted" in failure.message
    assert b"new" not in stored(files)


def test_a_huge_file_is_measured_without_being_read(files: Files, attach: Attach) -> None:
    with files.put("big.bin").open("wb") as big:
        big.truncate(50_000_000)
    assert "50000000 bytes" in failure_of(lambda: attach("big.bin", limit=20_000_000)).message
    assert stored(files) == []
    assert attach("big.bin", limit=50_000_000)[0].media_type == "application/octet-stream"


def test_the_rules_of_the_mount_hold(files: Files, attach: Attach) -> None:
    files.put("a.pdf", "12345")
    limited = files.seen_through(Mount(at="/", root=".", suffixes=(".pdf",), max_file_bytes=5, readonly=True))
    assert attach("a.pdf", through=limited)[0].bytes == 5
    files.put("b.pdf", "123456")
    files.put("c.txt", "1")
    assert_refused(lambda: attach("b.pdf", through=limited), says="'/b.pdf' has 6 bytes; the limit here is 5")
    assert_refused(lambda: attach("c.txt", through=limited), says="'/c.txt' has a suffix that is not allowed here")


def test_what_is_no_file_is_an_error_that_names_it(files: Files, attach: Attach) -> None:
    files.put("folder/a.txt")
    os.mkfifo(files.workshop / "fifo")
    assert_failed(attach, "folder/a.txt", "none.pdf", says="'/none.pdf' does not exist")
    assert_failed(attach, "folder", says="'/folder' is a folder, not a file")
    assert_failed(attach, "fifo", says="'/fifo' is not a regular file")


def test_nothing_outside_can_be_attached(files: Files, attach: Attach, outside: Path) -> None:
    (files.workshop / "out").symlink_to(outside)
    (files.workshop / "secret.txt").symlink_to("../outside/secret.txt")
    files.put(".llm-do/key", "key")
    assert_refused(attach, "out/secret.txt", says="leads out of this worker's files")
    assert_refused(attach, "secret.txt", says="leads out of this worker's files")
    assert_refused(attach, ".llm-do/key", says="its own state")
    assert stored(files) == []


class FilledMeanwhile(LocalBlobStore):
    """A store so slow that somebody changes the file before it is copied."""

    def __init__(self, folder: Path, file: Path, content: bytes) -> None:
        super().__init__(folder)
        self._file = file
        self._content = content

    def put_stream(self, reader: Readable, max_bytes: int) -> tuple[str, int]:
        self._file.write_bytes(self._content)
        return super().put_stream(reader, max_bytes)


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (b"y" * 11, "AttachmentRefusal", "'/a.txt' grew while it was copied; attach it again"),
        (b"y" * 10, "SandboxRefusal", "'/a.txt' has 10 bytes; the limit here is 9"),
        (b"", "AttachmentRefusal", "'/a.txt' is empty"),
    ],
)
def test_what_is_judged_is_what_was_stored(files: Files, content: bytes, code: str, says: str) -> None:
    file = files.put("a.txt", "small")
    store = FilledMeanwhile(blob_folder(files.workshop), file, content)
    attached = AttachedFile(mount=Mount(at="/", root=".", max_file_bytes=9), relative="a.txt", path="/a.txt")
    asked = SnapshotInput(files=(attached,), max_total_bytes=10)
    failure = failure_of(
        ActivityEnvironment().run, AttachmentActivities(files.workshop, store).snapshot_attachments, asked
    )
    assert failure.type == code
    assert says in failure.message
