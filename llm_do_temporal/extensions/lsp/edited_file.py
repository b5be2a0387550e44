"""Files of definitions as an editor holds them: lines, places of keys and values, names, problems of their workshop.

No Python of the workshop is run: opening a folder must run nothing of it. Variables of the environment are never looked
at. Keys and values are known also in a text that is broken farther down.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.keys.toolsets import CustomOptions, DelegationOptions
from llm_do_temporal.definitions.models import listed_models
from llm_do_temporal.definitions.python_syntax import parse_python
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workers.places import (
    SUFFIXES,
    WorkerPlace,
    named_worker,
    own_candidates,
    tools_files,
)
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, parse_worker, read_worker, split_front_matter
from llm_do_temporal.definitions.workshop import Workshop, parse_workshop
from llm_do_temporal.definitions.yaml.documents import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_VALUES,
    KeyPath,
    Problem,
    Unreadable,
    decode,
    label_of,
    read_bytes,
    unsaved,
)
from llm_do_temporal.errors import DefinitionError, WorkshopNotFound
from llm_do_temporal.extension import definition_files
from llm_do_temporal.policy.approvals import DEFAULT_RULES
from llm_do_temporal.policy.models import OFFLINE_MODELS, OFFLINE_PROVIDER, PROVIDERS
from llm_do_temporal.workshop_search import WORKSHOP_FILE, search_upwards

Role = Literal["key", "value"]


@dataclass(frozen=True)
class TextPlace:
    """Place between two characters; both numbers count from 0, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True)
class Span:
    """Key, or single value, and where its text stands."""

    path: KeyPath
    """Path of the key itself, or of the value."""
    role: Role
    text: str
    start: int
    end: int
    """Offsets of its text; with the quotes, where it has any."""
    exact: tuple[int, int] | None
    """Offsets between which the text stands letter by letter; None where it is written in another way."""
    is_block: bool = False
    """Whether it is written below `|` or `>`."""

    def holds(self, offset: int) -> bool:
        """Return whether a place is within, or at either end."""
        return self.start <= offset <= self.end


class Offsets:
    """Offsets in a text, as lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        for line in text.split("\n")[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._size = len(text)

    def spot(self, offset: int) -> TextPlace:
        """Return the place of an offset."""
        line = bisect_right(self._starts, offset) - 1
        return TextPlace(line, offset - self._starts[line])

    def offset(self, spot: TextPlace) -> int:
        """Return the offset of a place; of one below the text, its end."""
        return self._size if spot.line >= len(self._starts) else min(self._starts[spot.line] + spot.column, self._size)


def spans(text: str) -> list[Span]:
    """Return the keys and single values of a document, as far down as it can be read."""
    return list(walk(text))


def walk(text: str) -> Iterator[Span]:
    """Yield the keys and single values of a document in order; ends at a mistake, and where it is too deep or long."""
    try:
        events = _events(text)
        for event in events:
            yield from _spans_of(event, events, text, (), "value")
    except (yaml.YAMLError, ValueError):
        return


def _events(text: str) -> Iterator[Any]:
    """Yield the parser's events one by one: nothing is built, and aliases are not followed."""
    for number, event in enumerate(cast("Iterator[Any]", yaml.parse(text, Loader=yaml.SafeLoader))):
        if number > MAX_VALUES:
            raise ValueError("too long")
        yield event


def _spans_of(event: Any, events: Iterator[Any], text: str, path: KeyPath, role: Role) -> Iterator[Span]:
    """Yield the keys and single values of the value that begins with an event, and take its other events."""
    if len(path) > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(event, yaml.ScalarEvent):
        yield _span(event, text, path, role)
    elif isinstance(event, yaml.SequenceStartEvent):
        for number in count():
            item = next(events)
            if isinstance(item, yaml.SequenceEndEvent):
                return
            yield from _spans_of(item, events, text, (*path, number), "value")
    elif isinstance(event, yaml.MappingStartEvent):
        while not isinstance(key := next(events), yaml.MappingEndEvent):
            # Keys and values as a key: no definition has any.
            inner = (*path, str(key.value) if isinstance(key, yaml.ScalarEvent) else "")
            yield from _spans_of(key, events, text, inner, "key")
            yield from _spans_of(next(events), events, text, inner, "value")


