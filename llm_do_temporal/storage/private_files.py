"""Folder `.llm-do` and its content: for its owner alone, whatever the umask says.

Owns how that folder is made, mended where it was there before with other modes, and refused where it is not ours. The
database, logs and blobs hold what was said in runs. Called by everything that keeps something there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER

FOLDER_MODE = 0o700
FILE_MODE = 0o600
SERVER_UMASK = 0o077
"""Umask for a process that makes files there with default modes."""
_OTHERS = 0o077
_DATABASE = ("temporal.db", "temporal.db-wal", "temporal.db-shm", "temporal.db-journal")


def make_private(folder: Path) -> None:
    """Make the folder, or take that of others their access to it and to all that is in it.

    Raises UsageError where a link or somebody else's folder is in its place, OSError where it cannot be made.
    """
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        facts = _own_folder(folder)
        if stat.S_IMODE(facts.st_mode) != FOLDER_MODE:
            folder.chmod(FOLDER_MODE)
            mend_modes(folder)
    else:
        folder.chmod(FOLDER_MODE)  # a umask may have taken something of the owner's


def close_to_others(workshop: Path) -> None:
    """Mend the `.llm-do` of a workshop, where there is one. Raises UsageError for a link.

    For a worker service: in a cluster that folder may be a volume, which belongs to whoever made it.
    """
    folder = workshop / STATE_FOLDER
    if folder.is_symlink() or (folder.is_dir() and folder.lstat().st_uid == os.geteuid()):
        make_private(folder)


def check_database(folder: Path) -> None:
    """Raise UsageError where the server would write its database through a link."""
    for name in _DATABASE:
        if (folder / name).is_symlink():
            raise UsageError(f"'{STATE_FOLDER}/{name}' is a link", next_step="Remove it; the database is kept there.")


def mend_modes(folder: Path) -> None:
    """Take from others their access to the content of the folder. Files of other owners stay as they are."""
    for path, facts in _reachable(folder):
        if facts.st_uid == os.geteuid():
            path.chmod(FOLDER_MODE if stat.S_ISDIR(facts.st_mode) else FILE_MODE)


def faults(folder: Path) -> list[str]:
    """Return the faults in the modes of the folder and its content; empty: there are none, or there is no folder."""
    try:
        if os.path.lexists(folder):
            _own_folder(folder)
    except UsageError as error:
        return [error.message]
    open_to_others = [path for path, _ in _reachable(folder)] if folder.exists() else []
    if folder.exists() and stat.S_IMODE(folder.stat().st_mode) & _OTHERS:
        open_to_others.insert(0, folder)
    if not open_to_others:
        return []
    others = f" and {len(open_to_others) - 1} more" if len(open_to_others) > 1 else ""
    first = open_to_others[0].relative_to(folder.parent)
    return [f"the modes of '{first}'{others} let other accounts of this machine in"]


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file that is made for its owner alone. Raises UsageError for a link, OSError."""
    try:
        return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        if path.is_symlink():
            raise UsageError(
                f"'{path}' is a link", next_step="Remove it; a file of that name is kept there."
            ) from error
        raise


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone, all of it or nothing."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(open_private(temporary, os.O_WRONLY | os.O_EXCL), "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def _own_folder(folder: Path) -> os.stat_result:
    facts = folder.lstat()
    step = f"Remove it, or move it away; '{STATE_FOLDER}' holds all that is said in runs."
    if stat.S_ISLNK(facts.st_mode):
        raise UsageError(f"'{folder}' is a link", next_step=step)
    if not stat.S_ISDIR(facts.st_mode):
        raise UsageError(f"'{folder}' is no folder", next_step=step)
    if facts.st_uid != os.geteuid():
        raise UsageError(
            f"'{folder}' belongs to another account (user id {facts.st_uid}), who could read and change all of it",
            next_step=f"Run this as that account, or remove it; '{STATE_FOLDER}' holds all that is said in runs.",
        )
    return facts


def _reachable(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the content of the folder whose own modes let others use it in any way; links are passed over."""
    for inside, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(inside, name)
            try:
                facts = path.lstat()
            except FileNotFoundError:
                continue
            if not stat.S_ISLNK(facts.st_mode) and stat.S_IMODE(facts.st_mode) & _OTHERS:
                yield path, facts
