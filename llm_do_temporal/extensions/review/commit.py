"""Commit of a layer: its changes made real, all of them or none.

First everything is looked at, and where the base is not as the layer found it, nothing is touched. Then all new
contents are staged beside their places, under names that nobody sees. Then the journal is written: from here on the
commit goes to its end, after a crash by whoever asks for it again. Each step compares the node at its path once more,
so a step that was done is not repeated, and what somebody else changed meanwhile is left as it is and reported. In the
end the journal has the outcome, so that the same commit, asked for again, is answered and not repeated.

No link is followed, and no folder on another file system is entered. Called by the activity that has the reviewed
layer; must not decide what is accepted.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from llm_do_temporal.errors import EffectFailed, SandboxRefusal, ShownDiffers
from llm_do_temporal.extension import Finding
from llm_do_temporal.extensions.review.policy.review import CommitStep, Section, StepKind, section_of, steps_of
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.layers.layer import (
    FOREIGN,
    Layer,
    LayerNode,
    NodeKind,
    above,
    alike,
    changes_of,
    is_file,
    is_folder,
    name_of,
    parent_of,
    seen_node,
)
from llm_do_temporal.policy.layers.merge import ConflictKind, LayerConflict, against
from llm_do_temporal.policy.values import Value
from llm_do_temporal.sandbox.changes import alone_in_all
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files, folds_names
from llm_do_temporal.sandbox.os_errors import naming

SYNCED_TOGETHER = 16
"""Most files that are written to the disk at a time."""


class Disk:
    """Every system call by which a commit changes files, so that a test can end the process between any two of them.

    Works below open folders only. All raise OSError.
    """

    def create(self, folder: int, name: str) -> int:
        """Make a file that only its owner may read, and return it open for writing; there must be none."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=folder)

    def write(self, file: int, data: bytes | memoryview) -> int:
        """Write some of the bytes, and return how many."""
        return os.write(file, data)

    def sync(self, file: int) -> None:
        """Have the file or folder on the disk before anything else is done."""
        os.fsync(file)

    def permit(self, file: int, mode: int) -> None:
        """Give an open file or folder its permissions."""
        os.fchmod(file, mode)

    def link(self, target: str, folder: int, name: str) -> None:
        """Make a symbolic link; there must be nothing of this name."""
        os.symlink(target, name, dir_fd=folder)

    def rename(self, folder: int, name: str, new_folder: int, new_name: str) -> None:
        """Give a file or link another place, in that of what is there."""
        os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)

    def make_folder(self, folder: int, name: str, mode: int) -> None:
        """Make a folder; there must be nothing of this name."""
        os.mkdir(name, mode, dir_fd=folder)

    def remove(self, folder: int, name: str) -> None:
        """Remove a file or link."""
        os.unlink(name, dir_fd=folder)

    def remove_folder(self, folder: int, name: str) -> None:
        """Remove an empty folder."""
        os.rmdir(name, dir_fd=folder)

    def sync_each(self, opening: Sequence[Callable[[], int]]) -> None:
        """Have files on the disk, several at a time: a disk takes them together. Each call opens one."""

        def sync_opened(opened: Callable[[], int]) -> None:
            file = opened()
            try:
                self.sync(file)
            finally:
                os.close(file)

        with ThreadPoolExecutor(SYNCED_TOGETHER) as pool:
            deque(pool.map(sync_opened, opening), maxlen=0)

    def write_whole(self, folder: int, name: str, data: bytes, mode: int, *, synced: bool = True) -> None:
        """Make a file with these bytes and permissions, and unless `synced` is false have it on the disk."""
        file = self.create(folder, name)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self.write(file, rest) :]
            self.permit(file, mode)
            if synced:
                self.sync(file)
        finally:
            os.close(file)


FOLDER = "commits"
_SUFFIX = ".json"
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class CommitOutcome(Value):
    """Result of a commit."""

    committed: bool
    """Whether the changes were made; if not, nothing was."""
    paths: int = 0
    """Number of files, links and folders that are now as the layer has them."""
    conflicts: tuple[LayerConflict, ...] = ()
    """Files that have changed since the layer first touched them; of an uncommitted layer, the reason."""


class CommitRecord(Value):
    """Entry of the journal."""

    key: str
    reviewed: str
    """Digest of the changes that were reviewed."""
    steps: tuple[CommitStep, ...] = ()
    staged: Mapping[str, tuple[str, str]] = {}
    """Folder and name of the files that wait beside their places, by path."""
    outcome: CommitOutcome | None = None
    """Result; None while the commit goes on."""


_NAMED = 3
"""Most commits that one finding names."""


