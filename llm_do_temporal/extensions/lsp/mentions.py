"""Mentions of workers in the files of a workshop, and the plan of giving a worker another name.

Pure but for reading: the editor writes. A rename is refused where it cannot be done whole. Texts of instructions are
changed where the name can be no ordinary word.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from llm_do_temporal.definitions.python_syntax import parse_python
from llm_do_temporal.definitions.registry.registry import named_templates
from llm_do_temporal.definitions.workers.places import (
    SHIPPED,
    SUFFIXES,
    WorkerPlace,
    known_names,
    named_worker,
    places_of,
)
from llm_do_temporal.definitions.workers.worker_file import read_worker
from llm_do_temporal.definitions.yaml.documents import (
    KeyPath,
    Missing,
    Unreadable,
    decode,
    label_of,
    parse_yaml,
    read_bytes,
)
from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.extension import definition_files
from llm_do_temporal.extensions.lsp.edited_file import (
    EditedFile,
    PythonName,
    Span,
    TextPlace,
    WorkshopNames,
    name_kind,
    plain_lines,
)
from llm_do_temporal.policy.delegation import check_name
from llm_do_temporal.workshop_search import WORKSHOP_FILE


@dataclass(frozen=True)
class Mention:
    """Mention of a worker."""

    file: EditedFile
    span: Span
    start: int | None
    """Offset of the name in the part that is YAML; None where it is not written letter by letter."""


def workshop_files(root: Path, held: Mapping[Path, EditedFile]) -> tuple[list[EditedFile], list[str]]:
    """Return all files of definitions of a workshop, open ones as they are held, and those that cannot be read."""
    names = known_names(root=root, shipped=SHIPPED)
    places = [place for name in names for place in places_of(name, root=root, shipped=SHIPPED) if not place.shipped]
    templates = named_templates([read_worker(place) for place in places], root)[0]
    paths: dict[Path, str] = {root / WORKSHOP_FILE: "workshop"}
    paths |= {place.path: "worker" for place in (*places, *(one.place for one in templates))}
    for files in definition_files():
        paths |= dict.fromkeys(files.find(root), files.kind)
    found: list[EditedFile] = []
    unreadable: list[str] = []
    for path, kind in paths.items():
        try:
            found.append(held.get(path.resolve()) or _read(path, root, kind))
        except Unreadable:
            unreadable.append(label_of(path, root))
    return found, unreadable


def mentions_of(worker: str, file: EditedFile) -> Iterator[Mention]:
    """Yield the mentions of a worker in a file, in order."""
    word = re.compile(rf"(?<![\w-]){re.escape(worker)}(?!\w|-[A-Za-z_])")
    texts = _tool_texts(worker, file)
    for span in file.spans:
        if span.text == worker and name_kind(file.kind, span.path, span.role) == "worker":
            yield Mention(file, span, None if span.exact is None else span.exact[0])
        elif worker in span.text and span in texts:
            written = file.front[span.start : span.end]
            found = [span.start + one.start() for one in word.finditer(written)]
            if word.search(span.text):
                yield from (Mention(file, span, start) for start in found) if found else [Mention(file, span, None)]


def _tool_texts(worker: str, file: EditedFile) -> Collection[Span]:
    """Return the texts with names of tools, of callers or of metrics in them, some of which may be workers."""
    for files in definition_files():
        if files.kind == file.kind:
            return files.tool_texts(worker, file.spans)
    return [one for one in file.spans if file.kind == "workshop" and _names_a_tool(one.path)]


def _names_a_tool(path: KeyPath) -> bool:
    return path[:2] == ("approvals", "allow") and len(path) > 3 and path[3] in ("match", "not_match", "tool")


def _read(path: Path, root: Path, kind: str) -> EditedFile:
    text = decode(read_bytes(path, root), label_of(path, root))
    return EditedFile(path, root, kind, plain_lines(text))


_OF_ITSELF = (("name",), ("description",))
"""Keys of a worker's file that stand for the worker, which need not have its name in it."""


def worker_at(file: EditedFile, spot: TextPlace) -> tuple[str, Span] | None:
    """Return the worker that is meant at a place, named there or because it is its own file; None where none is."""
    span = file.span_at(spot)
    if span is None:
        return None
    if file.kind == "worker" and span.path in _OF_ITSELF:
        return named_worker(file.path), span
    if name_kind(file.kind, span.path, span.role) == "worker" and span.text != "*":
        return span.text, span
    return None