def _span(event: yaml.ScalarEvent, text: str, path: KeyPath, role: Role) -> Span:
    value = str(event.value)
    start, end = (int(cast("yaml.Mark", mark).index) for mark in (event.start_mark, event.end_mark))
    written = text[start:end]
    is_block = event.style in ("|", ">")
    if is_block:
        return Span(path, role, value, start, end, None, is_block=True)
    # An anchor, and a tag, stand before the text.
    for quote in ("", "'", '"'):
        whole = f"{quote}{value}{quote}"
        if value and written.endswith(whole):
            begin = end - len(whole)
            return Span(path, role, value, begin, end, (begin + len(quote), end - len(quote)))
    return Span(path, role, value, start, end, None)


_WORD = re.compile(r"[^\s\[\]{},\"'#]*$")
_REST = re.compile(r"[^\s\[\]{},\"'#:]*")
_MARK = "␟"
"""Sign in the place of the word; the sign for a separator, which no key has."""
_MAX_LINES = 2_000
"""Lines above the place that are looked at."""


@dataclass(frozen=True)
class Cursor:
    """Place in YAML that is being written."""

    around: KeyPath | None
    """Path of the keys and values of which a key may stand here; None where none may."""
    value: KeyPath | None
    """Path of the value that may stand here; None where none may."""
    word: str
    """Beginning of the word that is there already."""
    start: int
    end: int
    """Columns of the whole word, in characters."""
    has_colon: bool
    """Whether a colon comes behind the word."""


def cursor_at(lines: Sequence[str], spot: TextPlace) -> Cursor | None:
    """Return what may be written at a place; None where it is a comment, a long text, or cannot be told."""
    line = lines[spot.line] if spot.line < len(lines) else ""
    before, behind = line[: spot.column], line[spot.column :]
    found = _WORD.search(before)
    word = found.group() if found else ""
    start = len(before) - len(word)
    rest = _REST.match(behind)
    end = spot.column + (len(rest.group()) if rest else 0)
    above = _around(lines, spot.line, before)
    key = _path_of([*above, f"{before[:start]}{_MARK}: "], "key")
    value = _path_of([*above, f"{before[:start]}{_MARK}"], "value")
    if key is None and value is None:
        return None
    return Cursor(key, value, word, start, end, line[end:].lstrip().startswith(":"))


def _around(lines: Sequence[str], number: int, before: str) -> list[str]:
    """Return the lines that the line is inside of, from the outermost."""
    limit, is_item = _indent(before) if before.strip() else len(before), _is_item(before)
    found: list[str] = []
    for line in reversed(lines[max(number - _MAX_LINES, 0) : number]):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        here = _indent(line)
        # A list may stand as far left as its key.
        if here < limit or (here == limit and is_item and not _is_item(line)):
            found.append(line)
            limit, is_item = here, _is_item(line)
            if here == 0 and not is_item:
                break
    return found[::-1]


def _path_of(lines: Sequence[str], role: str) -> KeyPath | None:
    for span in walk("\n".join(lines)):
        if span.text == _MARK and span.role == role and not span.is_block:
            return span.path[:-1] if role == "key" else span.path
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_item(line: str) -> bool:
    return line.lstrip().startswith("- ") or line.strip() == "-"


MAX_LIVE_CHARS = 200_000
"""Longest YAML that is looked at while people type; a longer one is only checked."""
_LINE_END = re.compile(r"\r\n|\r|\n")
_INSTRUCTIONS = re.compile(r"^['\"]?instructions['\"]?\s*:", re.MULTILINE)