class CommitJournal:
    """Journal of one workshop: a file for each commit, in the workshop's own state."""

    def __init__(self, workshop: Path, disk: Disk) -> None:
        self._folder = workshop / STATE_FOLDER / FOLDER
        self._disk = disk

    def read(self, key: str) -> CommitRecord | None:
        """Return the record of the commit with this key; None where it has not begun. Raises EffectFailed."""
        return self._read(self._folder / _name_of(key))

    def write(self, record: CommitRecord) -> None:
        """Have the record on the disk, in the place of an earlier one. Raises OSError."""
        name = _name_of(record.key)
        temporary = f"{name}.new"
        with self._opened() as folder:
            with suppress(FileNotFoundError):
                self._disk.remove(folder, temporary)
            self._disk.write_whole(folder, temporary, record.model_dump_json().encode(), 0o600)
            self._disk.rename(folder, temporary, folder, name)
            self._disk.sync(folder)

    def unfinished(self) -> list[CommitRecord]:
        """Return the records of commits that have begun and not ended, as after a crash."""
        found = [self._read(path) for path in sorted(self._folder.glob(f"*{_SUFFIX}"))]
        return [record for record in found if record is not None and record.outcome is None]

    def ended(self, before: float) -> list[str]:
        """Return the keys of the commits that ended before a time in seconds since 1970, as far as they can be read."""
        found: list[str] = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            with suppress(EffectFailed, FileNotFoundError):
                record = self._read(path)
                if record is not None and record.outcome is not None and path.stat().st_mtime < before:
                    found.append(record.key)
        return found

    def discard(self, key: str) -> None:
        """Remove the record of a commit that nobody asks for again. Raises OSError."""
        with self._opened() as folder, suppress(FileNotFoundError):
            self._disk.remove(folder, _name_of(key))

    def _read(self, path: Path) -> CommitRecord | None:
        try:
            return CommitRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise EffectFailed(
                f"the journal of a commit, '{path.name}', cannot be read",
                next_step="Nothing is committed past it; see whether the disk is sound.",
            ) from error

    @contextmanager
    def _opened(self) -> Generator[int]:
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self._folder, _FLAGS)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _name_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32] + _SUFFIX


_READABLE = os.O_RDONLY | os.O_DIRECTORY
_NO_FOLDER = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV})
"""Errors for a folder that is gone, or is a link by now, or of another file system."""


