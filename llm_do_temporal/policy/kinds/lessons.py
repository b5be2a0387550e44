"""Kinds that are derived from calls: those that a person is offered for a call, and those that past decisions teach.

A rule is learned from what people approved, over several runs and days. A call that somebody refused or changed speaks
against every kind that covers it, and one is enough. Each worker's calls teach about that worker alone. A kind is as
narrow as the calls it comes from: the file itself before others in its folder, the word itself before a number or a
path, and these only where enough different ones were seen for one run more or less not to matter. Never free are
folders, programs, words that may be names of tasks or hosts, options, scripts and whatever `programs` knows to be
dangerous.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import ValidationError

from llm_do_temporal.policy.files.protection import PATH_TOOLS, WRITING_TOOLS
from llm_do_temporal.policy.files.sandbox import Place
from llm_do_temporal.policy.kinds.kind import (
    AskedCall,
    CallKind,
    argv_of,
    callee_of,
    fits_word,
    is_hidden,
    place_in,
    place_of,
)
from llm_do_temporal.policy.kinds.run_files import RunnableFiles, runs_at, runs_in, runs_of, written_by
from llm_do_temporal.policy.programs import may_free_file, numbers_in
from llm_do_temporal.policy.shell import split_command
from llm_do_temporal.policy.values import canonical

MAX_OFFERED = 8
_MAX_ARGS_CHARS = 2_000
"""Longest arguments that a rule repeats word by word: nobody would read more in a workshop's file."""


@dataclass(frozen=True)
class Generalisation:
    """Kind that covers a call."""

    kind: CallKind
    freed: tuple[str, ...] = ()
    """Values that the call has for each part that the kind leaves free."""
    breadth: int = 0
    """Number of steps from the call itself to the kind."""


@dataclass(frozen=True)
class _Step:
    """Keys of a kind that may be one."""

    keys: dict[str, Any]
    freed: tuple[str, ...] = ()
    breadth: int = 0


def kinds_of(call: AskedCall) -> tuple[CallKind, ...]:
    """Return the kinds that cover the call, at most MAX_OFFERED, the most specific first; none for a call that is
    always asked about by itself."""
    return tuple(one.kind for one in _covering(call, _offers(call)))[:MAX_OFFERED]


def generalisations(call: AskedCall) -> tuple[Generalisation, ...]:
    """Return the kinds that a rule learned from the call may have, the narrowest first; none for a call that is
    always asked about by itself.

    Each step frees something: a number, or the name of a file in one folder with one suffix.
    """
    return tuple(_covering(call, _steps(call)))


def paths_of(call: AskedCall) -> list[str]:
    """Return the virtual paths of the files that a call is about: its own, or those that it hands over or names."""
    place = place_of(call)
    if place is not None:
        return [place.path]
    return [one.path for one in (*call.attachments, *call.files)]


def _covering(call: AskedCall, steps: Iterable[_Step]) -> Iterable[Generalisation]:
    """Return the kinds with these keys that cover the call, each once."""
    found: dict[str, Generalisation] = {}
    for step in steps:
        try:
            kind = CallKind.model_validate(step.keys)
        except ValidationError:
            continue
        if kind.key not in found and kind.covers(call):
            found[kind.key] = Generalisation(kind, step.freed, step.breadth)
    return found.values()


def _exactly(call: AskedCall) -> _Step:
    codes = {use.payload.get("sha256") for use in call.uses}
    return _Step({"tool": call.tool, "args": call.args, "sha256": codes.pop() if len(codes) == 1 else None})


def _offers(call: AskedCall) -> Iterator[_Step]:
    place, argv, callee = place_of(call), argv_of(call), callee_of(call)
    if place is not None:
        yield _Step({"tool": call.tool, "path": place.path})
        path = PurePosixPath(place.path)
        for folder in _folders(path):
            if path.suffix:
                yield _Step({"tool": call.tool, "below": folder, "suffix": path.suffix})
            yield _Step({"tool": call.tool, "below": folder})
    elif argv is not None:
        yield from _offers_of_command(argv, call)
    elif callee is not None:
        yield from _offers_of_callee(callee, call)
    else:
        yield _exactly(call)


