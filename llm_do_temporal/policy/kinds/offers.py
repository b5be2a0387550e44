"""Kinds that a person is offered for a call, derived from the call itself: the most specific first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from pydantic import ValidationError

from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.callees import callee_of
from llm_do_temporal.policy.kinds.commands import argv_of, fits_word
from llm_do_temporal.policy.kinds.files import place_in, place_of
from llm_do_temporal.policy.kinds.kind import CallKind

MAX_OFFERED = 8


def kinds_of(call: AskedCall) -> tuple[CallKind, ...]:
    """Return the kinds that cover the call, at most MAX_OFFERED, the most specific first; none for a call that is
    always asked about by itself."""
    found: list[CallKind] = []
    for fields in _guesses(call):
        try:
            kind = CallKind.model_validate(fields)
        except ValidationError:
            continue
        if kind not in found and kind.covers(call):
            found.append(kind)
    return tuple(found[:MAX_OFFERED])


def _guesses(call: AskedCall) -> Iterator[dict[str, object]]:
    place, argv, callee = place_of(call), argv_of(call), callee_of(call)
    if place is not None:
        yield from _of_file(call.tool, PurePosixPath(place.path))
    elif argv is not None:
        yield from _of_command(argv, call)
    elif callee is not None:
        yield from _of_callee(callee, call)
    else:
        codes = {use.payload.get("sha256") for use in call.uses}
        yield {"tool": call.tool, "args": call.args, "sha256": codes.pop() if len(codes) == 1 else None}


def _of_file(tool: str, path: PurePosixPath) -> Iterator[dict[str, object]]:
    yield {"tool": tool, "path": str(path)}
    for folder in _folders(path):
        if path.suffix:
            yield {"tool": tool, "below": folder, "suffix": path.suffix}
        yield {"tool": tool, "below": folder}


def _of_command(argv: tuple[str, ...], call: AskedCall) -> Iterator[dict[str, object]]:
    yield {"command": shlex.join(argv)}
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
        yield {"command": " ".join([free if n == number else shlex.quote(one) for n, one in enumerate(argv)])}


def _of_callee(callee: str, call: AskedCall) -> Iterator[dict[str, object]]:
    places = [place_in(call.tree, attachment.path) for attachment in call.attachments]
    if not places:
        yield {"worker": callee}
    elif None not in places:
        paths = [PurePosixPath(place.path) for place in places if place is not None]
        common = [folder for folder in _folders(paths[0]) if all(path.is_relative_to(folder) for path in paths)]
        for folder in common:
            yield {"worker": callee, "attachments": folder}


def _folders(path: PurePosixPath) -> list[str]:
    """Return the folders around a path, the nearest first, without the top: below it lies everything."""
    return [str(folder) for folder in path.parents if str(folder) != "/"]
