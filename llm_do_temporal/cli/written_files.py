"""Files that a command writes where somebody told it to.

Owns the rule: what is replaced is an ordinary file or nothing, in a folder that is there. A link, a device, a pipe or
a socket is something else to somebody, and no place for a result. Nobody but the owner may read what is written, and
it is there as a whole or not at all.
"""

from __future__ import annotations

import stat
from pathlib import Path
from tempfile import NamedTemporaryFile

from llm_do_temporal.errors import UsageError

_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def check_place(file: Path, option: str) -> None:
    """Raise UsageError where this is no place for a file that an option names."""
    kind = _kind_of(file)
    if kind is not None:
        raise UsageError(
            f"'{file}' given with {option} is {kind}; only an ordinary file is replaced",
            next_step="Name a file, or leave the option out and redirect the output.",
        )
    if file.name in ("", "..") or not file.parent.is_dir():
        raise UsageError(f"'{file}' given with {option} is no place for a file")


def write_whole(file: Path, text: str, option: str) -> None:
    """Write all of it or nothing. Raises UsageError."""
    temporary = None
    try:
        with NamedTemporaryFile("w", encoding="utf-8", errors="backslashreplace", dir=file.parent, delete=False) as out:
            temporary = Path(out.name)
            out.write(text)
        # Looked at once more: it may have become something else since the command began.
        check_place(file, option)
        temporary.replace(file)
    except OSError as error:
        raise UsageError(f"'{file}' cannot be written: {error.strerror}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _kind_of(file: Path) -> str | None:
    """What stands there that is no ordinary file; None where one does, or nothing."""
    try:
        mode = file.lstat().st_mode
    except OSError:
        return None
    return next((kind for is_one, kind in _KINDS if is_one(mode)), None)
