"""Which files of a workshop define: what its definitions name, for `Protection` to hold.

Judged by the files as they are each time, as these may change while a worker service runs. Those that have not
changed since are not read again. A definition with mistakes still protects what can be read of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path, PurePosixPath

from llm_do_temporal.definitions.formats import Toolsets, WorkshopConfig
from llm_do_temporal.definitions.instructions import has_mistakes, included_files, instruction_text
from llm_do_temporal.definitions.places import SHIPPED, SUFFIXES, known_names, places_of
from llm_do_temporal.definitions.templates import read_template
from llm_do_temporal.definitions.text_files import Unreadable, places_on_the_way, read_bytes
from llm_do_temporal.definitions.worker_file import ParsedWorker, read_worker
from llm_do_temporal.definitions.workshop import parse_workshop
from llm_do_temporal.errors import DefinitionError, EffectFailed, WorkshopNotFound
from llm_do_temporal.policy.protection import Protection
from llm_do_temporal.policy.templates import PACKAGE, TEMPLATE_SUFFIXES, matches

MAX_LOOKED_AT = 50_000
"""Files below one folder among which templates are looked for. Past it their own `allow` is not seen, and
what it names is protected all the same where one that was seen names it."""
_WILDCARD = frozenset("*?[")
_WORD = re.compile(r"[^\s'\"`,;(){}<>|]{1,200}")


def protection_of(workshop: Path) -> Protection:
    """What is protected in a workshop as its files are now."""
    root = workshop.resolve()
    found = _named(root, tuple(_states(root)))
    # Where links lead, and what templates name, which may lie anywhere, is looked at each time.
    included = {one for path in found.included for one in (path, *places_on_the_way(path, root))}
    programs = {one for path in found.programs for one in _program(path, root)}
    templates = _closed_under_templates(root, found.templates) if found.templates else ()
    return replace(found, templates=templates, included=tuple(sorted(included)), programs=tuple(sorted(programs)))


@lru_cache(maxsize=16)
def _named(root: Path, _states: tuple[tuple[object, ...], ...]) -> Protection:
    """What the workshop's file and its workers name, for as long as these files are as they were."""
    workers = _workers(root)
    made = _config(root).creation_defaults.toolsets
    toolsets = [worker.definition.toolsets for worker in workers]
    # What a worker that is still to be made may call is a template before there is such a worker.
    toolsets += [] if made is None else [made]
    # Of a file with mistakes, whatever in it could be a name counts until they are mended.
    unclear = [worker for worker in workers if not worker.is_valid or has_mistakes(worker)]
    words = {word for worker in unclear for word in _words(worker)}
    globs = [glob for one in toolsets for glob in _globs(one)]
    return Protection(
        templates=tuple(dict.fromkeys([*globs, *sorted(words)])),
        included=tuple(sorted({*words, *(path for worker in workers for path in _included(worker))})),
        programs=tuple(sorted({word for one in toolsets for word in _commands(one)})),
        shared=tuple(_shared(root, workers)),
    )


def _states(root: Path) -> Iterator[tuple[object, ...]]:
    """What tells a changed file from an unchanged one, for each that may be the workshop's or a worker's."""
    workers = root / "workers"
    inner = [Path(entry.path) for entry in _entries(workers) if entry.is_dir()]
    for folder in (root, workers, *inner):
        for entry in _entries(folder):
            if entry.name.endswith(SUFFIXES):
                with suppress(OSError):
                    facts = entry.stat()
                    yield entry.path, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _workers(root: Path) -> list[ParsedWorker]:
    """Every worker file that a name leads to, or would lead to if others were not before it."""
    shipped = SHIPPED.resolve()
    return [
        read_worker(place)
        for name in known_names(root=root, shipped=shipped)
        for place in places_of(name, root=root, shipped=shipped)
    ]


