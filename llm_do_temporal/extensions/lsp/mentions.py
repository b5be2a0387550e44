"""Mentions of workers in the files of a workshop, and the places that a name leads to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.definitions.registry.registry import named_templates
from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX, SHIPPED, known_names, named_worker, places_of
from llm_do_temporal.definitions.workers.worker_file import read_worker
from llm_do_temporal.definitions.yaml.documents import KeyPath, Unreadable, decode, label_of, parse_yaml, read_bytes
from llm_do_temporal.extension import definition_files
from llm_do_temporal.extensions.lsp.edited_file import EditedFile, plain_lines
from llm_do_temporal.extensions.lsp.names import PythonName, WorkshopNames, name_kind
from llm_do_temporal.extensions.lsp.yaml_places import Span, TextPlace
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


@dataclass(frozen=True)
class NameTarget:
    """Place in a file."""

    path: Path
    spot: TextPlace


@dataclass(frozen=True)
class WorkerAtPlace:
    """Worker that is named at a place, or whose own file it is."""

    worker: str
    span: Span


def worker_at(file: EditedFile, spot: TextPlace) -> WorkerAtPlace | None:
    """Return the worker that is meant at a place; None where none is."""
    span = file.span_at(spot)
    if span is None:
        return None
    if file.kind == "worker" and span.path in _OF_ITSELF:
        return WorkerAtPlace(named_worker(file.path), span)
    if name_kind(file.kind, span.path, span.role) == "worker" and span.text != "*":
        return WorkerAtPlace(span.text, span)
    return None


def target_at(file: EditedFile, spot: TextPlace, names: WorkshopNames) -> NameTarget | None:
    """Return the place that a name leads to; None where there is none."""
    span = file.span_at(spot)
    kind = None if span is None else name_kind(file.kind, span.path, span.role)
    if span is None or kind is None:
        return None
    match kind:
        case "worker":
            worker = names.worker(span.text)
            return None if worker is None else NameTarget(worker.place.path, TextPlace(0, 0))
        case "function":
            return _python(next((one for one in names.functions if one.name == span.text), None))
        case "class":
            return _python(names.class_of(span.text))
        case "model":
            return _in_workshop(names, ("models", span.text))
        case "capability":
            return _in_workshop(names, ("approvals", "rules", span.text))


def references_to(worker: str, root: Path, held: Mapping[Path, EditedFile]) -> Iterator[Mention]:
    """Yield all mentions of a worker in its workshop, as far as its files can be read."""
    for file in workshop_files(root, held)[0]:
        yield from mentions_of(worker.removeprefix(PACKAGE_PREFIX), file)


def _python(found: PythonName | None) -> NameTarget | None:
    return None if found is None else NameTarget(found.path, TextPlace(found.line, found.column))


def _in_workshop(names: WorkshopNames, path: KeyPath) -> NameTarget | None:
    """Return the line of a key of `workshop.yaml`."""
    if names.workshop is None:
        return None
    root = names.workshop.root
    try:
        text = decode(read_bytes(root / WORKSHOP_FILE, root), WORKSHOP_FILE)
    except Unreadable:
        return None
    line = parse_yaml(text, file=WORKSHOP_FILE)[0].lines.get(path)
    return None if line is None else NameTarget(root / WORKSHOP_FILE, TextPlace(line - 1, 0))
