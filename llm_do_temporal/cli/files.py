"""Files that a command writes at a path from its command line, and files that it looks at until they are saved.

Owns the rule: a path may lead to an ordinary file, which is replaced, or to nothing, in a folder that exists. A link, a
device, a pipe or a socket has another use, and is no place for a result. Only the owner may read a written file, and
the file appears as a whole or not at all.

Files that a person edits are read a few times a second: that sees those on network mounts and in containers, too, and
those that an editor has put in the place of the old one by a rename, and some small files cost nothing.
"""

from __future__ import annotations

import asyncio
import signal
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeVar

from llm_do_temporal.cli.text import say
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


LOOK_SECONDS = 0.2
"""Time between two looks. A version counts once two looks have seen the same: editors write in several steps."""


class SavedFiles:
    """Versions of some files; which they are is asked anew after each save."""

    def __init__(self, files: Callable[[], Iterable[Path]], *, any_change: bool = False) -> None:
        """Look at the files; with `any_change` these are asked for at each look, and new and missing ones count."""
        self._files = files
        self._any_change = any_change
        self._looked_at = tuple(files())
        self._known = self._read()

    async def saved(self) -> None:
        """Return once a file has other bytes than when this was made, or last returned.

        While a file that was there is empty or gone, it is being written.
        """
        before = self._known
        while True:
            now = self._read()
            whole = self._any_change or self._known.keys() <= now.keys()
            if now != self._known and now == before and whole:
                self._looked_at = tuple(self._files())
                self._known = self._read() | {path: now[path] for path in self._looked_at if path in now}
                return
            before = now
            await asyncio.sleep(LOOK_SECONDS)

    def _read(self) -> dict[Path, bytes]:
        if self._any_change:
            self._looked_at = tuple(self._files())
        return {path: content for path in self._looked_at if (content := _bytes(path))}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def until_saved(saved: SavedFiles, words: str) -> bool:
    """Say the words, and wait until a file was saved; False: a person has pressed Ctrl-C before."""
    loop, left = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, left.set)
    say(words)
    saving, leaving = asyncio.create_task(saved.saved()), asyncio.create_task(left.wait())
    try:
        done, _ = await asyncio.wait({saving, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return leaving not in done
    finally:
        for task in (saving, leaving):
            task.cancel()
        await asyncio.gather(saving, leaving, return_exceptions=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