@dataclass(frozen=True)
class EditedFile:
    """File of definitions, with the text that an editor holds."""

    path: Path
    """Path with links followed."""
    root: Path
    """The workshop's folder; for a file outside any, its own folder."""
    kind: str
    """`worker`, `workshop`, or the kind of a capability's DefinitionFiles."""
    text: str
    """Text with plain newlines, whatever the editor's are."""
    in_workshop: bool = True

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines, without their ends; there is always one."""
        return tuple(self.text.split("\n"))

    @cached_property
    def offsets(self) -> Offsets:
        """Places of offsets in the part that is YAML."""
        return Offsets(self.front)

    @cached_property
    def spans(self) -> list[Span]:
        """The keys and single values of the part that is YAML; none of a text that is too long to look at live."""
        return spans(self.front) if len(self.front) <= MAX_LIVE_CHARS else []

    def span_at(self, spot: TextPlace) -> Span | None:
        """Return the key or value at a place; None where there is none."""
        offset = self.offsets.offset(spot)
        if self.offsets.spot(offset) != spot:
            return None
        return next((one for one in self.spans if one.holds(offset)), None)

    @cached_property
    def front(self) -> str:
        """The part that is YAML, its lines numbered as in the file."""
        return split_front_matter(self.text)[0] if self.path.suffix == ".worker" else self.text

    @property
    def body_line(self) -> int | None:
        """Line, from 0, on which a worker's instructions begin below its keys; None where there are none."""
        if self.path.suffix != ".worker":
            return None
        _, body, line = split_front_matter(self.text)
        return None if body is None else line - 1

    @property
    def label(self) -> str:
        """Path of the file below the root, as messages name it."""
        return self.path.relative_to(self.root).as_posix()

    @property
    def worker_place(self) -> WorkerPlace:
        """Place of the worker that the file defines."""
        return WorkerPlace(named_worker(self.path), self.path, self.root)

    def own_problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with a worker's file by itself, for one that no workshop knows."""
        if self.kind != "worker":
            return ()
        if len(self.text.encode("utf-8", "replace")) > MAX_FILE_BYTES:
            return (Problem(self.label, None, f"larger than {MAX_FILE_BYTES} bytes, the most a file may have"),)
        return parse_worker(self.text, self.worker_place, sha256="").problems


def edited_file(path: Path, text: str) -> EditedFile | None:
    """Return the file of definitions at a path, with this text; None for a file that is none of ours."""
    plain = plain_lines(text)
    real = path.parent.resolve() / path.name
    real = real.resolve() if real.exists() else real
    try:
        root, inside = search_upwards(real.parent), True
    except WorkshopNotFound:
        root, inside = real.parent, False
    kind = _kind_of(real, root, plain)
    return None if kind is None else EditedFile(real, root, kind, plain, inside)


def plain_lines(text: str) -> str:
    """Return the text with a newline at the end of each line, as definitions are read; without a byte order mark."""
    return _LINE_END.sub("\n", text.removeprefix("\ufeff"))


def held_bytes(sources: Mapping[Path, EditedFile]) -> dict[Path, bytes]:
    """Return what counts in place of the files: the bytes of each text that UTF-8 can write."""
    return {path: one.text.encode("utf-8", "surrogatepass") for path, one in sources.items()}


def _kind_of(path: Path, root: Path, text: str) -> str | None:
    if path.name == WORKSHOP_FILE:
        return "workshop"
    for files in definition_files():
        if path.name.endswith(files.suffix):
            return files.kind
    if path.suffix == ".worker":
        return "worker"
    label = path.relative_to(root).as_posix()
    if path.suffix not in SUFFIXES or label not in own_candidates(named_worker(path)):
        return None
    return "worker" if "/" in label or _INSTRUCTIONS.search(text) else None


def find_problems(root: Path, held: Mapping[Path, EditedFile]) -> list[Problem]:
    """Return the problems of a workshop; `held` are the open texts, by their real paths."""
    with unsaved(held_bytes(held)):
        found = check_workshop(root, run_python=False)
    ours = [one for one in held.values() if one.root == root]
    new = (problem for one in ours if not one.path.exists() for problem in one.own_problems())
    return [*found, *new, *(problem for one in ours for problem in _saved_otherwise(one))]