class LayerCommit:
    """Commits to the files of one workshop.

    Raises SandboxRefusal and EffectFailed where nothing was touched, and an OSError that may pass.
    """

    def __init__(
        self, workshop: Path, contents: LayerContents, protection: Protection, disk: Disk | None = None
    ) -> None:
        self._workshop = workshop
        self._contents = contents
        self._protection = protection
        self._disk = disk or Disk()
        self._journal = CommitJournal(workshop, self._disk)

    def commit(
        self,
        layer: Layer,
        *,
        key: str,
        reviewed: str,
        sections: Collection[Section] = (Section.ORDINARY,),
        workers: Collection[str] = (),
    ) -> CommitOutcome:
        """Make the changes of the layer real, or none of them.

        `key` names this commit: asked for again, it is carried on or answered. `reviewed` is the digest of the changes
        that people have seen, `sections` those that they have accepted. Of the definitions, `workers` were accepted as
        new workers. Raises ShownDiffers where the layer is another.
        """
        if layer.digest() != reviewed:
            raise ShownDiffers("these changes are not the ones that were reviewed", next_step="Review them again.")
        with base_files(self._workshop) as base, self._alone(layer, base):
            record = self._journal.read(key)
            if record is not None and record.reviewed != reviewed:
                raise ShownDiffers(f"the commit '{key}' was begun with other changes", next_step="Review them again.")
            if record is None:
                check_sections(layer, self._protection, sections, workers)
                merge = against(layer, base, folds=folds_names(base))
                if merge.conflicts:
                    # An earlier attempt may have ended before it had a journal.
                    self._clear_staged(_planned(layer, key, reviewed), base)
                    return CommitOutcome(committed=False, conflicts=merge.conflicts)
                record = self._begun(merge.layer, base, key, reviewed)
            if record.outcome is None:
                record = self._carried_out(record, base)
            return record.outcome or CommitOutcome(committed=False)

    @contextmanager
    def _alone(self, layer: Layer, base: BaseFiles) -> Generator[None]:
        """Keep other commits waiting, and tools that change files in the same folders."""
        folders = {parent_of(path) for path in layer.changes} | {""}
        facts: list[os.stat_result] = []
        for folder in folders:
            with suppress(OSError), base.folder(folder) as descriptor:
                facts.append(os.fstat(descriptor))
        with alone_in_all(facts, self._workshop):
            yield

    def _begun(self, layer: Layer, base: BaseFiles, key: str, reviewed: str) -> CommitRecord:
        """Stage all contents and write the journal; after an error nothing is left of it."""
        record = _planned(layer, key, reviewed)
        steps, staged = record.steps, record.staged
        going = _going(steps)
        try:
            for step in steps:
                self._check_possible(step, base, going)
                if step.kind is StepKind.PUT:
                    self._stage(step, record, base, synced=not _is_readable_file(step.after))
            readable = [staged[step.path] for step in steps if step.path in staged and _is_readable_file(step.after)]
            self._disk.sync_each([partial(_open_staged, folder, name, base) for folder, name in readable])
            self._sync_folders({folder for folder, _name in staged.values()}, base)
            self._journal.write(record)
        except BaseException:
            self._clear_staged(record, base)
            raise
        return record

    def _check_possible(self, step: CommitStep, base: BaseFiles, going: Collection[str]) -> None:
        """Raise EffectFailed where the step would fail for want of permissions."""
        folder = parent_of(step.path)
        if folder in going:
            return
        with naming(step.path), base.folder(folder) as descriptor:
            if step.path in going and step.kind is StepKind.MODE:
                return
            if step.kind is StepKind.MODE:
                owner = os.stat(name_of(step.path), dir_fd=descriptor, follow_symlinks=False).st_uid
                if os.geteuid() not in (0, owner):
                    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
            elif not os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _stage(self, step: CommitStep, record: CommitRecord, base: BaseFiles, *, synced: bool = True) -> None:
        folder, name = record.staged[step.path]
        node = step.after
        if node is None:
            return
        data = b"" if node.kind is NodeKind.LINK else self._contents.read(node, step.path)
        with naming(step.path), base.folder(folder) as descriptor:
            # What an earlier attempt has left behind may be half a file.
            with suppress(FileNotFoundError):
                self._disk.remove(descriptor, name)
            if node.kind is NodeKind.LINK:
                self._disk.link(node.target, descriptor, name)
            else:
                self._disk.write_whole(descriptor, name, data, node.mode, synced=synced)

    def _carried_out(self, record: CommitRecord, base: BaseFiles) -> CommitRecord:
        course = _Course(record.steps)
        for step in record.steps:
            kind = None if step.path in course.conflicts else self._step(step, record, base, course)
            if kind is not None:
                there = seen_node(base, step.path)
                # What no layer can hold, no journal can either.
                theirs = None if alike(there, FOREIGN) else there
                course.conflicts[step.path] = LayerConflict(
                    path=step.path, kind=kind, ours=course.last(step.path), base=step.before, theirs=theirs
                )
        self._clear_staged(record, base)
        self._sync_folders({parent_of(step.path) for step in record.steps}, base)
        paths = {step.path for step in record.steps} - course.conflicts.keys()
        conflicts = tuple(course.conflicts[path] for path in sorted(course.conflicts))
        outcome = CommitOutcome(committed=True, paths=len(paths), conflicts=conflicts)
        done = record.model_copy(update={"outcome": outcome, "steps": (), "staged": {}})
        self._journal.write(done)
        return done

    def _step(self, step: CommitStep, record: CommitRecord, base: BaseFiles, course: _Course) -> ConflictKind | None:
        """Do one step, unless it is done; return the reason where it cannot be, as somebody changed the files."""
        there = seen_node(base, step.path)
        if course.is_done(step, there):
            return None
        if not alike(there, step.before):
            return ConflictKind.BOTH_CHANGED
        try:
            with base.folder(parent_of(step.path)) as folder:
                self._do(step, folder, record, base)
        except OSError as error:
            if step.kind is StepKind.REMOVE and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return ConflictKind.NOT_EMPTY
            if error.errno in (errno.EEXIST, errno.EISDIR):
                return ConflictKind.BOTH_CHANGED
            if error.errno in _NO_FOLDER:
                return ConflictKind.PLACE_GONE
            raise
        return None

    def _do(self, step: CommitStep, folder: int, record: CommitRecord, base: BaseFiles) -> None:
        name = name_of(step.path)
        if step.kind is StepKind.PUT:
            staged_in, staged = record.staged[step.path]
            with base.folder(staged_in) as source:
                try:
                    self._disk.rename(source, staged, folder, name)
                except FileNotFoundError:
                    # Somebody has tidied up, or the folder is gone: then this fails again.
                    self._stage(step, record, base)
                    self._disk.rename(source, staged, folder, name)
        elif step.kind is StepKind.MAKE:
            self._disk.make_folder(folder, name, 0o700)
        elif step.kind is StepKind.MODE and step.after is not None:
            self._permit(folder, name, step.after)
        elif is_folder(step.before):
            self._disk.remove_folder(folder, name)
        else:
            self._disk.remove(folder, name)

    def _permit(self, folder: int, name: str, node: LayerNode) -> None:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            # What a folder hands on to new files stays as it is.
            kept = os.fstat(descriptor).st_mode & 0o7000 if is_folder(node) else 0
            self._disk.permit(descriptor, node.mode | kept)
        finally:
            os.close(descriptor)

    def _clear_staged(self, record: CommitRecord, base: BaseFiles) -> None:
        for folder, name in record.staged.values():
            with suppress(OSError), base.folder(folder) as descriptor:
                os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                self._disk.remove(descriptor, name)

    def _sync_folders(self, folders: Collection[str], base: BaseFiles) -> None:
        for folder in sorted(folders):
            try:
                with base.folder(folder, _READABLE) as descriptor:
                    self._disk.sync(descriptor)
            except OSError as error:
                if error.errno not in _NO_FOLDER:
                    raise


