"""Protection of the files that define a workshop: no file that a worker could write is used as a definition, or run.

The files are judged as they are each time, because they may change while a worker service runs; unchanged files are not
read again. A definition with mistakes still protects every file that can be read from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath

from llm_do_temporal.definitions.keys.files import WorkshopConfig
from llm_do_temporal.definitions.keys.toolsets import Toolsets
from llm_do_temporal.definitions.workers.instructions import has_mistakes, included_files, instruction_text
from llm_do_temporal.definitions.workers.places import (
    SHIPPED,
    SUFFIXES,
    WorkerPlace,
    content_of,
    known_names,
    may_be_workers,
    places_of,
)
from llm_do_temporal.definitions.workers.worker_file import (
    ParsedWorker,
    parse_template,
    read_worker,
    template_place,
)
from llm_do_temporal.definitions.workshop import parse_workshop
from llm_do_temporal.definitions.yaml.documents import (
    Problem,
    Unreadable,
    check_inside,
    label_of,
    places_on_the_way,
)
from llm_do_temporal.errors import DefinitionError, EffectFailed, WorkshopNotFound
from llm_do_temporal.policy.delegation import PACKAGE, TEMPLATE_SUFFIXES, matches
from llm_do_temporal.policy.files.protection import Protection, is_always_protected
from llm_do_temporal.workshop_search import WORKSHOP_FILE

PYTHON = "Python"
"""Use of a file that is run."""


def check_protected(path: Path, root: Path, what: str) -> None:
    """Raise Unreadable where a worker could write the file, by its own path or by a link on the way to it.

    `what` names the intended use in the message ("a definition", PYTHON). Python is run from no folder in which workers
    write, also where a definition names the file: a worker may have written it before.
    """
    if root == SHIPPED.resolve():
        return
    check_inside(path, root)
    named = {label_of(path, root), *places_on_the_way(label_of(path, root), root)}
    unsure = [one for one in named if not is_always_protected(one)]
    protection = protection_of(root) if unsure else Protection()
    if all(map(protection.protects_code if what == PYTHON else protection.protects, unsure)):
        return
    raise Unreadable(
        f"'{label_of(path, root)}' is not used as {what}: it is, or leads to, a file that workers may write; keep what "
        "defines apart from their files, and name it without links"
    )


def check_defining(place: WorkerPlace) -> None:
    """Raise DefinitionError for a definition that workers can write, by a link or because no rule protects it."""
    try:
        if place.path.exists():
            check_protected(place.path, place.root, "a definition")
    except Unreadable as error:
        raise DefinitionError(str(error), file=place.label) from error


def is_code_place(relative: str, root: Path) -> bool:
    """Return whether Python at `relative`, a path below `root`, is no worker's work."""
    return is_always_protected(relative) or protection_of(root).protects_code(relative)


MAX_LOOKED_AT = 50_000
"""Files below a folder among which templates are looked for. The `allow` lists of templates past it are not seen; a
file that such a list names is still protected where another definition names it, too."""
_WILDCARD = frozenset("*?[")
_WORD = re.compile(r"[^\s'\"`,;(){}<>|]{1,200}")
_BODY = re.compile(r"^---\s*$", re.MULTILINE)
_LIST = "[]"
_PROGRAM_SUFFIXES = ("", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".php", ".pl")
"""Endings that an interpreter tries for a program whose name it does not find."""


def protection_of(workshop: Path) -> Protection:
    """Return the protection of a workshop, as its files are now."""
    root = workshop.resolve()
    found = _named(root, tuple(_states(root)))
    # Where links lead, and what templates name, which may lie anywhere, is looked at each time.
    included = {one for path in found.included for one in (path, *places_on_the_way(path, root))}
    programs = {one for path in found.programs for one in _program(path, root)}
    templates = _closed_under_templates(root, found.templates) if found.templates else ()
    return replace(found, templates=templates, included=tuple(sorted(included)), programs=tuple(sorted(programs)))


@lru_cache(maxsize=16)
def _named(root: Path, _states: tuple[tuple[object, ...], ...]) -> Protection:
    """Return the protection that `workshop.yaml` and the workers ask for, for as long as their `_states` are equal."""
    workers = _workers(root)
    config, problems = WorkshopConfig(), list[Problem]()
    with suppress(WorkshopNotFound):
        workshop, problems, _ = parse_workshop(root)
        config = workshop.config
    made = config.creation_defaults.toolsets
    toolsets = [worker.definition.toolsets for worker in workers]
    # What a worker that is still to be made may call is a template before there is such a worker.
    toolsets += [] if made is None else [made]
    # Of a file with mistakes, whatever in it could be a name counts until they are mended.
    unclear = [worker.place for worker in workers if not worker.is_valid or has_mistakes(worker)]
    unclear += [] if not problems else [WorkerPlace("", root / WORKSHOP_FILE, root)]
    servers = [server for one in toolsets for server in (one.mcp or {}).values()]
    words, programs = set[str](), {word for server in servers for word in server.command or ()}
    for place in unclear:
        text = content_of(place.path, place.root).decode(errors="replace")
        head = _head(text, place)
        words |= _words(text, place)
        programs |= _words(head, place)
        # Some absolute paths may lead into the workshop.
        programs |= {word for found in _WORD.findall(head) if (word := found.strip(_LIST)).startswith("/")}
    globs = [glob for one in toolsets for glob in _globs(one)]
    return Protection(
        templates=tuple(dict.fromkeys([*globs, *sorted(words)])),
        included=tuple(sorted({*words, *(path for worker in workers for path in _included(worker))})),
        programs=tuple(sorted(programs)),
        shared=tuple(_shared(root, config, workers)),
    )


