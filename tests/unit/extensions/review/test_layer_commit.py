"""Commits of layers: what is refused or a conflict touches nothing, and what is reviewed is what is made."""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from os.path import lexists
from pathlib import Path

import pytest

from llm_do_temporal.errors import EffectFailed, SandboxRefusal, ShownDiffers
from llm_do_temporal.extensions.review import commit as commit_module
from llm_do_temporal.extensions.review.commit import CommitJournal, CommitOutcome, Disk, LayerCommit
from llm_do_temporal.extensions.review.policy.review import Section
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer, alike
from llm_do_temporal.policy.layers.merge import ConflictKind, against, merged
from llm_do_temporal.sandbox.changes import alone_in, alone_in_all
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files
from tests.support.extensions.review.reviewed import UnsyncedDisk
from tests.support.workshops.layer_programs import LayerPlay, in_folder, random_program, random_tree
from tests.support.workshops.layered import EDITOR, MemoryBlobs, PlayedDraft, as_seen, seen

SHARED = Protection(shared=("data",))


@dataclass
class Workshop:
    """Workshop, and a draft over its files."""

    folder: Path
    base: BaseFiles
    contents: LayerContents
    draft: PlayedDraft = field(init=False)

    def __post_init__(self) -> None:
        self.draft = PlayedDraft(NO_LAYER, self.base, EDITOR)

    def write(self, path: str, text: str, mode: int | None = None) -> None:
        self.draft.write(path, self.contents.keep(text.encode(), path), mode)

    def commit(
        self, *, disk: Disk | None = None, key: str = "r1", reviewed: str | None = None, **more: list[Section]
    ) -> CommitOutcome:
        layer = self.draft.layer()
        commit = LayerCommit(self.folder, self.contents, SHARED, disk or UnsyncedDisk())
        return commit.commit(layer, key=key, reviewed=reviewed or layer.digest(), **more)


