"""Attachments of files as they are, and as a layer has them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.attachments import AttachmentActivities
from llm_do_temporal.messages.activities import AttachedFile, FindFilesInput, FoundFiles, SnapshotInput
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree, locate
from llm_do_temporal.policy.layers.layer import NO_LAYER, CarriedLayer
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from llm_do_temporal.storage.blobs import LocalBlobStore, Readable, blob_folder
from tests.support.workshops.file_tree import Files, assert_failed, assert_refused, failure_of
from tests.support.workshops.layered import EDITOR, MemoryBlobs, PlayedDraft

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


WHOLE = Tree(mounts=(Mount(at="/", root=".", suffixes=(".md", ".pdf")),))


class Desk:
    """A layer with a deck that is nowhere else, in the place of another one, and a link to it."""

    def __init__(self, workshop: Path) -> None:
        self.workshop = workshop
        self.blobs = MemoryBlobs()
        contents = LayerContents(self.blobs)
        self._activities = AttachmentActivities(workshop, self.blobs)
        with base_files(workshop) as base:
            draft = PlayedDraft(NO_LAYER, base, EDITOR)
            self.deck = contents.keep(b"%PDF-1.7 new", "decks/new.pdf")
            draft.write("decks/new.pdf", self.deck, 0o600)
            draft.write("decks/empty.pdf", contents.keep(b"", "decks/empty.pdf"))
            draft.link("link.pdf", "decks/new.pdf")
            draft.delete("decks/old.pdf")
            manifest = contents.manifest_of(draft.layer())
        self.layer = LayerWork(carried=CarriedLayer(manifest=manifest), author=EDITOR)

    def find(self, *paths: str) -> FoundFiles:
        asked = FindFilesInput(files=self._files(paths), digests=True, near=True, layer=self.layer)
        return ActivityEnvironment().run(self._activities.find_files, asked)

    def attach(self, *paths: str, limit: int = 1_000) -> tuple[Attachment, ...]:
        asked = SnapshotInput(files=self._files(paths), max_total_bytes=limit, tree=WHOLE, layer=self.layer)
        return ActivityEnvironment().run(self._activities.snapshot_attachments, asked).attachments

    def attach_host_path(self, path: str) -> tuple[Attachment, ...]:
        """Attach a file by a path of this machine, which the tree may show under another one."""
        file = AttachedFile(mount=None, relative=path, path=path)
        asked = SnapshotInput(files=(file,), max_total_bytes=1_000, tree=WHOLE, layer=self.layer)
        return ActivityEnvironment().run(self._activities.snapshot_attachments, asked).attachments

    def _files(self, paths: tuple[str, ...]) -> tuple[AttachedFile, ...]:
        places = (locate(WHOLE, path) for path in paths)
        return tuple(AttachedFile(mount=one.mount, relative=one.relative, path=one.path) for one in places)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "decks").mkdir()
    (tmp_path / "decks/old.pdf").write_bytes(b"%PDF-1.7 old")
    (tmp_path / "decks/kept.pdf").write_bytes(b"%PDF-1.7 kept")
    return Desk(tmp_path)


def test_a_file_that_is_only_in_the_layer_is_attached(desk: Desk) -> None:
    new, linked, kept = desk.attach("/decks/new.pdf", "/link.pdf", "/decks/kept.pdf")
    assert [desk.blobs.read(one.sha256) for one in (new, kept)] == [b"%PDF-1.7 new", b"%PDF-1.7 kept"]
    assert (linked.sha256, linked.path, linked.place) == (new.sha256, "/link.pdf", "decks/new.pdf")
    assert new.media_type == "application/pdf"


def test_a_path_of_the_host_is_the_file_that_the_layer_has_there(desk: Desk) -> None:
    (attached,) = desk.attach_host_path(str(desk.workshop / "decks/new.pdf"))
    assert (attached.path, attached.sha256) == ("/decks/new.pdf", desk.deck.sha256)
    assert_failed(desk.attach_host_path, str(desk.workshop / "decks/old.pdf"), says="'/decks/old.pdf' does not exist")


def test_what_the_layer_removes_or_no_policy_allows_is_not_attached(desk: Desk) -> None:
    assert_failed(desk.attach, "/decks/old.pdf", says="'/decks/old.pdf' does not exist")
    assert_refused(desk.attach, "/decks/new.txt", says="has a suffix that is not allowed here")
    assert "is empty" in failure_of(desk.attach, "/decks/empty.pdf").message
    assert (
        "at most 20 are accepted"
        in failure_of(lambda: desk.attach("/decks/new.pdf", "/decks/kept.pdf", limit=20)).message
    )


def test_files_are_found_as_the_layer_has_them(desk: Desk) -> None:
    found = desk.find("/decks/new.pdf", "/link.pdf", "/decks/old.pdf", "/decks/kept.pdf")
    assert found.bytes == (12, 12, None, 13)
    new, linked, old, kept = found.seen
    assert (new.sha256, new.mode, new.place) == (desk.deck.sha256, 0o600, "decks/new.pdf")
    assert (linked.sha256, linked.place) == (new.sha256, new.place)
    assert (old.sha256, kept.sha256 is None) == (None, False)


def test_what_was_meant_is_looked_for_among_the_files_of_the_layer(desk: Desk) -> None:
    assert desk.find("/decks/nwe.pdf").near == {"/decks/nwe.pdf": "/decks/new.pdf"}
    assert desk.find("/decks/odl.pdf").near != {"/decks/odl.pdf": "/decks/old.pdf"}


def test_sizes_are_known_without_the_bytes(desk: Desk) -> None:
    assert desk.deck.blob is not None
    del desk.blobs.blobs[desk.deck.blob]
    asked = FindFilesInput(files=(AttachedFile(mount=WHOLE.mounts[0], relative="link.pdf", path="/link.pdf"),))
    layered = asked.model_copy(update={"layer": desk.layer})
    activities = AttachmentActivities(desk.workshop, desk.blobs)
    assert ActivityEnvironment().run(activities.find_files, layered).bytes == (12,)
    assert_failed(desk.attach, "/link.pdf", says="the bytes of '/link.pdf' cannot be read: blob '")