def target_at(file: EditedFile, spot: TextPlace, names: WorkshopNames) -> tuple[Path, TextPlace] | None:
    """Return the place that a name leads to; None where there is none."""
    span = file.span_at(spot)
    kind = None if span is None else name_kind(file.kind, span.path, span.role)
    if span is None or kind is None:
        return None
    match kind:
        case "worker":
            worker = names.worker(span.text)
            return None if worker is None else (worker.place.path, TextPlace(0, 0))
        case "function":
            return _python(next((one for one in names.functions if one.name == span.text), None))
        case "class":
            return _python(names.class_of(span.text))
        case "model":
            return _in_workshop(names, ("models", span.text))
        case "capability":
            return _in_workshop(names, ("approvals", "rules", span.text))


def _python(found: PythonName | None) -> tuple[Path, TextPlace] | None:
    return None if found is None else (found.path, TextPlace(found.line, found.column))


def _in_workshop(names: WorkshopNames, path: KeyPath) -> tuple[Path, TextPlace] | None:
    """Return the line of a key of `workshop.yaml`."""
    if names.workshop is None:
        return None
    root = names.workshop.root
    try:
        text = decode(read_bytes(root / WORKSHOP_FILE, root), WORKSHOP_FILE)
    except Unreadable:
        return None
    line = parse_yaml(text, file=WORKSHOP_FILE)[0].lines.get(path)
    return None if line is None else (root / WORKSHOP_FILE, TextPlace(line - 1, 0))


_DISTINCT = re.compile(r"[_\d-]")
_CALLERS = ("call_worker", "call_tool", "run_worker", "StartRunInput", "Start")
"""Functions and classes to which Python gives a worker's name."""
_MAX_MODULES = 500
_MAX_FILES = 20_000
_WORKERS = "workers"


@dataclass(frozen=True)
class NameEdit:
    """Place of a name in a file, which the new name takes."""

    file: EditedFile
    start: TextPlace
    end: TextPlace


@dataclass(frozen=True)
class WorkerRename:
    """Changes that a new name of a worker takes."""

    name: str
    edits: tuple[NameEdit, ...]
    moves: tuple[tuple[Path, Path], ...]
    """Files and folders, each with its new path."""
    left: tuple[str, ...]
    """Texts that have the old name as a word, and stay as they are."""


def plan_rename(worker: str, new: str, root: Path, held: Mapping[Path, EditedFile]) -> WorkerRename:
    """Return what it takes to call a worker `new`. Raises UsageError, with the reason, where it is not done whole."""
    place = _renamed_place(worker, new, root)
    files, unreadable = workshop_files(root, held)
    if unreadable:
        raise UsageError(f"'{unreadable[0]}' cannot be read, so mentions of '{worker}' in it are not known")
    for file in files:
        _, problems = parse_yaml(file.front, file=file.label)
        if problems:
            raise UsageError(
                f"{problems[0]}; mentions of '{worker}' in a file with such a mistake are not known",
                next_step="Mend it first.",
            )
        if file.front.strip() and not file.spans:
            raise UsageError(f"'{file.label}' is too long, so mentions of '{worker}' in it are not known")
    _check_python(worker, root)
    found = [mention for file in files for mention in mentions_of(worker, file)]
    edits = [_edit(mention, len(worker)) for mention in found]
    for file in files:
        _check_whole(file, [one for one in edits if one.file is file], worker, new)
    texts = list(_texts(worker, files))
    if _DISTINCT.search(worker):
        return WorkerRename(new, (*edits, *texts), tuple(_moves(place, new)), ())
    left = dict.fromkeys(f"{one.file.label}:{one.start.line + 1}" for one in texts)
    return WorkerRename(new, tuple(edits), tuple(_moves(place, new)), tuple(left))


def _renamed_place(worker: str, new: str, root: Path) -> WorkerPlace:
    try:
        check_name(new)
    except DefinitionError as error:
        raise UsageError(error.problem) from error
    places = places_of(worker, root=root, shipped=SHIPPED)
    own = [place for place in places if not place.shipped]
    if not own:
        where = "it comes with the package" if places else "no file of this workshop defines it"
        raise UsageError(f"the worker '{worker}' cannot be renamed: {where}")
    if len(own) > 1:
        raise UsageError(f"'{own[0].label}' and '{own[1].label}' both define '{worker}'; take one of them away first")
    if new in known_names(root=root, shipped=SHIPPED):
        raise UsageError(f"there is a worker '{new}' already")
    for path in (own[0].path, *own[0].path.parents):
        if path == root:
            break
        if path.is_symlink():
            raise UsageError(f"'{label_of(path, root)}' is a link, and links are not renamed")
    taken = [after for _, after in _moves(own[0], new) if after.exists() or after.is_symlink()]
    if taken:
        raise UsageError(f"'{label_of(taken[0], root)}' is there already")
    return own[0]


