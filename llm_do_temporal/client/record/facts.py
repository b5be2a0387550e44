"""Facts about a run for people: what it was given, its end, what was taken back, and the files that it has written.

Taken from the histories, while they are read for something else or for this alone. What commands and Python tools
write outside of a review is in no history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistoryEventFilterType

from llm_do_temporal.client.history.events import (
    ENDS,
    Activities,
    ending,
    first_object,
    put_back,
    read_chain,
    read_first,
    read_message,
    read_start,
)
from llm_do_temporal.client.history.questions import news_at_desk
from llm_do_temporal.client.views.run_list import RunSummary
from llm_do_temporal.client.views.run_view import results_of
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.extension import commit_activities
from llm_do_temporal.messages.activities import (
    EDIT_FILE,
    WRITE_FILE,
    EditFileInput,
    FileChange,
    HeldNews,
    WriteFileInput,
)
from llm_do_temporal.messages.approvals import Verdict
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.messages.layers import CommittedChanges
from llm_do_temporal.messages.runs import BatchItem, ItemResult, first_line, task_words, workflow_id_of
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import WORKSHOP, Place, check_readable
from llm_do_temporal.policy.models import cut_reason, cut_words
from llm_do_temporal.sandbox.safe_open import WorkshopFolder
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE, is_kept_outside

MAX_BYTES = 32 << 20
"""Largest file that is sent to whoever looks at a run."""
_Change: TypeAlias = WriteFileInput | EditFileInput
_CHANGES: dict[str, type[_Change]] = {WRITE_FILE.name: WriteFileInput, EDIT_FILE.name: EditFileInput}


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run, as its history tells them."""

    prompt: str = ""
    input: Any = None
    attachments: tuple[Attachment, ...] = ()
    items: tuple[BatchItem, ...] = ()
    """Items of a batch; empty for other runs."""
    has_result: bool = False
    output: Any = None
    outcomes: tuple[ItemResult, ...] = ()
    """Outcomes of a batch's items, once it has ended."""
    error: str = ""
    next_step: str = ""
    truncated: str | None = None
    """Reason why the answer that is the output was cut; None: it was not."""

    @property
    def task(self) -> str:
        """The first line of the prompt, whole, or else the beginning of the input; empty where there is neither."""
        return task_words(self.prompt, self.input)

    @property
    def is_told_by_task(self) -> bool:
        """Whether the task is all that the prompt says."""
        return self.prompt.strip() == first_line(self.prompt)

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """Items of a batch that failed, as name and reason; of an open one those whose file cannot be used."""
        if self.outcomes:
            return tuple((one.name, one.message or "") for one in self.outcomes if one.status == "failed")
        return tuple((item.name, item.unusable) for item in self.items if item.unusable)

    @property
    def cuts(self) -> tuple[tuple[str, str], ...]:
        """Items of a batch whose answers were cut, as name and reason."""
        return tuple((one.name, cut_words(one.truncated)) for one in self.outcomes if one.truncated)

    @property
    def cut_words(self) -> str:
        """Clause that says that the result is not whole, and why; empty: it is."""
        return "" if self.truncated is None else cut_words(self.truncated)

    @property
    def all_attachments(self) -> tuple[Attachment, ...]:
        """Files given to the run, and those of its items."""
        return (*self.attachments, *(file for item in self.items for file in item.attachments))


async def read_facts(client: Client, run: RunSummary) -> RunFacts:
    """Return the facts of a run. Raises RPCError and KeyMismatch."""
    facts = facts_at_start(await read_first(client, run.run, run.run_id))
    if run.ended_at is None:
        return facts
    handle = client.get_workflow_handle(run.run, run_id=run.run_id)
    events = handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
    last = await anext(events, None)
    if last is None:
        return facts
    await put_back(last, client.data_converter)
    return facts_at_end(facts, last)


def facts_at_start(started: HistoryEvent) -> RunFacts:
    """Return the facts in the event with which a run, or its newest part, began."""
    payloads = started.workflow_execution_started_event_attributes.input.payloads
    if any(map(is_kept_outside, payloads)):
        return RunFacts(prompt=KEPT_OUTSIDE)
    start = read_start(payloads)
    items = () if start.batch is None else start.batch.items
    return RunFacts(start.prompt, start.input, start.attachments, items)


def facts_at_end(facts: RunFacts, last: HistoryEvent) -> RunFacts:
    """Return the facts with those of the last event."""
    end = ending(last)
    if end is None:
        return facts
    return replace(
        facts,
        has_result=end.status == "completed",
        output=end.output,
        outcomes=results_of(last),
        error=end.failure.message,
        next_step=str(end.told.get("next_step") or ""),
        truncated=cut_reason(end.told.get("truncated")),
    )


