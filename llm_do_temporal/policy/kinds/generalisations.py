"""Kinds that are derived from calls: those that a person is offered for a call, and those that a rule may have.

The narrowest comes first: the file itself before others in its folder, the word itself before a number or a path. Never
free are folders, programs, words that may be names of tasks or hosts, options, scripts and whatever `programs` knows to
be dangerous.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

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
from llm_do_temporal.policy.programs import may_free_file, numbers_in
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
