"""Places that a name in a file leads to: the worker's file, the Python class or function, the alias, the rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.definitions.language.edited_file import EditedFile
from llm_do_temporal.definitions.language.mentions import Mention, mentions_of, workshop_files
from llm_do_temporal.definitions.language.names import PythonName, WorkshopNames
from llm_do_temporal.definitions.language.vocabulary import name_kind
from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX, named_worker
from llm_do_temporal.definitions.yaml.lines import KeyPath, parse_yaml
from llm_do_temporal.definitions.yaml.spans import Span, TextPlace
from llm_do_temporal.definitions.yaml.text_files import Unreadable, decode, read_bytes
from llm_do_temporal.workshop_search import WORKSHOP_FILE

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