def _saved_otherwise(file: EditedFile) -> Iterator[Problem]:
    """Yield what is wrong with a file whose text an editor can show, and nobody else can read."""
    try:
        saved = read_bytes(file.path, file.root)
    except Unreadable:
        return
    try:
        decode(saved, file.label)
    except Unreadable as error:
        yield Problem(file.label, None, str(error), next_step="Save it as UTF-8.")


def saved_lines(file: str, root: Path) -> Sequence[str]:
    """Return the lines of a file of the workshop, as it is on disk; none of one that the workshop may not read."""
    try:
        return plain_lines(read_bytes(root / file, root).decode("utf-8", "replace")).split("\n")
    except (Unreadable, ValueError):
        return ()


NameKind = Literal["worker", "model", "capability", "function", "class"]
Pattern = tuple[str, ...]
ANY = "*"
"""Stands for any one key or number of a path."""
_CREATED = "creation_defaults"
_DELEGATION: Pattern = ("toolsets", "delegation")
_CUSTOM: Pattern = ("toolsets", "custom")
_KEYS: tuple[tuple[str, Pattern, NameKind], ...] = (
    ("worker", (*_DELEGATION, ANY), "worker"),
    ("worker", (*_CUSTOM, ANY), "function"),
    ("workshop", ("approvals", "rules", ANY), "capability"),
)
_VALUES: tuple[tuple[str, Pattern, NameKind], ...] = (
    ("worker", ("name",), "worker"),
    ("worker", ("model",), "model"),
    ("worker", ("model", ANY), "model"),
    ("worker", ("compatible_models", ANY), "model"),
    ("worker", ("output_schema_ref",), "class"),
    ("worker", ("schema_in_ref",), "class"),
    ("worker", (*_DELEGATION, "allow_workers", ANY), "worker"),
    ("worker", (*_CUSTOM, ANY, "capabilities", ANY), "capability"),
    ("worker", ("toolsets", ANY, "capabilities", ANY), "capability"),
    ("worker", ("toolsets", "mcp", ANY, "capabilities", ANY), "capability"),
    ("workshop", ("model",), "model"),
    ("workshop", ("model", ANY), "model"),
    ("workshop", ("models", ANY), "model"),
    ("workshop", ("models", ANY, ANY), "model"),
    ("workshop", ("models", ANY, "model"), "model"),
    ("workshop", ("approvals", "allow", ANY, "worker"), "worker"),
    ("workshop", ("approvals", "allow", ANY, "callers", ANY), "worker"),
    ("workshop", ("views", ANY, "worker"), "worker"),
)
_OWN_KEYS: dict[Pattern, frozenset[str]] = {
    _DELEGATION: frozenset(DelegationOptions.model_fields),
    _CUSTOM: frozenset(CustomOptions.model_fields),
}
"""Keys that stand among names and are none."""


def name_kind(kind: str, path: KeyPath, role: Role) -> NameKind | None:
    """Return the kind of name that stands at a path; None for a place of something else."""
    if kind == "workshop" and path[:1] == (_CREATED,):
        kind, path = "worker", path[1:]
    if role == "key" and path and path[-1] in _OWN_KEYS.get(tuple(str(one) for one in path[:-1]), ()):
        return None
    for files in definition_files():
        if files.kind == kind:
            return cast("NameKind | None", files.name_kind(path)) if role == "value" else None
    table = _KEYS if role == "key" else _VALUES
    return next((name for where, pattern, name in table if where == kind and _fits(path, pattern)), None)


def _fits(path: KeyPath, pattern: Pattern) -> bool:
    return len(path) == len(pattern) and all(want in (ANY, part) for part, want in zip(path, pattern, strict=True))


_MAX_MODULES = 200
_WORDS: dict[type[ast.stmt], str] = {
    ast.ClassDef: "class ",
    ast.FunctionDef: "def ",
    ast.AsyncFunctionDef: "async def ",
}
"""Words before a name."""


