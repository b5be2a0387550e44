"""Evidence of a run or an experiment, and its comparison: a struck one must leave what the recorded one left. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.events import activity_of
from llm_do_temporal.messages.activities import EDIT_FILE, REQUEST_MODEL, SAVE_WORKER, WRITE_FILE

_COMMITS = "commit_changes"
"""Activity by which reviewed changes are made."""
_WRITES = frozenset({WRITE_FILE.name, EDIT_FILE.name, SAVE_WORKER.name})


@dataclass(frozen=True)
class Point:
    """Event of a run, right after which a process is killed."""

    number: int
    """Place among all events of the run, from 1."""
    path: str
    """Path of the invocation in whose history it is; the run's own, with its desk, is that of the entry path. Those of
    the cases of an experiment begin with the case."""
    generation: int
    """Number of times that the workflow had continued as new."""
    event_id: int
    what: str


@dataclass(frozen=True)
class Evidence:
    """Result, files and effects that are left of a run."""

    result: Any = None
    error: str = ""
    """Error with which the run ended; empty for a run with a result."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Digests, by path."""
    turns: Mapping[str, Counter[str]] = field(default_factory=dict[str, "Counter[str]"])
    """Number of times each turn was scheduled, by invocation; a turn is named by the digest of its request."""
    writes: Counter[str] = field(default_factory=Counter[str])
    """Number of times each write, of a path and a content, was scheduled, and commits of reviewed changes."""
    once: Counter[str] = field(default_factory=Counter[str])
    """Number of times each effect that may be attempted once (a command, above all) was scheduled."""
    children: Counter[str] = field(default_factory=Counter[str])
    """Number of times each child workflow was asked for, by its id."""
    doubts: int = 0
    """Effects that may or may not have happened; each was skipped by a person, or for want of an answer to it."""
    points: Sequence[Point] = ()
    parts: Mapping[str, Evidence] = field(default_factory=dict[str, "Evidence"])
    """Evidence that is compared by itself, by name: of the cases of an experiment, each with its judge."""

    @property
    def all_doubts(self) -> int:
        """Doubts, those of the parts among them."""
        return self.doubts + sum(part.doubts for part in self.parts.values())


def gather(result: Any, error: str, files: Mapping[str, str], doubts: int, histories: Histories) -> Evidence:
    """Put together what is left of a run."""
    turns: dict[str, Counter[str]] = {}
    writes, once, children = Counter[str](), Counter[str](), Counter[str]()
    for path, event in histories.events:
        if child := event.start_child_workflow_execution_initiated_event_attributes.workflow_id:
            children[child] += 1
        scheduled = event.activity_task_scheduled_event_attributes
        name = scheduled.activity_type.name
        if event.event_type != EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            continue
        asked = hashlib.sha256(b"\0".join(payload.data for payload in scheduled.input.payloads)).hexdigest()
        if name == REQUEST_MODEL.name:
            turns.setdefault(path, Counter())[asked] += 1
        elif name == _COMMITS:
            # Its input names the run; what was committed shows in the files.
            writes[f"{path}: {name}"] += 1
        elif name in _WRITES:
            writes[f"{path}: {name} {asked}"] += 1
        if scheduled.retry_policy.maximum_attempts == 1:
            # Its input may name the run, its summary does not.
            once[f"{path}: {event.user_metadata.summary.data.decode() or name}"] += 1
    return Evidence(result, error, files, turns, writes, once, children, doubts, histories.points())


def compare(recorded: Evidence, struck: Evidence, before: Mapping[str, str], *, exact: bool) -> list[str]:
    """Return the differences of a struck run to the recorded one, in words; empty when it left the same.

    `before` has the digests of the files before any run. `exact` says that the same requests get the same answers;
    otherwise only what holds for any answers is compared. Where a person skipped what may have happened the result
    may tell of it, and a file may be as the recorded run or as nobody left it.
    """
    if struck.error:
        return [f"the run ended without a result: {struck.error}"]
    found = [f"{path}: a turn was asked twice" for path, turns in struck.turns.items() if max(turns.values()) > 1]
    found += [f"{child} was started twice" for child, times in struck.children.items() if times > 1]
    found += _parts(recorded, struck, before, exact=exact)
    if not exact:
        return found
    for name, there, allowed in (
        ("written more often", struck.writes, recorded.writes),
        ("run more often", struck.once, recorded.once),
    ):
        found += [f"{name} than in the recorded run: {each}" for each in sorted(there - allowed)]
    found += _files(recorded.files, struck.files, before if struck.doubts else {})
    if not struck.doubts:
        if struck.result != recorded.result:
            found.append(f"the result differs: {struck.result!r:.200}")
        if {path: turns.total() for path, turns in struck.turns.items()} != {
            path: turns.total() for path, turns in recorded.turns.items()
        }:
            found.append("there were more or fewer turns than in the recorded run")
        found += [f"never written: {each}" for each in sorted(recorded.writes - struck.writes)]
    return found


def _parts(recorded: Evidence, struck: Evidence, before: Mapping[str, str], *, exact: bool) -> list[str]:
    found = [f"{name} is missing" for name in recorded.parts if name not in struck.parts]
    for name, part in struck.parts.items():
        if name in recorded.parts:
            found += [f"{name}: {one}" for one in compare(recorded.parts[name], part, before, exact=exact)]
        else:
            found.append(f"{name} is not in the recorded experiment")
    return found


def _files(recorded: Mapping[str, str], struck: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Files that are neither as in the recorded run nor, where `before` allows it, as before."""
    found: list[str] = []
    for path in sorted({*recorded, *struck}):
        is_before = bool(before) and struck.get(path) == before.get(path)
        if struck.get(path) != recorded.get(path) and not is_before:
            found.append(f"the file {path} {'differs' if path in struck else 'is missing'}")
    return found


@dataclass
class Histories:
    """All events of a run, in the order in which its histories were read."""

    events: list[tuple[str, HistoryEvent]] = field(default_factory=list[tuple[str, HistoryEvent]])

    def resumed(self, struck_at: float, gone: int | None) -> float | None:
        """Seconds from the blow to the first thing that a service other than `gone` took up; None: nothing was left."""
        moments: list[float] = []
        for _, event in self.events:
            task, activity = event.workflow_task_started_event_attributes, event.activity_task_started_event_attributes
            identity = task.identity or activity.identity
            at = event.event_time.ToNanoseconds() / 1e9
            if identity and at > struck_at and (gone is None or not identity.startswith(f"{gone}@")):
                moments.append(at)
        return min(moments) - struck_at if moments else None

    def points(self) -> list[Point]:
        """Every event, in the order in which they were written."""
        names: dict[tuple[str, int, int], str] = {}
        generations: Counter[str] = Counter()
        written: dict[str, int] = {}
        found: list[tuple[int, Point]] = []
        for path, event in self.events:
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                generations[path] += 1
            generation = generations[path] - 1
            name = event.activity_task_scheduled_event_attributes.activity_type.name
            names[path, generation, event.event_id] = name
            name = name or names.get((path, generation, activity_of(event)), "")
            # The start of an activity is written when it ends, and has the time of its start.
            written[path] = max(written.get(path, 0), event.event_time.ToNanoseconds())
            found.append((written[path], Point(0, path, generation, event.event_id, f"{_kind(event)} {name}".strip())))
        ordered = (point for _, point in sorted(found, key=lambda one: one[0]))
        return [replace(point, number=number) for number, point in enumerate(ordered, start=1)]


def _kind(event: HistoryEvent) -> str:
    return EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").replace("_", " ").lower()
