"""Reviews for a git branch: held against the branch, and the workshop's files stay as they are."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.extensions.review.activities import ReviewActivities
from llm_do_temporal.extensions.review.messages import (
    CommitChangesInput,
    PreparedReview,
    PrepareReviewInput,
    SectionAnswer,
    SettledReview,
    SettleReviewInput,
)
from llm_do_temporal.extensions.review.policy.review import ReviewAnswer, Section
from llm_do_temporal.messages.layers import CommittedChanges
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.layers.layer import NO_LAYER, CarriedLayer, Layer
from llm_do_temporal.policy.layers.view import LayerDraft
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from tests.support.workshops.layered import EDITOR, MemoryBlobs, seen

BRANCH = "review"


class Branch:
    """Workshop in a work tree, whose reviews go to a branch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "files").mkdir(parents=True)
        (folder / "workshop.yaml").write_text("model: offline:notes\nsandbox: {root: files}\n")
        for name in ("a.txt", "b.txt"):
            (folder / "files" / name).write_text(f"{name}\n")
        self.git("init", "-q", "-b", "main")
        self.git("add", ".")
        self.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", "first")
        self._blobs = MemoryBlobs()
        self.contents = LayerContents(self._blobs)
        self._activities = ReviewActivities(folder, self._blobs)
        self.layer = CarriedLayer()

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout

    def change(self, work: Callable[[LayerDraft], None]) -> None:
        with base_files(self.folder, contents=self.contents) as base:
            draft = LayerDraft(self.contents.whole(self.layer), base, EDITOR)
            work(draft)
            self.layer = CarriedLayer(recent=draft.layer())

    def write(self, path: str, text: str) -> None:
        self.change(lambda draft: draft.write(path, self.contents.keep(text.encode(), path)))

    def prepare(self) -> PreparedReview:
        asked = PrepareReviewInput(layer=self.layer, branch=BRANCH)
        prepared = ActivityEnvironment().run(self._activities.prepare_review, asked)
        self.layer = prepared.layer
        return prepared

    def settle(self, prepared: PreparedReview, *accept: str) -> SettledReview:
        assert prepared.review is not None
        answer = ReviewAnswer(changes=prepared.digest, accept=accept)
        answers = (SectionAnswer(section=Section.ORDINARY, answer=answer, by="ada"),)
        asked = SettleReviewInput(review=prepared.review, tree=Tree(), answers=answers)
        return ActivityEnvironment().run(self._activities.settle_review, asked)

    def commit(self, settled: SettledReview, key: str) -> CommittedChanges:
        asked = CommitChangesInput(
            key=key,
            manifest=settled.accepted,
            digest=settled.digest,
            sections=(Section.ORDINARY,),
            branch=BRANCH,
            message="changes",
        )
        committed = ActivityEnvironment().run(self._activities.commit_changes, asked)
        if committed.committed:
            self.layer = settled.kept
        return committed

    def names(self, layer: CarriedLayer) -> list[str]:
        return list(self.whole(layer).changes)

    def whole(self, layer: CarriedLayer) -> Layer:
        return self.contents.whole(layer)


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    return Branch(tmp_path / "workshop")


def test_what_was_accepted_is_on_the_branch_and_the_next_review_has_only_what_is_new(branch: Branch) -> None:
    before = seen(branch.folder / "files")
    branch.write("files/a.txt", "accepted\n")
    branch.write("files/b.txt", "rejected\n")
    first = branch.prepare()
    settled = branch.settle(first, "files/a.txt")
    assert (settled.accepted_paths, settled.rejected_paths) == (1, 1)
    committed = branch.commit(settled, "r1#1")
    assert (committed.committed, committed.paths) == (True, 1)
    assert committed.commit == branch.git("rev-parse", BRANCH).strip()

    # The worker goes on over files that are as they were, and sees what was accepted.
    assert seen(branch.folder / "files") == before
    assert branch.names(branch.layer) == ["files/a.txt"]
    assert settled.tried is not None
    assert branch.names(CarriedLayer(manifest=settled.tried)) == ["files/a.txt"]
    branch.write("files/new/c.txt", "new\n")
    second = branch.prepare()
    assert second.sections[0].counts.added == 1
    assert second.sections[0].counts.total == 1
    assert branch.names(second.layer) == ["files/a.txt", "files/new", "files/new/c.txt"]
    assert branch.commit(branch.settle(second, "*"), "r1#2").committed
    assert branch.git("show", f"{BRANCH}:files/new/c.txt") == "new\n"
    assert branch.git("show", f"{BRANCH}:files/a.txt") == "accepted\n"
    assert branch.git("show", f"{BRANCH}:files/b.txt") == "b.txt\n"

    # There is nothing left that is not on the branch.
    last = branch.prepare()
    assert (last.review, last.digest, last.layer) == (None, NO_LAYER.digest(), branch.layer)


def test_a_file_that_is_another_one_on_the_branch_is_a_conflict(branch: Branch) -> None:
    (branch.folder / "files/a.txt").write_text("changed, and not committed\n")
    branch.write("files/a.txt", "mine\n")
    prepared = branch.prepare()
    assert prepared.sections[0].conflicts == ("files/a.txt",)
    assert branch.commit(branch.settle(prepared, "files/a.txt"), "r1#1").committed
    assert branch.git("show", f"{BRANCH}:files/a.txt") == "mine\n"
    assert (branch.folder / "files/a.txt").read_text() == "changed, and not committed\n"
