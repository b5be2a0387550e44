"""A commit whose process ends between any two system calls: nothing of it is there, or all once it is called again."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_do_temporal.extensions.review.commit import CommitJournal, CommitOutcome, Disk, LayerCommit
from llm_do_temporal.extensions.review.policy.review import Section
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.files.sandbox import TEMPORARY_NAME
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.policy.layers.merge import ConflictKind
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from tests.support.extensions.review.reviewed import UnsyncedDisk
from tests.support.workshops.layered import EDITOR, MemoryBlobs, PlayedDraft, Seen, seen

ENDED = 77
KEY = "r1/review-1"


class _EndingDisk(Disk):
    """Disk whose process ends before its call number `last`; of a write, half is done."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.calls = 0

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.last:
            os._exit(ENDED)

    def create(self, folder: int, name: str) -> int:
        self._count()
        return super().create(folder, name)

    def write(self, file: int, data: bytes | memoryview) -> int:
        if self.calls + 1 == self.last:
            super().write(file, data[: len(data) // 2])
        self._count()
        return super().write(file, data)

    def sync(self, file: int) -> None:
        self._count()

    def sync_each(self, opening: Sequence[Callable[[], int]]) -> None:
        self._count()

    def permit(self, file: int, mode: int) -> None:
        self._count()
        super().permit(file, mode)

    def link(self, target: str, folder: int, name: str) -> None:
        self._count()
        super().link(target, folder, name)

    def rename(self, folder: int, name: str, new_folder: int, new_name: str) -> None:
        self._count()
        super().rename(folder, name, new_folder, new_name)

    def make_folder(self, folder: int, name: str, mode: int) -> None:
        self._count()
        super().make_folder(folder, name, mode)

    def remove(self, folder: int, name: str) -> None:
        self._count()
        super().remove(folder, name)

    def remove_folder(self, folder: int, name: str) -> None:
        self._count()
        super().remove_folder(folder, name)


@dataclass
class _Case:
    """Base, and a layer over it with changes of all kinds."""

    base: Path
    layer: Layer
    contents: LayerContents

    def commit(self, folder: Path, disk: Disk | None = None) -> CommitOutcome:
        commit = LayerCommit(folder, self.contents, Protection(), disk or UnsyncedDisk())
        return commit.commit(self.layer, key=KEY, reviewed=self.layer.digest(), sections=list(Section))

    def copied(self, folder: Path) -> Path:
        shutil.copytree(self.base, folder, symlinks=True)
        return folder


@pytest.fixture
def case(tmp_path: Path) -> _Case:
    base = tmp_path / "base"
    for name in ("one.txt", "two.txt", "three.txt", "gone.txt", "was_file", "old/name.txt", "was_folder/in/it.txt"):
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} as it was\n" * 3)
    (base / "points").symlink_to("one.txt")
    contents = LayerContents(MemoryBlobs())
    with base_files(base, contents=contents) as files:
        draft = PlayedDraft(NO_LAYER, files, EDITOR)
        for name in ("one.txt", "two.txt", "new/folder/four.txt"):
            draft.write(name, contents.keep(f"{name} as it is now\n".encode() * 5, name))
        draft.change_mode("three.txt", 0o755)
        draft.delete("gone.txt")
        draft.rename("old/name.txt", "new/name.txt")
        draft.delete("old")
        draft.delete("was_folder")
        draft.write("was_folder", contents.keep(b"a file now", "was_folder"))
        draft.delete("was_file")
        draft.write("was_file/in_it", contents.keep(b"a folder now", "was_file/in_it"))
        draft.delete("points")
        draft.link("points", "two.txt")
    return _Case(base, draft.layer(), contents)


def _counted(case: _Case, folder: Path) -> int:
    disk = _EndingDisk(-1)
    case.commit(case.copied(folder), disk)
    return disk.calls


def _ended_before(call: int, case: _Case, folder: Path) -> None:
    """Commit in a process of its own, which ends before its system call of this number."""
    child = os.fork()
    if child == 0:
        try:
            case.commit(folder, _EndingDisk(call))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == ENDED


def _visible(folder: Path) -> Seen:
    return {path: one for path, one in seen(folder).items() if not TEMPORARY_NAME.fullmatch(Path(path).name)}


def _ended_everywhere(case: _Case, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Yield each call, and a folder whose commit ended before it."""
    for call in range(1, _counted(case, tmp_path / "counted") + 1):
        folder = case.copied(tmp_path / f"ended-{call}")
        _ended_before(call, case, folder)
        yield call, folder
        shutil.rmtree(folder)


def test_a_process_that_ends_leaves_whole_files_and_the_next_call_ends_the_commit(case: _Case, tmp_path: Path) -> None:
    before = seen(case.base)
    committed = case.copied(tmp_path / "committed")
    outcome = case.commit(committed)
    after = seen(committed)
    assert after != before
    begun = 0
    for call, folder in _ended_everywhere(case, tmp_path):
        left = _visible(folder)
        is_begun = CommitJournal(folder, Disk()).read(KEY) is not None
        begun += is_begun
        assert is_begun or left == before, call
        wholes = {one[2] for one in (*before.values(), *after.values())}
        assert {one[2] for one in left.values()} <= wholes, call
        assert case.commit(folder).committed, call
        assert seen(folder) == after, call
        assert case.commit(folder) == CommitJournal(folder, Disk()).read(KEY).outcome  # type: ignore[union-attr]
    assert begun > 10
    assert (outcome.committed, outcome.conflicts) == (True, ())


@pytest.mark.thorough
def test_changes_of_others_between_the_end_and_the_next_call_are_kept_and_told(case: _Case, tmp_path: Path) -> None:
    for call, folder in _ended_everywhere(case, tmp_path):
        path = folder / "two.txt"
        was_done = "is now" in path.read_text()
        is_begun = CommitJournal(folder, Disk()).read(KEY) is not None
        path.write_text("by somebody else")
        outcome = case.commit(folder)
        assert path.read_text() == "by somebody else", call
        ended = CommitJournal(folder, Disk()).read(KEY)
        if is_begun and outcome.conflicts:
            assert [(one.path, one.kind) for one in outcome.conflicts] == [("two.txt", ConflictKind.BOTH_CHANGED)]
            assert (folder / "one.txt").read_text().startswith("one.txt as it is now"), call
        elif is_begun:
            assert ended is not None
            assert was_done, call
        else:
            assert not outcome.committed, call
            assert seen(folder) == _visible(folder), call
            assert (folder / "one.txt").read_text().startswith("one.txt as it was"), call


class _RefusingDisk(Disk):
    """Disk that fails once, at its sync number `last`, as one that is full or broken does."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.syncs = 0

    def sync(self, file: int) -> None:
        self.syncs += 1
        if self.syncs == self.last:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_disk_that_refuses_to_sync_leaves_whole_files_and_the_next_call_ends_the_commit(
    case: _Case, tmp_path: Path
) -> None:
    before = seen(case.base)
    counting = _RefusingDisk(-1)
    committed = case.copied(tmp_path / "committed")
    case.commit(committed, counting)
    after = seen(committed)
    for last in range(1, counting.syncs + 1):
        folder = case.copied(tmp_path / f"refused-{last}")
        with pytest.raises(OSError, match="Input/output error"):
            case.commit(folder, _RefusingDisk(last))
        if CommitJournal(folder, Disk()).read(KEY) is None:
            # Nothing has been done, and nothing is left of it.
            assert seen(folder) == before, last
        assert case.commit(folder).committed, last
        assert seen(folder) == after, last
    assert counting.syncs > 10


def test_a_commit_that_has_ended_is_answered_and_not_repeated(case: _Case, tmp_path: Path) -> None:
    folder = case.copied(tmp_path / "once")
    outcome = case.commit(folder)
    (folder / "one.txt").write_text("by somebody else, later")
    assert case.commit(folder) == outcome
    assert (folder / "one.txt").read_text() == "by somebody else, later"
    assert CommitJournal(folder, Disk()).unfinished() == []
