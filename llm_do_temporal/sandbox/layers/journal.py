"""Journal of commits: what each one is about to do, on the disk before it does it.

One file for each commit, in the workshop's own state. While it is not there, nothing has been done; once it is, the
commit goes on to its end, whoever carries it on. In the end it says what came of it, so that the same commit, asked
for again, is answered and not repeated.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.policy.layers.merge import LayerConflict
from llm_do_temporal.policy.layers.steps import CommitStep
from llm_do_temporal.policy.values import Value
from llm_do_temporal.sandbox.layers.disk import Disk

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


@dataclass(frozen=True)
class KeptRecord:
    """Record of the journal, and when it was written."""

    record: CommitRecord
    written_at: float
    """Time in seconds since 1970."""


class CommitJournal:
    """Journal of one workshop."""

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

    def kept(self) -> list[KeptRecord]:
        """Return every record that can be read."""
        found: list[KeptRecord] = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            with suppress(EffectFailed, FileNotFoundError):
                record = self._read(path)
                if record is not None:
                    found.append(KeptRecord(record, path.stat().st_mtime))
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
