"""Generalisations of one call: the kinds that a rule learned from it may have, the narrowest first.

Each step says what it frees: a number, or the name of a file in one folder with one suffix. Never free are folders,
programs, words that may be names of tasks or hosts, options, scripts and whatever `programs` knows to be dangerous.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.callees import callee_of
from llm_do_temporal.policy.kinds.commands import argv_of, fits_word
from llm_do_temporal.policy.kinds.files import place_in, place_of
from llm_do_temporal.policy.kinds.kind import CallKind
from llm_do_temporal.policy.programs import may_teach_freedom
from llm_do_temporal.policy.uses import canonical

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


def generalisations(call: AskedCall) -> tuple[Generalisation, ...]:
    """Return the kinds that a rule learned from the call may have, the narrowest first; none for a call that is
    always asked about by itself."""
    found: dict[str, Generalisation] = {}
    for step in _steps(call):
        try:
            kind = CallKind.model_validate(step.keys)
        except ValidationError:
            continue
        if kind.covers(call):
            found.setdefault(kind.key, Generalisation(kind, step.freed, step.breadth))
    return tuple(found.values())


def paths_of(call: AskedCall) -> list[str]:
    """Return the virtual paths of the files that a call is about: its own, or those that it hands over or names."""
    place = place_of(call)
    if place is not None:
        return [place.path]
    return [one.path for one in (*call.attachments, *call.files)]


def _steps(call: AskedCall) -> Iterator[_Step]:
    place, argv, callee = place_of(call), argv_of(call), callee_of(call)
    if place is not None:
        yield _Step({"tool": call.tool, "path": place.path})
        if (where := _in_folder(place.path)) is not None:
            yield _Step({"tool": call.tool, **where}, (place.path,), 1)
    elif argv is not None:
        yield from _of_command(argv, call)
    elif callee is not None:
        yield from _of_callee(callee, call)
    elif len(canonical(call.args)) <= _MAX_ARGS_CHARS:
        codes = {use.payload.get("sha256") for use in call.uses}
        yield _Step({"tool": call.tool, "args": call.args, "sha256": codes.pop() if len(codes) == 1 else None})


def _of_command(argv: tuple[str, ...], call: AskedCall) -> Iterator[_Step]:
    yield _Step({"command": shlex.join(argv)})
    cwd = call.uses[0].payload.get("cwd")
    for number in range(1, len(argv)):
        word = argv[number]
        if fits_word("{number}", word):
            if may_teach_freedom(argv, suffix=None):
                yield _Step({"command": _with_free(argv, number, "{number}")}, (word,), 1)
            continue
        # A bare word may be the name of a task, a branch or a target: only what is surely a file's is freed.
        place = place_in(call.tree, f"{cwd}/{word}") if fits_word("{path}", word) else None
        if place is None or ("/" not in word and all(file.path != place.path for file in call.files)):
            continue
        where = _in_folder(place.path)
        if where is not None and may_teach_freedom(argv, suffix=where["suffix"]):
            yield _Step({"command": _with_free(argv, number, "{path}"), **where}, (place.path,), 2)


def _of_callee(callee: str, call: AskedCall) -> Iterator[_Step]:
    places = [place_in(call.tree, attachment.path) for attachment in call.attachments]
    if not places:
        yield _Step({"worker": callee})
    elif len(places) == 1 and places[0] is not None and (where := _in_folder(places[0].path)) is not None:
        yield _Step({"worker": callee, **where}, (places[0].path,), 1)


def _in_folder(path: str) -> dict[str, str] | None:
    """Return the keys of files like this one: in its folder, with its suffix; None for a name without a suffix, and
    at the top of the tree, where everything lies."""
    pure = PurePosixPath(path)
    if not pure.suffix or str(pure.parent) == "/":
        return None
    return {"folder": str(pure.parent), "suffix": pure.suffix}


def _with_free(argv: tuple[str, ...], number: int, free: str) -> str:
    return " ".join(free if at == number else shlex.quote(word) for at, word in enumerate(argv))