@pytest.fixture
def workshop(tmp_path: Path) -> Generator[Workshop]:
    folder = tmp_path / "workshop"
    for name in ("data/a.txt", "data/b.txt", "data/in/c.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "data/a.txt").chmod(0o640)
    contents = LayerContents(MemoryBlobs())
    with base_files(folder, contents=contents) as base:
        yield Workshop(folder, base, contents)


def kinds(outcome: CommitOutcome) -> dict[str, ConflictKind]:
    return {one.path: one.kind for one in outcome.conflicts}


def test_changes_are_made_as_they_were_reviewed(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    workshop.write("data/x/y.sh", "run", 0o755)
    workshop.draft.delete("data/in")
    assert workshop.commit() == CommitOutcome(committed=True, paths=5)
    assert seen(workshop.folder / "data") == {
        "a.txt": ("file", 0o640, b"new"),
        "b.txt": ("file", 0o644, b"data/b.txt"),
        "x": ("folder", 0o755, b""),
        "x/y.sh": ("file", 0o755, b"run"),
    }


def test_a_layer_that_is_not_the_one_that_was_reviewed_is_refused(workshop: Workshop) -> None:
    reviewed = workshop.draft.layer().digest()
    workshop.write("data/a.txt", "new")
    before = seen(workshop.folder)
    with pytest.raises(ShownDiffers, match="are not the ones that were reviewed"):
        workshop.commit(reviewed=reviewed)
    assert seen(workshop.folder) == before


def test_one_key_is_one_commit(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    workshop.commit()
    workshop.write("data/b.txt", "new, too")
    with pytest.raises(ShownDiffers, match="'r1' was begun with other changes"):
        workshop.commit()
    assert (workshop.folder / "data/b.txt").read_text() == "data/b.txt"


@pytest.mark.parametrize("path", ["workshop.yaml", "data/x.worker", ".git/config", "data/.github/workflows/x.yml"])
def test_a_section_that_was_not_accepted_is_refused_and_with_it_everything(workshop: Workshop, path: str) -> None:
    workshop.write("data/a.txt", "new")
    workshop.write(path, "x")
    before = seen(workshop.folder)
    with pytest.raises(SandboxRefusal, match="belongs to the section"):
        workshop.commit()
    assert seen(workshop.folder) == before
    assert workshop.commit(sections=list(Section)).committed


def _changed(folder: Path) -> None:
    (folder / "a.txt").write_text("by somebody else")


def _permitted(folder: Path) -> None:
    (folder / "a.txt").chmod(0o600)


def _removed(folder: Path) -> None:
    (folder / "a.txt").unlink()


def _linked(folder: Path) -> None:
    (folder / "a.txt").unlink()
    (folder / "a.txt").symlink_to("b.txt")


def _pipe(folder: Path, name: str = "a.txt") -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)


def _folder_linked(folder: Path) -> None:
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to("elsewhere")


def test_new_workers_are_committed_as_such_and_no_other_definition_with_them(workshop: Workshop) -> None:
    workshop.write("workers/new.worker", "name: new")
    with pytest.raises(SandboxRefusal, match="belongs to the section 'definitions'"):
        workshop.commit(sections=[Section.WORKERS])
    layer = workshop.draft.layer()
    commit = LayerCommit(workshop.folder, workshop.contents, SHARED, UnsyncedDisk())
    outcome = commit.commit(
        layer, key="r2", reviewed=layer.digest(), sections=[Section.WORKERS], workers=["workers/new.worker"]
    )
    assert outcome.committed


@pytest.mark.parametrize("meanwhile", [_changed, _permitted, _removed, _linked, _folder_linked])
def test_what_changed_during_the_review_is_told_by_file_and_nothing_is_touched(
    workshop: Workshop, meanwhile: Callable[[Path], None]
) -> None:
    workshop.write("data/a.txt", "new")
    workshop.write("new.txt", "new")
    meanwhile(workshop.folder / "data")
    before = seen(workshop.folder)
    outcome = workshop.commit()
    assert (outcome.committed, kinds(outcome)) == (False, {"data/a.txt": ConflictKind.BOTH_CHANGED})
    assert seen(workshop.folder) == before
    assert CommitJournal(workshop.folder, Disk()).read("r1") is None


def test_what_no_layer_can_hold_by_now_is_a_conflict_and_stays(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    workshop.write("data/b.txt", "new")
    _pipe(workshop.folder / "data")
    outcome = workshop.commit()
    assert (outcome.committed, kinds(outcome)) == (False, {"data/a.txt": ConflictKind.BOTH_CHANGED})
    assert (workshop.folder / "data/b.txt").read_text() == "data/b.txt"
    assert (workshop.folder / "data/a.txt").is_fifo()


def test_a_conflict_is_no_commit_and_the_same_key_tries_again(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    _changed(workshop.folder / "data")
    assert not workshop.commit().committed
    (workshop.folder / "data/a.txt").write_text("data/a.txt")
    assert workshop.commit().committed


def test_names_in_other_capitals_are_a_conflict_where_they_are_one_file(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folds(_base: BaseFiles) -> bool:
        return True

    monkeypatch.setattr(commit_module, "folds_names", folds)
    workshop.write("data/A.txt", "other")
    assert kinds(workshop.commit()) == {"data/A.txt": ConflictKind.SAME_NAME}


def test_bytes_that_are_gone_or_are_others_are_refused_before_anything_is_touched(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    workshop.write("data/b.txt", "new, too")
    layer = workshop.draft.layer()
    blobs = MemoryBlobs()
    blobs.put_bytes(b"new")
    before = seen(workshop.folder)
    commit = LayerCommit(workshop.folder, LayerContents(blobs), SHARED, UnsyncedDisk())
    with pytest.raises(EffectFailed, match="is not in the blob store"):
        commit.commit(layer, key="r1", reviewed=layer.digest())
    node = layer.entries["data/b.txt"].now
    assert node is not None
    blobs.blobs[node.blob or ""] = b"damaged"
    with pytest.raises(EffectFailed, match=r"kept for 'data/b\.txt' are not those"):
        commit.commit(layer, key="r1", reviewed=layer.digest())
    assert seen(workshop.folder) == before


class _Failing(UnsyncedDisk):
    """Disk on which renames fail, or whatever `before` does comes before the first one."""

    def __init__(self, number: int = 0, before: Callable[[], object] | None = None) -> None:
        self.number = number
        self.before = before

    def rename(self, folder: int, name: str, new_folder: int, new_name: str) -> None:
        if self.number:
            raise OSError(self.number, os.strerror(self.number))
        # The first one is that of the journal.
        if self.before is not None and not new_name.endswith(".json"):
            before, self.before = self.before, None
            before()
        super().rename(folder, name, new_folder, new_name)


def test_a_full_disk_leaves_nothing_behind(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    before = seen(workshop.folder)
    with pytest.raises(OSError, match="No space left"):
        workshop.commit(disk=_Failing(errno.ENOSPC))
    assert seen(workshop.folder) == before
    assert workshop.commit().committed


def test_what_changes_during_the_commit_is_left_and_told(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    workshop.write("data/b.txt", "new")
    outcome = workshop.commit(disk=_Failing(before=lambda: (workshop.folder / "data/b.txt").write_text("theirs")))
    assert (outcome.committed, outcome.paths) == (True, 1)
    assert kinds(outcome) == {"data/b.txt": ConflictKind.BOTH_CHANGED}
    assert (workshop.folder / "data/b.txt").read_text() == "theirs"
    assert (workshop.folder / "data/a.txt").read_text() == "new"
    assert list((workshop.folder / "data").glob(".llm-do*")) == []


def test_a_pipe_that_is_put_there_during_the_commit_is_told_also_later(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    workshop.write("data/b.txt", "new")
    outcome = workshop.commit(disk=_Failing(before=lambda: _pipe(workshop.folder / "data", "b.txt")))
    assert (outcome.paths, kinds(outcome)) == (1, {"data/b.txt": ConflictKind.BOTH_CHANGED})
    assert workshop.commit() == outcome


def test_a_folder_that_goes_during_the_commit_takes_its_file_with_it(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    workshop.write("data/in/new.txt", "new")

    def remove() -> None:
        for path in (workshop.folder / "data/in").iterdir():
            path.unlink()
        (workshop.folder / "data/in").rmdir()

    outcome = workshop.commit(disk=_Failing(before=remove))
    assert kinds(outcome) == {"data/in/new.txt": ConflictKind.PLACE_GONE}
    assert (workshop.folder / "data/a.txt").read_text() == "new"


def test_a_folder_that_is_filled_during_the_commit_stays(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    workshop.draft.delete("data/in")
    outcome = workshop.commit(disk=_Failing(before=lambda: (workshop.folder / "data/in/new").write_text("theirs")))
    assert kinds(outcome) == {"data/in": ConflictKind.NOT_EMPTY}
    assert [path.name for path in (workshop.folder / "data/in").iterdir()] == ["new"]


def test_a_staged_file_that_somebody_removed_is_staged_again(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")

    def clean() -> None:
        for path in (workshop.folder / "data").glob(".llm-do*"):
            path.unlink()

    workshop.write("data/b.txt", "new, too")
    assert workshop.commit(disk=_Failing(before=clean)) == CommitOutcome(committed=True, paths=2)
    assert (workshop.folder / "data/a.txt").read_text() == "new"
    assert (workshop.folder / "data/b.txt").read_text() == "new, too"


def test_a_commit_waits_for_tools_that_change_files_in_its_folders(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def asking(folders: Iterable[os.stat_result], top: Path) -> AbstractContextManager[None]:
        asked.set()
        return alone_in_all(folders, top)

    monkeypatch.setattr(commit_module, "alone_in_all", asking)
    workshop.write("data/a.txt", "new")
    folder = os.open(workshop.folder / "data", os.O_RDONLY)
    try:
        with ThreadPoolExecutor(1) as pool, alone_in(folder, workshop.folder):
            commit = pool.submit(workshop.commit)
            assert asked.wait(60)
            (workshop.folder / "data/a.txt").write_text("an edit that came first")
    finally:
        os.close(folder)
    assert kinds(commit.result()) == {"data/a.txt": ConflictKind.BOTH_CHANGED}


def test_a_folder_without_permission_is_told_before_anything_is_touched(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_args: object, **_more: object) -> bool:
        return False

    monkeypatch.setattr(commit_module.os, "access", refused)
    workshop.write("data/a.txt", "new")
    with pytest.raises(EffectFailed, match=r"'data/a\.txt' cannot be used: permission denied"):
        workshop.commit()


def test_permissions_of_somebody_elses_file_are_told_before_anything_is_touched(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stranger() -> int:
        return 4_000_000

    workshop.draft.change_mode("data/a.txt", 0o600)
    monkeypatch.setattr(commit_module.os, "geteuid", stranger)
    with pytest.raises(EffectFailed, match=r"'data/a\.txt' cannot be used: permission denied"):
        workshop.commit()


def test_what_a_folder_hands_on_to_new_files_stays(workshop: Workshop) -> None:
    (workshop.folder / "data/in").chmod(0o2755)
    workshop.draft.change_mode("data/in", 0o700)
    workshop.commit()
    assert (workshop.folder / "data/in").stat().st_mode & 0o7777 == 0o2700


def test_a_journal_that_cannot_be_read_is_told(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    workshop.commit()
    [path] = (workshop.folder / ".llm-do/commits").glob("*.json")
    path.write_text("{")
    with pytest.raises(EffectFailed, match=r"the journal of a commit, .* cannot be read"):
        workshop.commit()


def test_an_empty_layer_is_committed_and_changes_nothing(workshop: Workshop) -> None:
    before = seen(workshop.folder)
    assert workshop.commit() == CommitOutcome(committed=True)
    assert seen(workshop.folder) == before


def test_the_answer_comes_back_from_json(workshop: Workshop) -> None:
    workshop.write("data/a.txt", "new")
    _changed(workshop.folder / "data")
    outcome = workshop.commit()
    assert CommitOutcome.model_validate_json(outcome.model_dump_json()) == outcome
    assert isinstance(Layer.model_validate_json(workshop.draft.layer().model_dump_json()), Layer)


CASES = 200


def _played(dice: random.Random, folder: Path, contents: LayerContents, layer: Layer = NO_LAYER) -> Layer:
    """Return the layer after a random program; the folder stays as it is."""
    with base_files(folder, contents=contents) as base:
        play = LayerPlay(base, contents, folder, layer)
        for operation in random_program(dice, commands=False):
            play.carry_out(operation)
        return play.layer


def _commit(layer: Layer, folder: Path, contents: LayerContents, key: str) -> CommitOutcome:
    commit = LayerCommit(folder, contents, Protection(), UnsyncedDisk())
    return commit.commit(layer, key=key, reviewed=layer.digest(), sections=list(Section))


def test_a_commit_over_a_base_that_moved_is_exact_or_a_conflict(tmp_path: Path) -> None:
    exact = conflicting = 0
    for seed in range(CASES):
        dice = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        random_tree(dice, folder)
        contents = LayerContents(MemoryBlobs())
        layer = _played(dice, folder, contents)
        touched = [path for path in layer.changes if lexists(folder / path)]
        for operation in random_program(dice, commands=False)[:3]:
            # Somebody who works on other files all the time is never in the way.
            near = touched and dice.random() < 0.5
            in_folder(replace(operation, path=dice.choice(touched)) if near else operation, folder)
        drifted = seen(folder)
        outcome = _commit(layer, folder, contents, "whole")
        if outcome.committed:
            exact += 1
        else:
            conflicting += 1
            assert seen(folder) == drifted, seed
            with base_files(folder) as base:
                layer = against(layer, base).layer
            assert Layer.model_validate(layer) == layer
            outcome = _commit(layer, folder, contents, "what is left")
        assert (outcome.committed, outcome.conflicts) == (True, ()), seed
        expected = dict(drifted)
        for path, entry in layer.changes.items():
            expected.pop(path, None)
            if entry.now is not None:
                expected[path] = as_seen(entry.now, path, contents)
        assert seen(folder) == expected, seed
        shutil.rmtree(folder)
    assert min(exact, conflicting) > CASES // 10


def test_siblings_are_joined_path_by_path_and_their_layer_fits_together(tmp_path: Path) -> None:
    conflicting = 0
    for seed in range(CASES):
        dice = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        random_tree(dice, folder)
        contents = LayerContents(MemoryBlobs())
        fork = _played(dice, folder, contents)
        mine, child = (_played(dice, folder, contents, fork) for _ in range(2))
        merge = merged(mine, child, fork)
        assert Layer.model_validate(merge.layer) == merge.layer, seed
        told = {one.path for one in merge.conflicts}
        conflicting += bool(told)
        for path in {**mine.entries, **child.entries}:
            entries = [layer.entries.get(path) for layer in (fork, mine, child, merge.layer)]
            some = next(entry for entry in entries[1:] if entry is not None)
            began, ours, theirs, joined = (some.base if entry is None else entry.now for entry in entries)
            if path in told or alike(theirs, began):
                assert alike(joined, ours), (seed, path)
            else:
                assert alike(joined, theirs), (seed, path)
                assert alike(ours, began) or alike(ours, theirs), (seed, path)
        shutil.rmtree(folder)
    assert CASES // 10 < conflicting < CASES
