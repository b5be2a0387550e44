"""How a failing activity speaks to the workflow that waits for it.

Owns the one place where our errors and the operating system's become Temporal failures. Used by every
activity. An error of ours is final: the same call would fail the same way, so it is never retried. Of
the operating system's errors those that pass by themselves are left to Temporal's retries.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from llm_do_temporal.errors import BlobsUnreachable, EffectFailed, LlmDoError, SandboxRefusal
from llm_do_temporal.messages import OTHER_MODEL, OtherModel

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
"""What the kernel and `opening` report for a path that leaves its folder, or a link where there was none."""

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
def user_errors() -> Generator[None]:
    """Turn errors into Temporal failures: ours are final, the operating system's passing ones are retried.

    The failure's type is the error's `code` and its one detail `{"code", "message", "next_step"}`. Causes
    stay behind: they name folders of the host, and a failure goes into the history.
    """
    try:
        yield
    except LlmDoError as error:
        raise as_failure(error) from None
    except OSError as error:
        if is_passing(error):
            raise ApplicationError(_reason(error), type="OSError") from None
        raise as_failure(EffectFailed(f"the operating system refused: {_reason(error)}")) from None


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


def as_failure(error: LlmDoError, *, other_model: OtherModel | None = None) -> ApplicationError:
    """The Temporal failure of one of our errors. It is benign: somebody is told, nobody is woken.

    `other_model` is for a model turn: whether another model may answer it. A blob store that cannot be used is tried
    again, as it may be the next time.
    """
    if isinstance(error, BlobsUnreachable):
        # Where blobs are kept is none of a model's business.
        return ApplicationError("the blob store cannot be used", type=error.code)
    other = {} if other_model is None else {OTHER_MODEL: other_model.value}
    return ApplicationError(
        str(error),
        {"code": error.code, "message": error.message, "next_step": error.next_step, **other},
        type=error.code,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )


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
    wording, next_step = _WORDING.get(number, (f"cannot be used: {_reason(error)}", None))
    return EffectFailed(f"'{path}' {wording}", next_step=next_step)


def _reason(error: OSError) -> str:
    # Never str(error): that may hold a path of the host.
    return os.strerror(error.errno) if error.errno is not None else type(error).__name__
