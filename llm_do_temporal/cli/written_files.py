"""Files that a command writes at a path from its command line.

Owns the rule: a path may lead to an ordinary file, which is replaced, or to nothing, in a folder that exists. A link, a
device, a pipe or a socket has another use, and is no place for a result. Only the owner may read a written file, and
the file appears as a whole or not at all.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeVar

from llm_do_temporal.errors import UsageError

F = TypeVar("F", bound=str)
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def check_place(file: Path, option: str) -> None:
    """Raise UsageError if no file may be written at the path that `option` names."""
    kind = _kind_of(file)
    if kind is not None:
        raise UsageError(
            f"'{file}' given with {option} is {kind}; only an ordinary file is replaced",
            next_step="Name a file, or leave the option out and redirect the output.",
        )
    if file.name in ("", "..") or not file.parent.is_dir():
        raise UsageError(f"'{file}' given with {option} is no place for a file")


def form_of(file: Path | None, given: F | None, forms: Mapping[str, tuple[F, ...]], default: F) -> F:
    """Return the format to write: the one of --format, or that of the file's suffix, or the default.

    `forms` has the formats of each suffix; the first one is meant where none is given. Raises UsageError for a suffix
    that is not among them, without --format, and for one that belongs to other formats than the given one.
    """
    suffix = "" if file is None else file.suffix.lower()
    known = forms.get(suffix)
    if given is not None:
        if known is None or given in known:
            return given
        raise UsageError(
            f"'{file}' given with --output is named like a file of the format {known[0]}, and --format is {given}",
            next_step="Leave --format out, or name the file otherwise.",
        )
    if known is None and suffix:
        raise UsageError(
            f"'{file}' given with --output: no format is known by the suffix '{suffix}'",
            next_step=f"Use one of {', '.join(forms)}, or name the format with --format.",
        )
    return known[0] if known else default


def write_whole(file: Path, text: str, option: str) -> None:
    """Write the whole text, or leave the place as it was. Raises UsageError."""
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
    """Return the kind of a file that is no ordinary one, like `a link`; None for an ordinary file and for none."""
    try:
        mode = file.lstat().st_mode
    except OSError:
        return None
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), None)
