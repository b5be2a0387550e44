"""Questions that this terminal showed last of a run: a decision that names no approval is about these alone.

Owns small files below the user's state folder, one for each terminal session and run. They hold ids and digests, no
text of any call. If they cannot be written, or were not written by this program, nothing counts as shown.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

_KEPT_SECONDS = 7 * 24 * 3600
"""Age at which a file is removed: no person remembers longer what a terminal has shown."""
_MAX_FILE_BYTES = 1_000_000


class ShownQuestion(NamedTuple):
    """Question as a terminal showed it."""

    id: str
    digest: str
    """Digest of the question; empty if it has none."""


def is_seen(stream: IO[str]) -> bool:
    """Whether a person sees text printed to `stream`: it is a terminal, and this process runs in its foreground."""
    try:
        return stream.isatty() and os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


def note_shown(run: str, questions: Iterable[ShownQuestion], *, on: IO[str] | None = None) -> None:
    """Remember that this terminal has just shown these questions of the run, and no others.

    `on` is the stream of the questions, None for standard output; on an unseen stream nothing is remembered.
    """
    if not is_seen(sys.stdout if on is None else on):
        return
    text = json.dumps([list(one) for one in questions])
    # Without a place for the file, a decision has to name its approval.
    with suppress(OSError, RuntimeError, LookupError):
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_old(folder)
        temporary = folder / f".{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(folder / _name(run))


def last_shown(run: str) -> list[ShownQuestion]:
    """Return the questions that this terminal showed last of the run; none if it showed none."""
    try:
        descriptor = os.open(_folder() / _name(run), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_uid != os.geteuid():
                return []
            found: Any = json.loads(file.read(_MAX_FILE_BYTES))
    except (OSError, ValueError, LookupError, RuntimeError, RecursionError):
        return []
    if not isinstance(found, list):
        return []
    pairs = [cast("list[Any]", one) for one in cast("list[Any]", found) if isinstance(one, list)]
    texts = [one for one in pairs if len(one) == len(ShownQuestion._fields) and all(isinstance(x, str) for x in one)]
    return [ShownQuestion(*one) for one in texts] if len(texts) == len(cast("list[Any]", found)) else []


def _folder() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    # The convention is to ignore a relative one.
    base = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    return base / "llm-do-temporal" / "shown"


def _name(run: str) -> str:
    """Return the file name for this terminal and the run. Raises LookupError if nothing tells terminals apart."""
    return hashlib.sha256(f"{_terminal()}\n{run}".encode(errors="surrogatepass")).hexdigest()[:40] + ".json"


def _terminal() -> str:
    """Return the session of this process and its beginning, since numbers of processes are used again."""
    leader = os.getsid(0)
    if not leader:
        raise LookupError("the session was begun outside of what this process can see, as all sessions out there")
    began = ""
    with suppress(OSError, IndexError):
        # The name in it may hold spaces and brackets; what follows the last one has a fixed order.
        facts = Path(f"/proc/{leader}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        began = facts[19]
    return f"{leader} {began}"


def _forget_old(folder: Path) -> None:
    for old in folder.iterdir():
        with suppress(OSError):
            if old.lstat().st_mtime < time.time() - _KEPT_SECONDS:
                old.unlink()