def _globs(toolsets: Toolsets) -> Iterator[str]:
    """What a worker with these toolsets calls templates by, below the workshop."""
    options = toolsets.delegation_options
    rules = None if options is None else options.templates
    if rules is not None:
        named = (*rules.allow, *(() if rules.lock is None else (rules.lock,)))
        yield from (str(PurePosixPath(one)) for one in named if not one.startswith(PACKAGE))


def _commands(toolsets: Toolsets) -> Iterator[str]:
    """The words of commands that start MCP servers."""
    for server in (toolsets.mcp or {}).values():
        yield from server.command or ()


def _program(word: str, root: Path) -> Iterator[str]:
    """What of the workshop a word of a command names: a folder, or a program with all that lies beside it."""
    path = root / word
    with suppress(OSError, ValueError):
        if "\0" in word or word.startswith("-") or not os.path.lexists(path):
            return
        # An absolute path may lie in the workshop as well.
        if (relative := os.path.relpath(path, root)).startswith(".."):
            return
        for one in places_on_the_way(relative, root):
            yield one
            folder = PurePosixPath(one).parent
            if folder.parts and not (root / one).is_dir():
                yield folder.as_posix()


def _words(worker: ParsedWorker) -> Iterator[str]:
    """Whatever could be the name of a file, or a glob, in the file of a worker: from its folder and from the root."""
    place = worker.place
    try:
        text = read_bytes(place.path, place.root).decode(errors="replace")
    except Unreadable:
        return
    for word in set(_WORD.findall(text)):
        pure = PurePosixPath(word)
        if set(word) & set("./*") and pure.parts and ".." not in pure.parts and not pure.is_absolute():
            yield pure.as_posix()
            yield (PurePosixPath(place.relative).parent / pure).as_posix()


def _included(worker: ParsedWorker) -> frozenset[str]:
    """Where the files are looked for that the worker's instructions include."""
    place = worker.place
    if place.shipped or place.generated:
        return frozenset()
    return included_files(instruction_text(worker))


def _closed_under_templates(root: Path, named: tuple[str, ...]) -> tuple[str, ...]:
    """The globs, and those of the templates that they stand for: a template may name others."""
    globs, waiting, seen = dict.fromkeys(named), list(named), set[str]()
    while waiting:
        for name in _matching(waiting.pop(), root):
            if name in seen:
                continue
            seen.add(name)
            try:
                more = [glob for glob in _globs(read_template(name, root).definition.toolsets) if glob not in globs]
            except (DefinitionError, EffectFailed):
                continue
            globs |= dict.fromkeys(more)
            waiting += more
    return tuple(globs)


def _matching(glob: str, root: Path) -> Iterator[str]:
    """The files that a glob stands for."""
    parts = PurePosixPath(glob).parts
    fixed = tuple(takewhile(lambda part: not _WILDCARD & set(part), parts))
    if fixed == parts:
        yield glob
        return
    start = root.joinpath(*fixed)
    for looked_at, path in enumerate(_files_below(start)):
        if looked_at >= MAX_LOOKED_AT:
            return
        name = path.relative_to(root).as_posix()
        if name.endswith(TEMPLATE_SUFFIXES) and matches(name, glob):
            yield name


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, _folders, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _shared(root: Path, workers: Iterable[ParsedWorker]) -> Iterator[str]:
    """The folders that are for what workers write, other than the workshop itself."""
    config = _config(root)
    if config.sandbox is not None:
        roots = [] if config.sandbox.readonly else [config.sandbox.root]
    else:
        sandboxes = [worker.definition.sandbox for worker in workers if not worker.place.shipped]
        named = [one for sandbox in sandboxes if sandbox is not None for one in (sandbox.paths or {}).values()]
        roots = [one.root for one in named if one.mode == "rw"]
    for one in dict.fromkeys(roots):
        real = (root / one).resolve()
        if real != root and real.is_relative_to(root):
            yield real.relative_to(root).as_posix()


def _config(root: Path) -> WorkshopConfig:
    try:
        return parse_workshop(root)[0].config
    except WorkshopNotFound:
        return WorkshopConfig()
