"""Single worker files outside any workshop: a workshop made for the file, and toolsets that such a worker cannot have.

Owns the folder below the user's cache in which the file is served: a copy of the file, a `workshop.yaml`
without a sandbox, and the state of the embedded server. Nothing is ever written beside the file. Used by
the command line and by `run_worker`. Must not give such a worker any files.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from llm_do_temporal.client.embedded.server import user_cache
from llm_do_temporal.definitions.yaml.documents import MAX_FILE_BYTES
from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.workshop_search import WORKSHOP_FILE

SUFFIXES = (".worker", ".yaml", ".yml")
_CONFIG = b"# Made for one worker file; it has no sandbox, so its worker reaches no files.\nname: single-file\n"
_STEP = (
    "Put it into a workshop, a folder with a workshop.yaml that says `sandbox: {{root: .}}`, as '{file}', "
    "and start it there by its name: '{name}'."
)
_NEEDS_WORKSHOP = {
    "filesystem": "files",
    "delegation": "other workers",
    "templates": "templates",
    "shell": "commands",
    "custom": "Python tools",
}
"""Toolsets that mean something only in a workshop, and the words for them in errors."""


def is_worker_file(worker: str) -> bool:
    """Whether `worker` names a file and not a worker: names of workers have no dot."""
    return worker.endswith(SUFFIXES) and not worker.startswith("pkg:")


def name_in(file: Path) -> str:
    """The name of the worker that a file defines."""
    return file.name.removesuffix(file.suffix)


def single_file_workshop(file: Path) -> Path:
    """The folder in which this file is served, brought up to date with it.

    Raises UsageError where the file is missing or the cache cannot be written, DefinitionError where it
    cannot be a worker's file.
    """
    text = _read(file)
    real = file.parent.resolve() / file.name
    folder = user_cache() / "files" / f"{name_in(file)[:64]}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:32]}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _replace(folder / WORKSHOP_FILE, _CONFIG)
        _replace(folder / file.name, text)
    except OSError as error:
        raise UsageError(
            f"the folder for '{file}' cannot be made in the cache: {error.strerror}",
            next_step="The server of a single file keeps its state there; set XDG_CACHE_HOME to a folder of yours.",
        ) from error
    return folder


def check_single_file(folder: Path, name: str) -> None:
    """Raise DefinitionError where the worker asks for something that only a workshop has."""
    from llm_do_temporal.definitions.registry.registry import Registry
    from llm_do_temporal.definitions.workers.worker_file import read_worker
    from llm_do_temporal.definitions.workshop import load_workshop

    parsed = read_worker(Registry(load_workshop(folder)).place_of(name))
    definition = parsed.definition
    asked = definition.toolsets.model_fields_set
    where: list[tuple[tuple[str, ...], str]]
    where = [(("toolsets", key), what) for key, what in _NEEDS_WORKSHOP.items() if key in asked]
    where += [] if definition.sandbox is None else [(("sandbox",), "files")]
    if where:
        (path, what), label = where[0], parsed.place.label
        raise DefinitionError(
            f"'{'.'.join(path)}' asks for {what}, and a worker started from a single file has none",
            file=label,
            line=parsed.document.line_of(path),
            next_step=_STEP.format(file=f"workers/{label}", name=name),
        )


def enclosing_workshop(file: Path) -> Path | None:
    """The workshop in which the file lies, if it lies in one."""
    folders = (file.resolve().parent, *file.resolve().parent.parents)
    return next((folder for folder in folders if (folder / WORKSHOP_FILE).is_file()), None)


def _read(file: Path) -> bytes:
    if file.name in (WORKSHOP_FILE, "workshop.yml"):
        raise DefinitionError(f"'{file}' is the file of a workshop and defines no worker", next_step="Name a worker.")
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(
            f"there is no file '{file}'",
            next_step="Name a worker of the workshop without a suffix, or an existing file.",
        ) from None
    except OSError as error:
        raise UsageError(f"the file '{file}' cannot be read: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise DefinitionError(f"'{file}' is larger than {MAX_FILE_BYTES} bytes, the most a worker file may have")
    return content


def _replace(path: Path, content: bytes) -> None:
    """Write the file unless it says this already; another command may be doing the same."""
    if path.is_file() and path.read_bytes() == content:
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.write_bytes(content)
    temporary.replace(path)
