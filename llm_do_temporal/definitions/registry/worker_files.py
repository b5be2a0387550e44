"""Files of a workshop that define one worker: its own, texts that it includes, its classes and its functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from llm_do_temporal.definitions.workers.instructions import included_files, instruction_text
from llm_do_temporal.definitions.workers.places import WorkerPlace
from llm_do_temporal.definitions.workers.tools_file import TOOLS_FILE, tools_folders
from llm_do_temporal.definitions.workers.worker_file import read_worker


def worker_files(place: WorkerPlace) -> tuple[Path, ...]:
    """Return every path at which a file of the worker at `place` is looked for, its own first.

    Known from the text of the worker's file: nothing is run. Modules that are imported are not among them.
    """
    worker = read_worker(place)
    definition = worker.definition
    found = [place.path, *(place.root / name for name in sorted(included_files(instruction_text(worker))))]
    for reference in (definition.schema_in_ref, definition.output_schema_ref):
        if reference is not None:
            found += _class_files(reference, place)
    if definition.toolsets.python_tools:
        found += [folder / TOOLS_FILE for folder in tools_folders(place)]
    return tuple(dict.fromkeys(found))


def _class_files(reference: str, place: WorkerPlace) -> Iterator[Path]:
    """Yield the paths at which the file of a class is looked for; a class of an importable module has none."""
    file, colon, _ = reference.rpartition(":")
    name = PurePosixPath(file)
    if colon and "\0" not in file and not name.is_absolute() and ".." not in name.parts:
        yield from (place.folder / name, place.root / name)