def _states(root: Path) -> Iterator[tuple[object, ...]]:
    """Yield the facts that differ once a file was changed, for each file that may be the workshop's or a worker's."""
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
    """Return every worker file that a name leads to, or would lead to if another file did not come first."""
    shipped = SHIPPED.resolve()
    known = known_names(root=root, shipped=shipped)
    workers = [read_worker(place) for name in known for place in places_of(name, root=root, shipped=shipped)]
    # Other programs keep YAML files there too; one that reads as a worker is one.
    others = [read_worker(WorkerPlace(path.stem, path, root)) for path in may_be_workers(root, known)]
    return [*workers, *(worker for worker in others if worker.is_valid)]


def _globs(toolsets: Toolsets) -> Iterator[str]:
    """Yield the names and globs of the workshop's templates that a worker with these toolsets may call."""
    options = toolsets.delegation_options
    rules = None if options is None else options.templates
    if rules is not None:
        named = (*rules.allow, *(() if rules.lock is None else (rules.lock,)))
        yield from (str(PurePosixPath(one)) for one in named if not one.startswith(PACKAGE))


def _program(word: str, root: Path) -> Iterator[str]:
    """Yield the paths in the workshop that a word of a command may name: a folder, or a program and its whole folder.

    A missing program is protected as well: by making it, a worker would write the code that the command runs.
    """
    for name in _names_in(word):
        with suppress(OSError, ValueError):
            # An absolute path may lie in the workshop as well.
            relative = os.path.relpath(root / name, root)
            if relative == "." or relative.startswith(".."):
                continue
            is_there, suffix = os.path.lexists(root / name), PurePosixPath(name).suffix
            # The value of an option is a program by its name only; else it is data, which others may lie beside.
            with_folder = is_there if name == word else is_there and suffix in _PROGRAM_SUFFIXES
            with_folder = with_folder or not (root / name).parent.exists()
            for more in ("",) if is_there or suffix else _PROGRAM_SUFFIXES:
                for one in places_on_the_way(f"{relative}{more}", root):
                    yield one
                    folder = PurePosixPath(one).parent
                    if with_folder and folder.parts and not (root / one).is_dir():
                        yield folder.as_posix()


def _names_in(word: str) -> Iterator[str]:
    """Yield the word, or the parts of an option that may name a file: `--require=lib/a.js`, `-rlib/a.js`."""
    if "\0" in word or not word:
        return
    if not word.startswith("-"):
        yield word
        return
    name, _, value = word.partition("=")
    glued = name[2:] if not name.startswith("--") else ""
    yield from (one for one in (value, glued, f"{glued}={value}" if glued and value else "") if one)


def _head(text: str, place: WorkerPlace) -> str:
    """Return the text before a worker's instructions; the whole text of a file that is only YAML."""
    if place.path.suffix != ".worker":
        return text
    rest = text[begin.end() :] if (begin := _BODY.match(text)) else text
    return rest[: end.start()] if (end := _BODY.search(rest)) else rest


def _words(text: str, place: WorkerPlace) -> set[str]:
    """Return every word that could be a path or a glob, as read from the file's own folder and from the root."""
    words: set[str] = set()
    for word in {name for found in _WORD.findall(text) for name in (found, found.strip(_LIST))}:
        pure = PurePosixPath(word)
        if set(word) & set("./*") and pure.parts and ".." not in pure.parts and not pure.is_absolute():
            words |= {pure.as_posix(), (PurePosixPath(place.relative).parent / pure).as_posix()}
    return words


def _included(worker: ParsedWorker) -> frozenset[str]:
    """Return the paths at which files that the worker's instructions include are looked for."""
    place = worker.place
    if place.shipped or place.generated:
        return frozenset()
    return included_files(instruction_text(worker))


def _closed_under_templates(root: Path, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the globs, and the globs in the templates that match them: a template may name others."""
    globs, waiting, seen = dict.fromkeys(named), list(named), set[str]()
    while waiting:
        for name in _matching(waiting.pop(), root):
            if name in seen:
                continue
            seen.add(name)
            with suppress(DefinitionError, EffectFailed):
                template = parse_template(template_place(name, root), name).parsed
                more = [glob for glob in _globs(template.definition.toolsets) if glob not in globs]
                globs |= dict.fromkeys(more)
                waiting += more
    return tuple(globs)


def _matching(glob: str, root: Path) -> Iterator[str]:
    """Yield the files that match a glob."""
    parts = PurePosixPath(glob).parts
    fixed = tuple(takewhile(lambda part: not _WILDCARD & set(part), parts))
    if fixed == parts:
        yield glob
        return
    below = (Path(parent, name) for parent, _folders, names in os.walk(root.joinpath(*fixed)) for name in names)
    for path in islice(below, MAX_LOOKED_AT):
        name = path.relative_to(root).as_posix()
        if name.endswith(TEMPLATE_SUFFIXES) and matches(name, glob):
            yield name


def _shared(root: Path, config: WorkshopConfig, workers: Iterable[ParsedWorker]) -> Iterator[str]:
    """Yield the folders in which workers may write, except the workshop itself."""
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