def _moves(place: WorkerPlace, new: str) -> Iterator[tuple[Path, Path]]:
    """Yield the worker's file and its folder, each with its new path."""
    folder = place.root / _WORKERS / place.name
    if place.path.stem == place.name:
        yield place.path, place.path.with_name(f"{new}{place.path.suffix}")
    else:
        folder = place.path.parent
    if folder.is_dir():
        yield folder, folder.with_name(new)


def _check_python(worker: str, root: Path) -> None:
    """Raise UsageError where Python of the workshop calls the worker by its name, or may: no Python is changed."""
    parsed = 0
    for number, path in enumerate(_python_files(root)):
        label = label_of(path, root)
        unknown = f"so calls of '{worker}' in it are not known"
        try:
            text = read_bytes(path, root)
        except Missing:
            continue
        except Unreadable as error:
            raise UsageError(f"{error}, {unknown}") from error
        if number >= _MAX_FILES or (parsed >= _MAX_MODULES and worker.encode() in text):
            raise UsageError(f"'{label}' is one Python file too many to look into, {unknown}")
        if parsed >= _MAX_MODULES or not any(one.encode() in text for one in _CALLERS):
            continue
        parsed += 1
        try:
            tree = parse_python(text)
            calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node) in _CALLERS)
            given = ((call, part) for call in calls for one in _given(call) for part in ast.walk(one))
            line = next((call.lineno for call, part in given if _names(part, worker)), None)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if worker.encode() not in text:
                continue
            raise UsageError(f"'{label}' is no valid Python, {unknown}", next_step="Mend it first.") from error
        if line is not None:
            raise UsageError(
                f"{label}:{line} names '{worker}', and Python is not changed", next_step="Change it first."
            )


def _python_files(root: Path) -> Iterator[Path]:
    """Yield the Python files of a workshop; none of hidden folders, and none of a virtual environment."""
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(one for one in inner if one[0] != "." and not (Path(folder) / one / "pyvenv.cfg").exists())
        yield from (Path(folder) / one for one in sorted(files) if one.endswith(".py") and one[0] != ".")


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _given(call: ast.Call) -> Iterable[ast.expr]:
    return [*call.args, *(one.value for one in call.keywords)]


def _names(node: ast.AST, worker: str) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return node.value == worker or (
        node.value.endswith(SUFFIXES)
        and worker in (PurePosixPath(node.value).stem, PurePosixPath(node.value).parent.name)
    )


def _edit(mention: Mention, length: int) -> NameEdit:
    file, start = mention.file, mention.start
    if start is None:
        line = file.offsets.spot(mention.span.start).line + 1
        raise UsageError(
            f"{file.label}:{line} names '{mention.span.text[:80]}' in a way that cannot be changed in place"
        )
    return NameEdit(file, file.offsets.spot(start), file.offsets.spot(start + length))


def _check_whole(file: EditedFile, edits: Sequence[NameEdit], worker: str, new: str) -> None:
    """Raise UsageError where a file would still name the worker, by an alias of YAML for example."""
    lines = file.front.split("\n")
    for edit in sorted(edits, key=lambda one: (one.start.line, one.start.column), reverse=True):
        line = lines[edit.start.line]
        lines[edit.start.line] = f"{line[: edit.start.column]}{new}{line[edit.end.column :]}"
    document, problems = parse_yaml("\n".join(lines), file=file.label)
    if problems or worker in _named_workers(document.value, (), file.kind):
        raise UsageError(f"'{file.label}' names '{worker}' in a way that cannot be changed in place")


def _named_workers(value: Any, path: KeyPath, kind: str) -> Iterator[str]:
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        inner = enumerate(cast("list[Any]", value))
    elif isinstance(value, str) and name_kind(kind, path, "value") == "worker":
        yield value
    for key, one in inner:
        if isinstance(key, str) and name_kind(kind, (*path, key), "key") == "worker":
            yield key
        yield from _named_workers(one, (*path, key), kind)


def _texts(worker: str, files: Sequence[EditedFile]) -> Iterator[NameEdit]:
    """Yield the places of the name in texts of instructions."""
    word = re.compile(rf"(?<![\w-]){re.escape(worker)}(?![\w-])")
    for file in files:
        for number in _text_lines(file):
            for one in word.finditer(file.lines[number]):
                yield NameEdit(file, TextPlace(number, one.start()), TextPlace(number, one.end()))


def _text_lines(file: EditedFile) -> Iterable[int]:
    """Return the lines, from 0, on which only a worker's instructions stand."""
    if file.kind != "worker":
        return ()
    if file.body_line is not None:
        return range(file.body_line, len(file.lines))
    block = next((one for one in file.spans if one.path == ("instructions",) and one.is_block), None)
    if block is None:
        return ()
    first = file.offsets.spot(block.start).line + 1
    return range(first, first + file.front[block.start : block.end].rstrip().count("\n"))
