"""The trace of one run as a file: a span a line, written as the spans end.

Owns the file's name and that it is never the file of another trace. Used by the command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TextIO

from opentelemetry.sdk.trace import ReadableSpan

from llm_do_temporal.errors import UsageError
from llm_do_temporal.redaction.configured_keys import remove_keys

_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]")
_NAME_CHARS = 100


def make_trace_folder(folder: Path) -> None:
    """Make the folder for traces. Raises UsageError where that cannot be."""
    if folder.is_symlink():
        raise UsageError(f"the folder '{folder}' for traces is a link", next_step="Name the folder it leads to.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise UsageError(f"the folder '{folder}' for traces cannot be made: {error.strerror}") from error
    if not writable:
        raise UsageError(f"the folder '{folder}' for traces cannot be written", next_step="Choose another --trace-dir.")


class TraceFile:
    """A new file in a folder; readable by its owner alone, because it holds what was said. No key is in it."""

    def __init__(self, folder: Path, run: str, now: datetime) -> None:
        """Make the file. Raises UsageError where it cannot be made."""
        stem = f"{_UNUSUAL.sub('_', run)[:_NAME_CHARS].lstrip('.') or 'run'}-{now:%Y%m%dT%H%M%SZ}"
        self.path, self._file = _make(folder, stem)

    def write(self, spans: Iterable[ReadableSpan]) -> None:
        """Append the spans, each on a line of its own."""
        for span in spans:
            self._file.write(f"{remove_keys(span.to_json(indent=None))}\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file; nothing is written after this."""
        self._file.close()


def _make(folder: Path, stem: str) -> tuple[Path, TextIO]:
    try:
        # Held, so that it stays the one that was judged.
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"the folder '{folder}' for traces cannot be used: {error.strerror}") from error
    try:
        return _make_in(held, folder, stem)
    finally:
        os.close(held)


def _make_in(held: int, folder: Path, stem: str) -> tuple[Path, TextIO]:
    for number in range(1, 1_000):
        path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        try:
            descriptor = os.open(path.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=held)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"the trace '{path}' cannot be written: {error.strerror}") from error
        return path, os.fdopen(descriptor, "w", encoding="utf-8")
    raise UsageError(f"the folder '{folder}' is full of traces of this run", next_step="Choose another --trace-dir.")
