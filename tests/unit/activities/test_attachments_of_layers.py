"""`find_files` and `snapshot_attachments` on a layer: files that are nowhere but in it, and what it hides."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.attachments import AttachmentActivities
from llm_do_temporal.messages.effects import AttachedFile, FindFilesInput, FoundFiles, SnapshotInput
from llm_do_temporal.messages.reviews import LayerWork
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree, locate
from llm_do_temporal.policy.layers.layer import NO_LAYER, CarriedLayer
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from tests.support.workshops.file_tree import assert_failed, assert_refused, failure_of
from tests.support.workshops.layered import EDITOR, MemoryBlobs, PlayedDraft

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
    del desk.blobs.blobs[desk.deck.blob]
    asked = FindFilesInput(files=(AttachedFile(mount=WHOLE.mounts[0], relative="link.pdf", path="/link.pdf"),))
    layered = asked.model_copy(update={"layer": desk.layer})
    activities = AttachmentActivities(desk.workshop, desk.blobs)
    assert ActivityEnvironment().run(activities.find_files, layered).bytes == (12,)
    assert_failed(desk.attach, "/link.pdf", says="the bytes of '/link.pdf' cannot be read: blob '")
