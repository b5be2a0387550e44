"""Starter workshop, as `init` writes it: it runs at once, with no key and no server."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from llm_do_temporal.errors import UsageError

WORKER = "greeter"
_IGNORED = ".gitignore"
_FOR_WORKERS = "files/README.md"
_OPTIONAL = (_IGNORED, _FOR_WORKERS)
"""Files that stay as they are where they exist already."""
_FILES = {
    "workshop.yaml": """\
# A workshop: a folder with workers, their files, and what they may do. `llm-do-temporal check` finds mistakes.

model: offline:greeter    # a script that ships with the package: no key needed. For a language model, write for
                          # example anthropic:claude-sonnet-4-5 here, and set ANTHROPIC_API_KEY before you start.

sandbox:
  root: files             # workers with `toolsets: {filesystem: {}}` reach the files below this folder, and no others;
                          # what defines them (this file, workers/, Python) lies apart from what they write

approvals:
  rules:                  # what is done without asking, after asking, or never
    sandbox.read: pre_approved
    sandbox.write: needs_approval
    worker.call: needs_approval

# limits: {cost: 1.00, time: 2h}     # for each run; a person is asked before more is spent
""",
    f"workers/{WORKER}.worker": """\
description: Says hello.
---
Greet the person in one or two friendly sentences, and answer what they said.
""",
    _FOR_WORKERS: """\
The files of the workers: this folder is `/` for them.
""",
    _IGNORED: """\
# State of the embedded server: runs, attachments, logs.
.llm-do/
__pycache__/
""",
}


def make_workshop(folder: Path) -> list[str]:
    """Write the workshop into a folder, which is made where it is missing; return the files that were written.

    Raises UsageError, with nothing written, where a file of it exists already or cannot be written.
    """
    files = {name: text for name, text in _FILES.items() if name not in _OPTIONAL or not _is_there(folder / name)}
    _check_no_link(folder, *(folder / name for name in files))
    taken = [name for name in files if _is_there(folder / name)]
    if taken:
        raise UsageError(
            f"'{folder / taken[0]}' exists already; nothing is overwritten",
            next_step="Name a folder without a workshop: `llm-do-temporal init DIR`.",
        )
    with _all_or_nothing(folder) as made:
        for name, text in files.items():
            path = folder / name
            _make_folders(path.parent, made)
            _write(path, text, made)
    return list(files)


def _check_no_link(folder: Path, *files: Path) -> None:
    """Raise UsageError where a link stands in the place of the folder, or of a folder or a file in it.

    A file that is written through a link lands in a place that the link's author chose.
    """
    places = (folder, *(one for file in files for one in (file, *file.parents) if one.is_relative_to(folder)))
    link = next((one for one in places if one.is_symlink()), None)
    if link is not None:
        raise UsageError(
            f"'{link}' is a link, and `init` follows none",
            next_step="Take it away, or name a folder without links: `llm-do-temporal init DIR`.",
        )


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _write(path: Path, text: str, made: list[Path]) -> None:
    # The folder is held, and no link to one: it may have been exchanged since it was looked at.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with open(path.name, "x", encoding="utf-8", opener=partial(os.open, mode=0o666, dir_fd=folder)) as file:
            made.append(path)
            file.write(text)
    finally:
        os.close(folder)


def _make_folders(folder: Path, made: list[Path]) -> None:
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir()
        made.append(one)


@contextmanager
def _all_or_nothing(folder: Path) -> Generator[list[Path]]:
    """Remove every file and folder that was made when not all of them can be."""
    made: list[Path] = []
    try:
        yield made
    except OSError as error:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink()
        raise UsageError(
            f"the workshop cannot be written into '{folder}': {error.strerror}",
            next_step="Name a folder that can be written: `llm-do-temporal init DIR`.",
        ) from error
