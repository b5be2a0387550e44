"""Texts that a person gives in a file or a pipe: read up to a bound, in the encoding that they name."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.sizes import MAX_VALUE_BYTES
from llm_do_temporal.policy.files.attachments import real_type
from llm_do_temporal.policy.files.encodings import NotText, given_text
from llm_do_temporal.storage.snapshots import bytes_of

_TEXT = "text/plain"


def read_given(path: Path, what: str, *, most: int = MAX_VALUE_BYTES) -> str:
    """Return the text of a file, with plain newlines. Raises UsageError, in which `what` names the file.

    A pipe without a name, like that of `<(command)`, is read to its end.
    """
    try:
        if Path(os.path.realpath(path)).is_fifo():
            raise UsageError(
                f"{what} is a named pipe, and nobody may ever write to it",
                next_step="Name a file, or give what the pipe holds as <(cat PIPE).",
            )
        # A read of some files of the kernel waits for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            os.set_blocking(descriptor, not stat.S_ISREG(os.fstat(descriptor).st_mode))
            return read_stream(file, what, most=most)
    except OSError as error:
        raise UsageError(
            f"{what} cannot be read: {error.strerror}", next_step="Name a file that you can read."
        ) from error
    except ValueError as error:
        raise UsageError(f"{what} cannot be read: its name holds a NUL character") from error


def read_stream(file: BinaryIO, what: str, *, most: int = MAX_VALUE_BYTES) -> str:
    """Return the text of an open file or pipe, with plain newlines. Raises UsageError, and OSError."""
    data = bytes_of(file.read(most + 1))
    if len(data) > most:
        raise UsageError(f"{what} has more than {most} bytes", next_step="Give long text as a file: -a FILE.")
    try:
        text = given_text(data)
    except NotText as error:
        real = real_type(data, _TEXT)
        if real != _TEXT:
            raise UsageError(
                f"{what} cannot be read: it is no text, its content is {real}",
                next_step="Save it as text in UTF-8 in the program that it is of.",
            ) from error
        raise UsageError(f"{what} cannot be read: {error}", next_step=error.next_step) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