@dataclass(frozen=True)
class PythonName:
    """Function or class at the top of a Python file."""

    name: str
    path: Path
    line: int
    """Line, from 0."""
    column: int
    description: str


class WorkshopNames:
    """Names that may be written into one file, found when they are asked for."""

    def __init__(self, file: EditedFile) -> None:
        self._file = file

    @cached_property
    def workshop(self) -> Workshop | None:
        """The file's workshop, without what is wrong in it; None for a file outside any."""
        return parse_workshop(self._file.root)[0] if self._file.in_workshop else None

    @cached_property
    def registry(self) -> Registry | None:
        """The workshop's workers; None for a file outside any."""
        return None if self.workshop is None else Registry(self.workshop)

    @cached_property
    def workers(self) -> list[str]:
        """Names of all workers that can be called."""
        return [] if self.registry is None else self.registry.names()

    def worker(self, name: str) -> ParsedWorker | None:
        """Return the worker of a name; None where there is none."""
        try:
            return None if self.registry is None else read_worker(self.registry.place_of(name))
        except DefinitionError:
            return None

    def models(self, word: str) -> list[str]:
        """Return aliases, and models that begin like the word."""
        aliases = [] if self.workshop is None else list(self.workshop.config.models)
        provider, colon, _ = word.partition(":")
        if not colon:
            return [*aliases, *(f"{one}:" for one in sorted(PROVIDERS)), *_offline()]
        return [*aliases, *(_offline() if provider == OFFLINE_PROVIDER else listed_models(provider))]

    @cached_property
    def capabilities(self) -> list[str]:
        """Capabilities that tools have, or that the workers give to theirs."""
        found = set(DEFAULT_RULES)
        for name in self.workers:
            worker = self.worker(name)
            found |= set() if worker is None else worker.definition.toolsets.named_capabilities
        return sorted(found)

    @cached_property
    def functions(self) -> list[PythonName]:
        """Functions of the `tools.py` files of a worker's file, the nearest one of each name."""
        place = self._file.worker_place
        found: dict[str, PythonName] = {}
        for path in tools_files(place):
            for one in python_names(path, place.root, ast.FunctionDef):
                if not one.name.startswith("_"):
                    found.setdefault(one.name, one)
        return list(found.values())

    @cached_property
    def classes(self) -> dict[str, PythonName]:
        """Classes of Python files beside the worker and in the workshop, by the reference that names each."""
        place = self._file.worker_place
        found: dict[str, PythonName] = {}
        for folder in dict.fromkeys((place.folder, place.root)):
            for path in sorted(folder.glob("*.py"))[:_MAX_MODULES]:
                for one in python_names(path, place.root, ast.ClassDef):
                    found.setdefault(f"{path.name}:{one.name}", one)
        return found

    def class_of(self, reference: str) -> PythonName | None:
        """Return the class that `file.py:Class` names; None for one that its file's text does not have."""
        file, colon, name = reference.rpartition(":")
        place = self._file.worker_place
        if not colon or Path(file).is_absolute() or ".." in Path(file).parts or "\0" in file:
            return None
        for folder in (place.folder, place.root):
            if (folder / file).is_file():
                return next(
                    (one for one in python_names(folder / file, place.root, ast.ClassDef) if one.name == name), None
                )
        return None


def python_names(path: Path, root: Path, kind: type[ast.ClassDef] | type[ast.FunctionDef]) -> Iterator[PythonName]:
    """Yield the functions, or the classes, at the top of a Python file; none of one that cannot be read."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef) if kind is ast.FunctionDef else (ast.ClassDef,)
    try:
        tree = parse_python(decode(read_bytes(path, root), label_of(path, root)))
    except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        if isinstance(node, kinds):
            column = node.col_offset + len(_WORDS[type(node)])
            yield PythonName(node.name, path, node.lineno - 1, column, ast.get_docstring(node) or "")


def _offline() -> list[str]:
    return [f"{OFFLINE_PROVIDER}:{name}" for name in OFFLINE_MODELS]
