"""Errors of the operating system about a file: whether they pass by themselves, and their meaning in a model's words.

Nothing said here holds a path of the host.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager

from llm_do_temporal.errors import EffectFailed, LlmDoError, SandboxRefusal

_PASSING = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EHOSTUNREACH,
        errno.EINTR,
        errno.EIO,
        errno.EMFILE,
        errno.ENETUNREACH,
        errno.ENFILE,
        errno.ENOLCK,
        errno.ENOMEM,
        errno.ESTALE,
    }
)
"""Conditions that end without anybody changing the call."""
_LEADS_OUT = frozenset({errno.EXDEV, errno.ELOOP})
"""Errors of the kernel and of `safe_open` for a path that leaves its folder, or a link where there was none."""
_LIST_FIRST = "Look with list_files which files there are."
_TELL_OPERATOR = "Somebody who runs the worker service has to change this; try another file."
_WORDING: dict[int, tuple[str, str]] = {
    errno.ENOENT: ("does not exist", _LIST_FIRST),
    errno.EISDIR: ("is a folder, not a file", "Name a file in it; list_files shows them."),
    errno.ENOTDIR: ("cannot be reached: a part of the path is a file, not a folder", _LIST_FIRST),
    errno.ENXIO: ("is not a regular file", _LIST_FIRST),
    errno.EACCES: ("cannot be used: permission denied", _TELL_OPERATOR),
    errno.EPERM: ("cannot be used: permission denied", _TELL_OPERATOR),
    errno.EROFS: ("cannot be written: the file system is read-only", _TELL_OPERATOR),
    errno.ENOSPC: ("cannot be written: the disk is full", "Free some space, then write it again."),
    errno.EDQUOT: ("cannot be written: the disk quota is used up", "Free some space, then write it again."),
    errno.EFBIG: ("cannot be written: it is too large for the file system", "Write less, or several files."),
    errno.ENAMETOOLONG: ("cannot be used: the name is too long", "Choose a shorter name."),
}


@contextmanager
def naming(path: str) -> Generator[None]:
    """Say what an OSError means for the file with the virtual `path`; passing ones go on as they are.

    Raises SandboxRefusal where the path leads out of its tree, else EffectFailed.
    """
    try:
        yield
    except OSError as error:
        if is_passing(error):
            raise
        raise _explained(error, path) from error


def is_passing(error: OSError) -> bool:
    """Whether the same call may work a little later."""
    return error.errno is None or error.errno in _PASSING or isinstance(error, (ConnectionError, TimeoutError))


def _explained(error: OSError, path: str) -> LlmDoError:
    number = error.errno or 0
    if number in _LEADS_OUT:
        return SandboxRefusal(
            f"'{path}' leads out of this worker's files through a symbolic link",
            next_step="Name the file itself; links are followed only while they stay inside.",
        )
    wording, next_step = _WORDING.get(number, (f"cannot be used: {reason_of(error)}", None))
    return EffectFailed(f"'{path}' {wording}", next_step=next_step)


def reason_of(error: OSError) -> str:
    """The operating system's words for an error, without the path it is about."""
    # Never str(error): that may hold a path of the host.
    return os.strerror(error.errno) if error.errno is not None else type(error).__name__