def _offers_of_command(argv: tuple[str, ...], call: AskedCall) -> Iterator[_Step]:
    yield _Step({"command": shlex.join(argv)})
    names = {one.path.rpartition("/")[2] for one in call.files}
    for number in reversed(range(1, len(argv))):
        word = argv[number]
        if fits_word("{number}", word):
            free = "{number}"
        elif "/" in word or word in names:
            free = "{path}"
        elif number > 1:
            free = "{name}"
        else:
            continue  # the first word is a subcommand more often than a name
        yield _Step({"command": _with_free(argv, number, free)})


def _offers_of_callee(callee: str, call: AskedCall) -> Iterator[_Step]:
    places = [place_in(call.tree, attachment.path) for attachment in call.attachments]
    if not places:
        yield _Step({"worker": callee})
    elif None not in places:
        paths = [PurePosixPath(place.path) for place in places if place is not None]
        for folder in _folders(paths[0]):
            if all(path.is_relative_to(folder) for path in paths):
                yield _Step({"worker": callee, "attachments": folder})


def _folders(path: PurePosixPath) -> list[str]:
    """Return the folders around a path, the nearest first, without the top: below it lies everything."""
    return [str(folder) for folder in path.parents if str(folder) != "/"]


def _steps(call: AskedCall) -> Iterator[_Step]:
    place, argv, callee = place_of(call), argv_of(call), callee_of(call)
    if place is not None:
        yield _Step({"tool": call.tool, "path": place.path})
        if (where := _in_folder(place.path)) is not None:
            yield _Step({"tool": call.tool, **where}, (place.path,), 1)
    elif argv is not None:
        yield from _steps_of_command(argv, call)
    elif callee is not None:
        yield from _steps_of_callee(callee, call)
    elif len(canonical(call.args)) <= _MAX_ARGS_CHARS:
        yield _exactly(call)


def _steps_of_command(argv: tuple[str, ...], call: AskedCall) -> Iterator[_Step]:
    yield _Step({"command": shlex.join(argv)})
    numbers = numbers_in(argv) or ()
    for number in range(1, len(argv)):
        word = argv[number]
        if fits_word("{number}", word):
            if number in numbers:
                yield _Step({"command": _with_free(argv, number, "{number}")}, (word,), 1)
            continue
        # A bare word may be the name of a task, a branch or a target: only what is surely a file's is freed.
        place = _place_of_word(call, word) if fits_word("{path}", word) else None
        if place is None or ("/" not in word and all(file.path != place.path for file in call.files)):
            continue
        where = _in_folder(place.path)
        if where is not None and may_free_file(argv, where["suffix"]):
            yield _Step({"command": _with_free(argv, number, "{path}"), **where}, (place.path,), 2)


def _place_of_word(call: AskedCall, word: str) -> Place | None:
    """Return the place that a word of a command names, as seen from the command's folder; None as in `place_in`."""
    return place_in(call.tree, f"{call.uses[0].payload.get('cwd')}/{word}")


def _steps_of_callee(callee: str, call: AskedCall) -> Iterator[_Step]:
    # The entry covers every task, so it takes different ones, as it takes different files.
    task = canonical({name: value for name, value in call.args.items() if name != "attachments"})
    places = [place_in(call.tree, attachment.path) for attachment in call.attachments]
    if not places:
        yield _Step({"worker": callee}, (task,), 1)
    elif len(places) == 1 and places[0] is not None and (where := _in_folder(places[0].path)) is not None:
        yield _Step({"worker": callee, **where}, (places[0].path, task), 1)


def _in_folder(path: str) -> dict[str, str] | None:
    """Return the keys of files like this one: in its folder, with its suffix; None for a name without a suffix, at the
    top of the tree, where everything lies, and in a hidden folder, where programs are configured (`.github`)."""
    pure = PurePosixPath(path)
    if not pure.suffix or str(pure.parent) == "/" or is_hidden(pure.parent):
        return None
    return {"folder": str(pure.parent), "suffix": pure.suffix}


def _with_free(argv: tuple[str, ...], number: int, free: str) -> str:
    return " ".join(free if at == number else shlex.quote(word) for at, word in enumerate(argv))


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
