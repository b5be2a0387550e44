"""Texts that a person gives in a file or a pipe: read up to a bound, in the encoding that they name."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.sizes import MAX_VALUE_BYTES
from llm_do_temporal.policy.files.encodings import CONVERT_STEP, decoded, wrong_place


def read_given(path: Path, what: str, *, most: int = MAX_VALUE_BYTES) -> str:
    """Return the text of a file, with plain newlines. Raises UsageError, in which `what` names the file."""
    try:
        with path.open("rb") as file:
            return read_stream(file, what, most=most)
    except OSError as error:
        raise UsageError(
            f"{what} cannot be read: {error.strerror}", next_step="Name a file that you can read."
        ) from error
    except ValueError as error:
        raise UsageError(f"{what} cannot be read: its name holds a NUL character") from error


def read_stream(file: BinaryIO, what: str, *, most: int = MAX_VALUE_BYTES) -> str:
    """Return the text of an open file or pipe, with plain newlines. Raises UsageError, and OSError."""
    data = file.read(most + 1)
    if len(data) > most:
        raise UsageError(f"{what} has more than {most} bytes", next_step="Give long text as a file: -a FILE.")
    try:
        text = decoded(data)
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{what} cannot be read: it is not UTF-8 text ({wrong_place(error)})", next_step=f"{CONVERT_STEP}."
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