def check_sections(
    layer: Layer, protection: Protection, sections: Collection[Section], workers: Collection[str]
) -> None:
    """Raise SandboxRefusal for a change that gives power and that nobody has accepted as such.

    What gives power is decided again, by the workshop's definitions of now. Ordinary changes are always fine.
    """
    for change in changes_of(layer):
        section = section_of(change, protection)
        if section is Section.DEFINITIONS and change.path in workers and Section.WORKERS in sections:
            continue
        if section is not Section.ORDINARY and section not in sections:
            raise SandboxRefusal(
                f"'{change.path}' belongs to the section '{section}' of a review, which was not accepted",
                next_step="Have that section decided, too, or leave the file out.",
            )


class _Course:
    """Course of a commit: the nodes that each path has one after another, and what has come in between."""

    def __init__(self, steps: Sequence[CommitStep]) -> None:
        self.conflicts: dict[str, LayerConflict] = {}
        self._steps: dict[str, list[CommitStep]] = {}
        for step in steps:
            self._steps.setdefault(step.path, []).append(step)

    def is_done(self, step: CommitStep, there: LayerNode | None) -> bool:
        """Return whether the path of a step is already as this step, or a later one of it, leaves it."""
        steps = self._steps[step.path]
        return any(alike(there, one.after) for one in steps[steps.index(step) :])

    def last(self, path: str) -> LayerNode | None:
        """Return the node that the path has in the end."""
        return self._steps[path][-1].after


def _planned(layer: Layer, key: str, reviewed: str) -> CommitRecord:
    """Return the steps of a commit that has not begun, and where their files are to be staged."""
    steps = steps_of(layer)
    going = _going(steps)
    staged: dict[str, tuple[str, str]] = {}
    for path in (step.path for step in steps if step.kind is StepKind.PUT):
        # In the nearest folder that is there and stays.
        folder = next((one for one in above(path) if one not in going), "")
        staged[path] = folder, f".llm-do-{digest_of([key, path])[:32]}.tmp"
    return CommitRecord(key=key, reviewed=reviewed, steps=steps, staged=staged)


def _going(steps: Sequence[CommitStep]) -> set[str]:
    """Return the paths at which there is no folder for all of the commit."""
    return {step.path for step in steps if step.kind in (StepKind.REMOVE, StepKind.MAKE)}


def _open_staged(folder: str, name: str, base: BaseFiles) -> int:
    with base.folder(folder) as descriptor:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)


def _is_readable_file(node: LayerNode | None) -> bool:
    """Return whether the node is a file that its owner can open again, once it has its permissions."""
    return is_file(node) and bool(node.mode & 0o400)


def ended_commits(workshop: Path, before: float) -> dict[str, tuple[str, Callable[[], None]]]:
    """Return the journals of commits that ended before a time, as `Extension.leftovers` has them."""
    journal = CommitJournal(workshop, Disk())
    return {key: (key.rpartition("#")[0], partial(journal.discard, key)) for key in journal.ended(before)}


def examine_commits(workshop: Path) -> list[Finding]:
    """Return findings about commits that have begun and not ended, and about journals that are damaged."""
    try:
        unfinished = CommitJournal(workshop, Disk()).unfinished()
    except EffectFailed as error:
        return [Finding("commits", "error", error.message, error.next_step)]
    if not unfinished:
        return []
    keys = [record.key for record in unfinished]
    more = f", and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    files = sum(len({step.path for step in record.steps}) for record in unfinished)
    return [
        Finding(
            "commits",
            "warning",
            f"begun, and not ended: {', '.join(keys[:_NAMED])}{more} ({files} files, some may be changed already)",
            "Start a worker service: the run goes on to the end of it. If the run was terminated or deleted, look at "
            "the files, then remove its journal from '.llm-do/commits'.",
        )
    ]
