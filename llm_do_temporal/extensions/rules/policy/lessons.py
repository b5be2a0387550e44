"""Kinds of calls that past decisions teach.

A rule is learned from what people approved, over several runs and days. A call that somebody refused or changed speaks
against every kind that covers it, and one is enough. Each worker's calls teach about that worker alone. A kind is as
narrow as the calls it comes from: what a part of a call leaves free needs enough different values for one run more or
less not to matter. Whoever may write files that commands may run could run what they like: no kind frees both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from llm_do_temporal.policy.files.protection import PATH_TOOLS, WRITING_TOOLS
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.kinds.kind import (
    AskedCall,
    CallKind,
    Generalisation,
    argv_of,
    callee_of,
    form_of,
    generalisations,
    paths_of,
    place_in,
)
from llm_do_temporal.policy.programs import may_free_file
from llm_do_temporal.policy.shell import split_command, working_directory

_PIECES = re.compile("[=:,@]")
"""Signs between a word and a path: `--file=x`."""


class Area(NamedTuple):
    """Files in a folder whose names end so; with `deep` also those in folders below it."""

    folder: PurePosixPath
    end: str
    deep: bool = False

    def meets(self, other: Area) -> bool:
        """Return whether a file may be in both."""
        near = self.folder == other.folder
        near = near or (self.deep and other.folder.is_relative_to(self.folder))
        near = near or (other.deep and self.folder.is_relative_to(other.folder))
        return near and (self.end.endswith(other.end) or other.end.endswith(self.end))


class RunnableFiles(NamedTuple):
    """Files that a command may run."""

    area: Area
    argv: tuple[str, ...] | None
    """Words of the command; None where the files are the program itself."""

    def may_run(self, written: Area) -> bool:
        """Return whether a file of this area may be run."""
        if self.argv is None or not self.area.meets(written):
            return self.area.meets(written)
        end = max(self.area.end, written.end, key=len)
        return not may_free_file(self.argv, PurePosixPath(f"x{end}").suffix)


def written_by(kind: CallKind) -> Area | None:
    """Return the files that a kind lets workers write; None for one that is not about writing."""
    if kind.tool not in WRITING_TOOLS:
        return None
    if kind.path is not None:
        return _file(kind.path)
    return Area(PurePosixPath(kind.folder or kind.below or "/"), kind.suffix or "", deep=kind.folder is None)


def runs_of(kind: CallKind, trees: Iterable[Tree]) -> Iterator[RunnableFiles]:
    """Yield what a kind of commands may run in trees of these files."""
    if kind.command is None:
        return
    words, free = form_of(kind.command)
    for tree in trees:
        if not tree.mounts:
            continue
        cwd = working_directory(tree)
        yield from runs_in(words, tree, cwd)
        if kind.folder is not None:
            yield RunnableFiles(Area(PurePosixPath(kind.folder), kind.suffix or ""), words)
        elif free is not None:
            is_path = words[free] == "{path}"
            yield RunnableFiles(Area(PurePosixPath(cwd), "", deep=is_path), words)


def runs_in(words: Sequence[str], tree: Tree, cwd: str) -> Iterator[RunnableFiles]:
    """Yield what a command may run in this folder by what its words name."""
    argv = tuple(words)
    for at, word in enumerate(argv):
        if at == 0 and "/" not in word:
            continue
        for piece in {word, *_PIECES.split(word)} - {""}:
            place = place_in(tree, piece if piece.startswith("/") else f"{cwd}/{piece}")
            if place is not None:
                yield from runs_at(place.path, argv if at else None)


def runs_at(path: str, argv: tuple[str, ...] | None) -> Iterator[RunnableFiles]:
    """Yield the file at a path and, where it may be a folder, all below it."""
    yield RunnableFiles(_file(path), argv)
    if not PurePosixPath(path).suffix:
        yield RunnableFiles(Area(PurePosixPath(path), "", deep=True), argv)


def _file(path: str) -> Area:
    pure = PurePosixPath(path)
    return Area(pure.parent, pure.name)


MIN_RUNS = 3
MIN_DAYS = 2
FEWEST_VALUES = 3
"""Different values that must be left of what a kind frees, whichever single run is left out: one mistake, or one run
that went wrong, frees nothing."""

Opinion = Literal["for", "against", "none"]
"""Decision of a person on a call: approved as it was, refused or changed, or nobody decided about this call."""


@dataclass(frozen=True)
class Lesson:
    """Past call, with what a person thought of it."""

    call: AskedCall
    run: str
    day: date
    opinion: Opinion
    by: str = ""
    """Name of the person; empty where nobody decided, or gave none."""


@dataclass(frozen=True)
class LearnedKind:
    """Kind of calls with the approvals that it comes from."""

    kind: CallKind
    support: tuple[Lesson, ...]
    """Approved calls that it covers, in the order in which they were asked about."""

    @property
    def runs(self) -> int:
        """Number of runs that the approvals are from."""
        return len({lesson.run for lesson in self.support})

    @property
    def days(self) -> int:
        """Number of days on which they were asked."""
        return len({lesson.day for lesson in self.support})

    @property
    def people(self) -> tuple[str, ...]:
        """Names of those who approved, who approved most first."""
        return tuple(name for name, _ in Counter(lesson.by for lesson in self.support if lesson.by).most_common())


def learned_kinds(
    lessons: Sequence[Lesson], existing: Sequence[CallKind] = (), *, min_runs: int = MIN_RUNS, min_days: int = MIN_DAYS
) -> tuple[LearnedKind, ...]:
    """Return the fewest, smallest kinds that cover approved calls and none that was refused, the most useful first.

    Each is for the callers that it was learned from, and has approvals of at least `min_runs` runs and `min_days` days
    for each of them. None frees a write of a file that an approved or a free command may run, nor a command that may
    run a file which is written freely; `existing` are the kinds that are free already.
    """
    callers = dict.fromkeys(lesson.call.worker for lesson in lessons)
    chosen: dict[str, tuple[CallKind, list[Lesson]]] = {}
    for caller in callers:
        own = [lesson for lesson in lessons if lesson.call.worker == caller]
        for kind, support in _learned_of(own, min_runs, min_days):
            chosen.setdefault(kind.key, (kind, []))[1].extend(support)
    order = {id(lesson): number for number, lesson in enumerate(lessons)}
    learned: list[LearnedKind] = []
    trees = tuple(dict.fromkeys(lesson.call.tree for lesson in lessons))
    run = dict.fromkeys((*_run_by_lessons(lessons), *(one for kind in existing for one in runs_of(kind, trees))))
    written = [area for kind in existing if (area := written_by(kind)) is not None]
    for kind, found in chosen.values():
        own = written_by(kind)
        if own is not None and any(one.may_run(own) for one in run):
            continue
        if any(one.may_run(area) for one in runs_of(kind, trees) for area in written):
            continue
        support = tuple(sorted(found, key=lambda lesson: order[id(lesson)]))
        named = tuple(sorted({lesson.call.worker for lesson in support}))
        learned.append(LearnedKind(kind.model_copy(update={"callers": named}), support))
    return tuple(sorted(learned, key=lambda one: (-len(one.support), one.kind.sentence)))


def _run_by_lessons(lessons: Iterable[Lesson]) -> Iterator[RunnableFiles]:
    for lesson in lessons:
        argv = argv_of(lesson.call)
        if argv is not None and lesson.opinion == "for":
            yield from runs_in(argv, lesson.call.tree, str(lesson.call.uses[0].payload.get("cwd")))
            for file in lesson.call.files:
                yield from runs_at(file.path, argv)


def _learned_of(lessons: Sequence[Lesson], min_runs: int, min_days: int) -> Iterator[tuple[CallKind, list[Lesson]]]:
    """Yield the kinds learned from the calls of one worker, each with the approvals that it was chosen for."""
    against = [call for lesson in lessons if lesson.opinion == "against" for call in _alike(lesson.call)]
    left = [lesson for lesson in lessons if lesson.opinion == "for"]
    candidates: list[_Candidate] = [
        candidate
        for candidate in _candidates(left, min_runs)
        if candidate.is_seen_enough and not any(_speaks_against(call, candidate, min_runs) for call in against)
    ]
    while candidates:
        best = min(candidates, key=lambda one: one.order(left))
        taken = best.of(left)
        candidates = [one for one in candidates if _is_supported(one.of(left), min_runs, min_days) and one is not best]
        if _is_supported(taken, min_runs, min_days):
            yield best.kind, taken
            gone = set(map(id, taken))
            left = [lesson for lesson in left if id(lesson) not in gone]


def _alike(call: AskedCall) -> Iterator[AskedCall]:
    """Yield the calls that somebody who refuses this one does not want either: writing a file is writing it."""
    yield call
    for tool in WRITING_TOOLS if call.tool in WRITING_TOOLS else ():
        if tool != call.tool:
            yield call.model_copy(update={"tool": tool})


def _speaks_against(call: AskedCall, candidate: _Candidate, min_runs: int) -> bool:
    """Return whether a refused call speaks against a kind: it is covered, or its file has a name that is free there.

    Somebody who refuses `/app/settings.py` hardly wants `/app/core/settings.py`: a name that was refused in a folder
    around this one, or below it, counts here, too, unless this very file was approved in several runs.
    """
    kind = candidate.kind
    if _may_cover(kind, call):
        return True
    if kind.folder is None or not _is_same_act(kind, call):
        return False
    folder, suffix = PurePosixPath(kind.folder), kind.suffix or ""
    for path in map(PurePosixPath, paths_of(call)):
        around = path.parent
        is_near = around != folder and (around.is_relative_to(folder) or folder.is_relative_to(around))
        if is_near and path.name.endswith(suffix) and candidate.runs_with(str(folder / path.name)) < min_runs:
            return True
    return False


def _is_same_act(kind: CallKind, call: AskedCall) -> bool:
    """Return whether the call does what calls of the kind do, whatever it does it to."""
    argv = argv_of(call)
    if kind.command is not None:
        return argv is not None and argv[0] == split_command(kind.command)[0]
    return callee_of(call) == kind.worker if kind.worker is not None else call.tool == kind.tool


def _may_cover(kind: CallKind, call: AskedCall) -> bool:
    """Return whether the kind covers the call, or would if its files were where their paths say and nobody looked."""
    if kind.covers(call):
        return True
    unseen = call.tool in PATH_TOOLS and not call.files
    is_unknown = unseen or any(one.place is None for one in (*call.files, *call.attachments))
    return is_unknown and kind.fits(call)


@dataclass(frozen=True)
class _Candidate:
    """Kind with all approvals of one worker that it covers."""

    kind: CallKind
    breadth: int
    """Number of steps from the call itself to this kind."""
    support: tuple[tuple[Lesson, Generalisation], ...]
    """Approvals, each with the step from its call to the kind."""

    @property
    def is_seen_enough(self) -> bool:
        """Whether there were enough different values of everything that the kind leaves free."""
        axes = len(self.support[0][1].freed)
        return all(_values_left(self.support, axis) >= FEWEST_VALUES for axis in range(axes))

    def runs_with(self, freed: str) -> int:
        """Return the number of runs in which the free part was this."""
        return len({lesson.run for lesson, step in self.support if step.freed[:1] == (freed,)})

    def of(self, left: Iterable[Lesson]) -> list[Lesson]:
        """Return the approvals among those that are left."""
        own = {id(lesson) for lesson, _ in self.support}
        return [lesson for lesson in left if id(lesson) in own]

    def order(self, left: Sequence[Lesson]) -> tuple[int, int, str]:
        """Return the key by which the candidate that answers most comes first, and of such the narrowest."""
        return -len(self.of(left)), self.breadth, self.kind.sentence


def _candidates(lessons: Sequence[Lesson], min_runs: int) -> Iterator[_Candidate]:
    steps: dict[str, list[tuple[Lesson, Generalisation]]] = {}
    for lesson in lessons:
        for step in generalisations(lesson.call):
            steps.setdefault(step.kind.key, []).append((lesson, step))
    for found in steps.values():
        if len({lesson.run for lesson, _ in found}) >= min_runs:
            yield _Candidate(found[0][1].kind, found[0][1].breadth, tuple(found))


def _values_left(support: Sequence[tuple[Lesson, Generalisation]], axis: int) -> int:
    """Return how many different values of a freed part are left, whichever run is left out."""
    runs: dict[str, set[str]] = {}
    for lesson, step in support:
        runs.setdefault(step.freed[axis], set()).add(lesson.run)
    only = Counter(next(iter(those)) for those in runs.values() if len(those) == 1)
    return len(runs) - max(only.values(), default=0)


def _is_supported(lessons: Sequence[Lesson], min_runs: int, min_days: int) -> bool:
    return len({one.run for one in lessons}) >= min_runs and len({one.day for one in lessons}) >= min_days
