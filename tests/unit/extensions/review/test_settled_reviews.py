"""Reviews on real files: what is shown, what the answers come to, and what is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.encryption.keys import Key, KeyRing, Seal
from llm_do_temporal.extensions.review.activities import ReviewActivities
from llm_do_temporal.extensions.review.messages import (
    CommitChangesInput,
    PreparedReview,
    PrepareReviewInput,
    SectionAnswer,
    SettledReview,
    SettleReviewInput,
)
from llm_do_temporal.extensions.review.policy.review import LineComment, ReviewAnswer, ReviewManifest, Section
from llm_do_temporal.messages.layers import CommittedChanges
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.layers.layer import MAX_RECENT, NO_LAYER, CarriedLayer, Layer, carried
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from llm_do_temporal.storage.blobs import BlobStore, LocalBlobStore
from tests.support.workshops.layered import EDITOR, MemoryBlobs, PlayedDraft

TREE = Tree(mounts=(Mount(at="/", root="files", base="files"),))
OLD = "".join(f"line {n}\n" for n in range(30))
NEW = OLD.replace("line 3\n", "third\n").replace("line 25\n", "twenty-fifth\n")
WORKSHOP = "model: offline:notes\nsandbox: {root: files}\n"


@dataclass
class Desk:
    """Workshop with a layer over it, and people who decide."""

    folder: Path
    blobs: BlobStore
    layer: Layer = NO_LAYER
    created: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.activities = ReviewActivities(self.folder, self.blobs)
        self.contents = LayerContents(self.blobs)

    def change(self, work: Callable[[PlayedDraft], None]) -> None:
        with base_files(self.folder, contents=self.contents) as base:
            draft = PlayedDraft(self.layer, base, EDITOR)
            work(draft)
            self.layer = draft.layer()

    def write(self, path: str, text: str) -> None:
        self.change(lambda draft: draft.write(path, self.contents.keep(text.encode(), path)))

    def prepare(self) -> PreparedReview:
        asked = PrepareReviewInput(layer=carried(self.layer), created=self.created)
        prepared = ActivityEnvironment().run(self.activities.prepare_review, asked)
        self.layer = self.contents.whole(prepared.layer)
        return prepared

    def manifest(self, prepared: PreparedReview) -> ReviewManifest:
        return ReviewManifest.model_validate_json(self.blobs.read(prepared.review or ""))

    def settle(self, prepared: PreparedReview, *answers: SectionAnswer) -> SettledReview:
        assert prepared.review is not None
        asked = SettleReviewInput(review=prepared.review, tree=TREE, answers=answers)
        return ActivityEnvironment().run(self.activities.settle_review, asked)

    def commit(
        self, settled: SettledReview, sections: Iterable[Section] = (Section.ORDINARY,), key: str = "r1#1"
    ) -> CommittedChanges:
        asked = CommitChangesInput(
            key=key,
            manifest=settled.accepted,
            digest=settled.digest,
            sections=tuple(sections),
            workers=settled.workers,
        )
        return ActivityEnvironment().run(self.activities.commit_changes, asked)

    def hunk_ids(self, path: str) -> list[str]:
        entry = self.layer.entries[path]
        hunks = self.contents.hunks(path, entry.base, entry.now)
        assert hunks is not None
        return [hunk.id for hunk in hunks.hunks]

    def text(self, path: str) -> str:
        return (self.folder / path).read_text()


def _workshop(folder: Path) -> Path:
    for name, text in {
        "workshop.yaml": WORKSHOP,
        "files/a.txt": OLD,
        "files/b.txt": "b\n",
        "files/d/c.txt": "c",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(_workshop(tmp_path / "workshop"), MemoryBlobs())


def answered(
    prepared: PreparedReview, section: Section = Section.ORDINARY, *, note: str = "", **choice: object
) -> SectionAnswer:
    digest = next(one.digest for one in prepared.sections if one.section is section)
    answer = ReviewAnswer.model_validate({"changes": digest, **choice})
    return SectionAnswer(section=section, answer=answer, by="ada", note=note)


def rejected(section: Section, note: str) -> SectionAnswer:
    return SectionAnswer(section=section, note=note, by="ada")


def refusal_of(call: Callable[[], object]) -> tuple[str | None, str]:
    with pytest.raises(ApplicationError) as caught:
        call()
    assert caught.value.non_retryable
    return caught.value.type, str(caught.value)


@pytest.fixture(params=["plain", "sealed"])
def any_desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    """Workshop whose blobs are plain, or sealed."""
    keys = [Key("new", b"n" * 32)] if request.param == "sealed" else []
    return Desk(_workshop(tmp_path / "workshop"), LocalBlobStore(tmp_path / "blobs", Seal(KeyRing.of(*keys))))


def test_all_that_was_shown_is_committed(any_desk: Desk) -> None:
    desk = any_desk
    desk.write("files/a.txt", NEW)
    desk.write("files/new/n.txt", "new")
    desk.change(lambda draft: draft.rename("files/b.txt", "files/renamed.txt"))
    desk.change(lambda draft: draft.delete("files/d"))
    prepared = desk.prepare()

    (section,) = prepared.sections
    counts = section.counts
    assert (counts.added, counts.modified, counts.deleted, counts.renamed, counts.total) == (2, 1, 2, 1, 6)
    assert (section.digest, prepared.layer.recent) == (prepared.digest, NO_LAYER)
    # Both sides can be shown wherever the blobs are.
    (shown,) = [one for one in desk.manifest(prepared).changes(Section.ORDINARY) if one.path == "files/a.txt"]
    assert [desk.contents.read(node, "a") for node in (shown.base, shown.now) if node] == [OLD.encode(), NEW.encode()]

    settled = desk.settle(prepared, answered(prepared))
    assert (settled.digest, settled.words, settled.rejected_paths) == (prepared.digest, "", 0)
    assert (settled.accepted_paths, settled.kept) == (7, CarriedLayer())
    committed = desk.commit(settled)
    assert (committed.committed, committed.paths, committed.conflicts) == (True, 7, ())
    files = [(one.path, one.bytes, one.created) for one in committed.files]
    assert files == [
        ("files/a.txt", len(NEW), False),
        ("files/new/n.txt", 3, True),
        ("files/renamed.txt", 2, True),
    ]
    assert (desk.text("files/a.txt"), desk.text("files/new/n.txt"), desk.text("files/renamed.txt")) == (
        NEW,
        "new",
        "b\n",
    )
    assert not (desk.folder / "files/d").exists()
    assert desk.commit(settled) == committed


def test_hunks_are_rejected_told_and_proposed_again_by_themselves(desk: Desk) -> None:
    desk.write("files/a.txt", NEW)
    desk.write("files/b.txt", "changed\n")
    prepared = desk.prepare()
    first, second = desk.hunk_ids("files/a.txt")
    comment = LineComment(path="files/a.txt", line=26, text="keep the number")
    settled = desk.settle(
        prepared,
        answered(
            prepared,
            accept=[],
            hunks={"files/a.txt": [first]},
            comments=[comment.model_dump()],
            note="too much",
            rest="keep",
        ),
    )
    assert (settled.accepted_paths, settled.rejected_paths) == (1, 2)
    assert "- /b.txt (modified)" in settled.words
    assert "-line 25\n+twenty-fifth\n" in settled.words
    assert "third" not in settled.words
    assert "/a.txt:26: keep the number" in settled.words
    assert settled.words.endswith("Said by ada: too much")

    assert desk.commit(settled).committed
    assert desk.text("files/a.txt") == OLD.replace("line 3\n", "third\n")
    assert desk.text("files/b.txt") == "b\n"
    desk.layer = desk.contents.whole(settled.kept)
    again = desk.prepare()
    (left,) = desk.hunk_ids("files/a.txt")
    assert left not in (first, second)
    assert again.sections[0].counts.modified == 2
    last = desk.settle(again, answered(again))
    assert desk.commit(last, key="r1#2").committed
    assert (desk.text("files/a.txt"), desk.text("files/b.txt")) == (NEW, "changed\n")


def test_what_is_rejected_and_dropped_is_no_change_any_more(desk: Desk) -> None:
    desk.write("files/a.txt", NEW)
    prepared = desk.prepare()
    settled = desk.settle(prepared, rejected(Section.ORDINARY, "not now"))
    assert (settled.accepted_paths, settled.rejected_paths, settled.kept) == (0, 1, CarriedLayer())
    assert settled.words == (
        "Not accepted. They are again as they were before:\n- /a.txt (modified)\n\nSaid by ada: not now"
    )


def test_a_file_is_committed_as_a_person_has_edited_it(desk: Desk) -> None:
    desk.write("files/b.txt", "mine\n")
    prepared = desk.prepare()
    blob = desk.blobs.put_bytes(b"edited\n")
    settled = desk.settle(prepared, answered(prepared, edits={"files/b.txt": blob}))
    assert "Accepted as ada has changed it" in settled.words
    assert "-mine\n+edited" in settled.words
    assert desk.commit(settled).committed
    assert desk.text("files/b.txt") == "edited\n"


def test_each_section_is_decided_by_itself_and_new_workers_are_no_definitions(desk: Desk) -> None:
    desk.write("files/b.txt", "changed\n")
    desk.write("workers/made.worker", "name: made\n")
    desk.write("workers/own.worker", "name: own\n")
    entry = desk.layer.entries["workers/made.worker"]
    assert entry.now is not None
    desk.created = {"workers/made.worker": entry.now.sha256}
    prepared = desk.prepare()
    assert [one.section for one in prepared.sections] == [Section.ORDINARY, Section.WORKERS, Section.DEFINITIONS]

    settled = desk.settle(
        prepared,
        rejected(Section.ORDINARY, ""),
        answered(prepared, Section.WORKERS),
        SectionAnswer(section=Section.DEFINITIONS, note="sandbox.write.definitions is blocked"),
    )
    assert settled.workers == ("workers/made.worker",)
    kind, message = refusal_of(lambda: desk.commit(settled.model_copy(update={"workers": ()}), [Section.WORKERS]))
    assert (kind, "'workers/made.worker' belongs to the section 'definitions'" in message) == ("SandboxRefusal", True)
    assert desk.commit(settled, [Section.WORKERS]).committed
    assert desk.text("workers/made.worker") == "name: made\n"
    assert not (desk.folder / "workers/own.worker").exists()
    assert desk.text("files/b.txt") == "b\n"
    assert "Said by the review (definitions): sandbox.write.definitions is blocked" in settled.words


def test_what_somebody_else_has_changed_is_shown_and_taken_only_by_name(desk: Desk) -> None:
    desk.write("files/a.txt", NEW)
    desk.write("files/b.txt", "mine\n")
    (desk.folder / "files/b.txt").write_text("theirs\n")
    prepared = desk.prepare()
    (section,) = prepared.sections
    assert section.conflicts == ("files/b.txt",)
    by_star = desk.settle(prepared, answered(prepared))
    assert (by_star.accepted_paths, "- /b.txt (modified)" in by_star.words) == (1, True)
    by_name = desk.settle(prepared, answered(prepared, accept=["*", "files/b.txt"]))
    # It changes once more before the commit: nothing is touched, and the next review shows it.
    (desk.folder / "files/b.txt").write_text("theirs again\n")
    committed = desk.commit(by_name)
    assert (committed.committed, committed.conflicts) == (False, ("files/b.txt: it was changed on both sides",))
    assert desk.text("files/a.txt") == OLD
    again = desk.prepare()
    assert desk.commit(desk.settle(again, answered(again, accept=["files/", "files/b.txt"])), key="r1#2").committed
    assert (desk.text("files/a.txt"), desk.text("files/b.txt")) == (NEW, "mine\n")


def test_changes_that_are_there_already_are_no_review(desk: Desk) -> None:
    desk.write("files/b.txt", "same\n")
    (desk.folder / "files/b.txt").write_text("same\n")
    assert desk.prepare() == PreparedReview(layer=CarriedLayer(), digest=NO_LAYER.digest())


def test_what_stays_of_a_long_layer_travels_as_a_blob(desk: Desk) -> None:
    for number in range(MAX_RECENT + 1):
        desk.write(f"files/{number}.txt", "x")
    prepared = desk.prepare()
    settled = desk.settle(prepared, answered(prepared, accept=[], rest="keep"))
    assert settled.kept.recent == NO_LAYER
    assert desk.contents.whole(settled.kept).digest() == prepared.digest


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"changes": "0" * 64}, "about other changes than those that were shown"),
    ({"hunks": {"files/a.txt": ["0123456789abcdef"]}}, "there is no part '0123456789abcdef' of this change"),
    ({"hunks": {"files/new.txt": ["1"]}}, "'files/new.txt' is new; it is accepted as a whole"),
    ({"hunks": {"files/z.txt": ["1"]}}, "'files/z.txt' is not among the changes"),
    ({"hunks": {"w.worker": ["1"]}}, "'w.worker' is not among the changes"),
    ({"accept": ["w.worker"]}, "'w.worker' is not among the changes"),
    ({"edits": {"files/a.txt": "0" * 64}}, "the contents that 'files/a.txt' was given are not in the blob store"),
    ({"edits": {"files/d/c.txt": "0" * 64}}, "'files/d/c.txt' is no file"),
    ({"hunks": {"files/a.txt": ["1"]}, "edits": {"files/a.txt": "0" * 64}}, "by its parts and as edited"),
    ({"comments": [{"path": "files/z.txt", "text": "?"}]}, "'files/z.txt' is not among the changes"),
]


@pytest.mark.parametrize(("choice", "message"), REFUSED)
def test_an_answer_that_does_not_fit_what_was_shown_is_refused(
    desk: Desk, choice: dict[str, Any], message: str
) -> None:
    desk.write("files/a.txt", NEW)
    desk.write("files/new.txt", "new")
    desk.write("w.worker", "name: w\n")
    desk.change(lambda draft: draft.delete("files/d/c.txt"))
    prepared = desk.prepare()
    kind, told = refusal_of(lambda: desk.settle(prepared, answered(prepared, **choice)))
    assert (kind, message in told) == ("DecisionRefused", True), told


def test_an_id_of_a_hunk_that_was_shown_before_the_file_changed_is_refused(desk: Desk) -> None:
    desk.write("files/a.txt", NEW)
    desk.prepare()
    stale = desk.hunk_ids("files/a.txt")
    (desk.folder / "files/a.txt").write_text(f"{OLD}more\n")
    again = desk.prepare()
    kind, _message = refusal_of(lambda: desk.settle(again, answered(again, hunks={"files/a.txt": stale})))
    assert kind == "DecisionRefused"


def test_bytes_that_have_no_text_are_told_by_name(desk: Desk) -> None:
    desk.write("files/b.txt", "\0")
    prepared = desk.prepare()
    settled = desk.settle(prepared, answered(prepared, edits={"files/b.txt": desk.blobs.put_bytes(b"\0\0")}))
    assert settled.words == "Accepted as ada has changed it; the files have this now:\n- /b.txt"


def test_a_layer_that_was_not_reviewed_is_not_committed(desk: Desk) -> None:
    desk.write("files/b.txt", "mine\n")
    prepared = desk.prepare()
    settled = desk.settle(prepared, answered(prepared)).model_copy(update={"digest": "0" * 64})
    assert refusal_of(lambda: desk.commit(settled))[0] == "ShownDiffers"
    assert desk.text("files/b.txt") == "b\n"
