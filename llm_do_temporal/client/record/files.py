"""Files that invocations have written with the file tools, or by a review, as the effects in their histories tell.

What commands and Python tools write outside of a review is in no history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.client.history.events import read_chain
from llm_do_temporal.client.history.payloads import first_object, read_message
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.activities import COMMIT_CHANGES, EDIT_FILE, WRITE_FILE
from llm_do_temporal.messages.effects import EditFileInput, FileChange, WriteFileInput
from llm_do_temporal.messages.reviews import CommittedChanges
from llm_do_temporal.messages.runs import workflow_id_of
from llm_do_temporal.policy.files.sandbox import WORKSHOP, Place, check_readable
from llm_do_temporal.sandbox.safe_open import WorkshopFolder

MAX_BYTES = 32 << 20
"""Largest file that is sent to whoever looks at a run."""
_CHANGES: dict[str, type[WriteFileInput | EditFileInput]] = {
    WRITE_FILE.name: WriteFileInput,
    EDIT_FILE.name: EditFileInput,
}


@dataclass(frozen=True)
class WrittenFile:
    """File that a call of a file tool, or a review, has written, as it was left by the last of them."""

    place: Place
    bytes: int
    by: str
    """Position in the tree of the invocation that wrote it."""
    at: datetime
    created: bool
    """Whether there was no such file before."""
    sha256: str | None = None
    """Digest of the file as that call left it; None if it was not recorded."""


class FileReader:
    """Finds the files that one invocation has written, given the events of its histories in their order."""

    def __init__(self, path: str) -> None:
        """`path` is the invocation's position in the tree."""
        self.found: list[WrittenFile] = []
        """Files in the order in which they were written; one that was written twice stands here twice."""
        self.more = 0
        """Files that reviews have made besides these, and that the histories do not name."""
        self._path = path
        self._writes: dict[int, Place] = {}
        self._commits: set[int] = set()

    def take(self, event: HistoryEvent) -> None:
        """Take in the next event."""
        if event.HasField("workflow_execution_started_event_attributes"):
            self._writes.clear()
            self._commits.clear()
        scheduled = event.activity_task_scheduled_event_attributes
        kind = _CHANGES.get(scheduled.activity_type.name)
        if kind is not None:
            given = read_message(kind, first_object(scheduled.input.payloads))
            # What goes into a layer is no file yet.
            if given is not None and given.layer is None:
                self._writes[event.event_id] = Place(mount=given.mount, relative=given.relative, path=given.path)
            return
        if scheduled.activity_type.name == COMMIT_CHANGES.name:
            self._commits.add(event.event_id)
        completed = event.activity_task_completed_event_attributes
        if completed.scheduled_event_id in self._commits:
            self._take_commit(completed.result.payloads, event.event_time.ToDatetime(UTC))
            return
        place = self._writes.pop(completed.scheduled_event_id, None)
        change = None if place is None else read_message(FileChange, first_object(completed.result.payloads))
        if place is not None and change is not None:
            at = event.event_time.ToDatetime(UTC)
            after = None if change.seen is None else change.seen.after
            self.found.append(WrittenFile(place, change.bytes, self._path, at, change.created, after))

    def _take_commit(self, result: Sequence[Payload], at: datetime) -> None:
        made = read_message(CommittedChanges, first_object(result))
        if made is None:
            return
        self.more += made.more_files
        for one in made.files:
            place = Place(mount=WORKSHOP, relative=one.path, path=f"/{one.path}")
            self.found.append(WrittenFile(place, one.bytes, self._path, at, one.created, one.sha256))


def last_written(files: Sequence[WrittenFile]) -> tuple[WrittenFile, ...]:
    """Return each file once, as the last call left it, ordered by path; `created` where any of the calls made it."""
    found: dict[tuple[str, str, str], WrittenFile] = {}
    for file in sorted(files, key=lambda one: one.at):
        key = file.place.mount.root, file.place.relative, file.place.path
        before = found.get(key)
        found[key] = replace(file, created=file.created or (before is not None and before.created))
    return tuple(sorted(found.values(), key=lambda one: one.place.path))


async def read_files(client: Client, run: str, path: str) -> tuple[WrittenFile, ...]:
    """Return the files that the invocation at this place of a run's tree has written. Raises RPCError."""
    reader = FileReader(path)
    async for event in read_chain(client, workflow_id_of(run, path), None, wait=False):
        reader.take(event)
    return last_written(reader.found)


def written_bytes(workshop: Path, place: Place) -> bytes:
    """Return the bytes of a file as it is now, by the way that workers read it.

    Raises SandboxRefusal and EffectFailed, also for a file of more than MAX_BYTES, and OSError.
    """
    check_readable(place)
    with WorkshopFolder(workshop).file(place) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise EffectFailed(f"'{place.path}' has more than {MAX_BYTES >> 20} MiB")
    return data