@dataclass(frozen=True)
class WrittenFile:
    """File that a call of a file tool, or a review, has written, as it was left by the last of them."""

    place: Place
    bytes: int
    by: str
    at: datetime
    created: bool
    """Whether there was no such file before."""
    sha256: str | None = None
    """Digest of the file as that call left it; None if it was not recorded."""


@dataclass(frozen=True)
class FileWrite:
    """Call of a file tool that has written the file itself, and not into a layer."""

    at: datetime
    by: str
    request: _Change
    change: FileChange

    @property
    def place(self) -> Place:
        """The place of the file."""
        return Place(mount=self.request.mount, relative=self.request.relative, path=self.request.path)

    @property
    def files(self) -> Iterator[WrittenFile]:
        """The file as the call left it."""
        change = self.change
        yield WrittenFile(self.place, change.bytes, self.by, self.at, change.created, change.seen.after)


@dataclass(frozen=True)
class FileCommit:
    """Commit of reviewed changes of the invocation at a position in the tree."""

    at: datetime
    by: str
    manifest: str
    """Name of the blob with the changes; empty where it is not told."""
    made: CommittedChanges

    @property
    def files(self) -> Iterator[WrittenFile]:
        """The files that it has made, as far as the history names them."""
        for one in self.made.files:
            place = Place(mount=WORKSHOP, relative=one.path, path=f"/{one.path}")
            yield WrittenFile(place, one.bytes, self.by, self.at, one.created, one.sha256)


class FileReader:
    """Finds what the invocation at a path of the tree has done to files, in the events of its histories."""

    def __init__(self, path: str) -> None:
        self.steps: list[FileWrite | FileCommit] = []
        """Writes and commits that have ended, in their order."""
        self._path = path
        self._activities = Activities(*_CHANGES, *commit_activities())

    @property
    def found(self) -> list[WrittenFile]:
        """Files in the order in which they were written; one that was written twice stands here twice."""
        return [file for step in self.steps for file in step.files]

    @property
    def more(self) -> int:
        """Files that reviews have made besides these, and that the histories do not name."""
        return sum(step.made.more_files for step in self.steps if isinstance(step, FileCommit))

    def take(self, event: HistoryEvent) -> None:
        """Take in the next event."""
        begun = self._activities.take(event)
        if begun is None:
            return
        scheduled, at = begun.activity_task_scheduled_event_attributes, event.event_time.ToDatetime(UTC)
        given = first_object(scheduled.input.payloads)
        result = first_object(event.activity_task_completed_event_attributes.result.payloads)
        kind = _CHANGES.get(scheduled.activity_type.name)
        if kind is None:
            made = read_message(CommittedChanges, result)
            if made is not None:
                self.steps.append(FileCommit(at, self._path, str(given.get("manifest") or ""), made))
            return
        request, change = read_message(kind, given), read_message(FileChange, result)
        # What goes into a layer is no file yet.
        if request is not None and change is not None and request.layer is None:
            self.steps.append(FileWrite(at, self._path, request, change))


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


@dataclass(frozen=True)
class TakenBack:
    """Decision that its author took back, or replaced, before it took effect."""

    id: str
    decision: str
    by: str
    at: datetime


class Story:
    """Takes the events of a run and of its invocations, as a tap of a follower does."""

    def __init__(self, run: str) -> None:
        self.facts = RunFacts()
        self.taken_back: list[TakenBack] = []
        self._held: dict[str, Verdict] = {}
        """Decisions that were held last, by the id of the approval."""
        self._run = run
        self._files: dict[str, FileReader] = {}

    @property
    def steps(self) -> list[FileWrite | FileCommit]:
        """Writes and commits of all invocations so far."""
        return [step for reader in self._files.values() for step in reader.steps]

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        """The files that all invocations have written so far."""
        return last_written([file for reader in self._files.values() for file in reader.found])

    @property
    def more_files(self) -> int:
        """Number of files that reviews have made besides these, and that the histories do not name."""
        return sum(reader.more for reader in self._files.values())

    def take(self, workflow_id: str, event: HistoryEvent) -> None:
        """Take in the next event of the workflow with this id."""
        path = workflow_id.partition("/")[2] or ENTRY_PATH
        self._files.setdefault(workflow_id, FileReader(path)).take(event)
        if workflow_id != self._run:
            return
        if event.HasField("workflow_execution_started_event_attributes"):
            self.facts = facts_at_start(event)
        elif event.event_type in ENDS:
            self.facts = facts_at_end(self.facts, event)
        else:
            news = news_at_desk(event)
            held = read_message(HeldNews, news.value) if news is not None and news.kind == "held" else None
            if held is None:
                return
            before = self._held.pop(held.id, None)
            if before is not None and (held.held is None or held.held.decision is not before.decision):
                at = event.event_time.ToDatetime(UTC)
                self.taken_back.append(TakenBack(held.id, before.decision.value, before.by, at))
            if held.held is not None:
                self._held[held.id] = held.held
