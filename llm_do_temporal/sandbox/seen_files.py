"""Facts of files: the real place, the digest of the bytes, the permissions.

Owns how a file is compared with an earlier look. Called by the activities that show a person
a call before it is made, and again by those that make it, on the file that they have open.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import BinaryIO

from llm_do_temporal.errors import LlmDoError, ShownDiffers
from llm_do_temporal.policy.files.sandbox import Place
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.sandbox.changes import OldFile, content_digest
from llm_do_temporal.sandbox.openers import FileOpener
from llm_do_temporal.sandbox.os_errors import is_passing

MAX_HASHED_BYTES = 32_000_000
"""Bytes in a digest; of larger files the beginning counts, and facts of the file system: some exceed any disk."""
MAX_COPIED_BYTES = 256 * 1024 * 1024
"""Largest file of a layer, of which there is only a copy to look at."""


def seen_old(place: Place, in_workshop: str, old: OldFile | None, new: bytes) -> SeenFile:
    """Return the facts of a file that is to have the bytes `new`, as it is before."""
    return SeenFile(
        path=place.path,
        place=in_workshop,
        sha256=None if old is None else old.sha256,
        mode=None if old is None else old.mode,
        after=hashlib.sha256(new).hexdigest(),
    )


def see_open(file: BinaryIO, path: str, in_workshop: str) -> SeenFile:
    """Return the facts of an open file, which is read from its begin and left there."""
    facts = os.fstat(file.fileno())
    # A copy without a name, as of a file in a layer, is another one each time: all of its bytes count.
    is_copy = facts.st_nlink == 0 and facts.st_size <= MAX_COPIED_BYTES
    file.seek(0)
    sha256 = content_digest(file.read(MAX_COPIED_BYTES if is_copy else MAX_HASHED_BYTES), facts)
    file.seek(0)
    return SeenFile(path=path, place=in_workshop, sha256=sha256, mode=stat.S_IMODE(facts.st_mode))


def see_file(folder: FileOpener, place: Place) -> SeenFile:
    """Return the file at a place, without a digest where there is none that can be read.

    Raises an OSError that may pass: a file that cannot be read for a moment is not a file that is gone.
    """
    try:
        with folder.found(place) as (file, in_workshop):
            return see_open(file, place.path, in_workshop)
    except LlmDoError:
        return SeenFile(path=place.path)
    except OSError as error:
        if is_passing(error):
            raise
        return SeenFile(path=place.path)


def check_as_shown(expected: SeenFile | None, found: SeenFile) -> None:
    """Raise ShownDiffers where a file is not as it was shown; `expected` None: nobody was shown any."""
    if expected is not None and not expected.is_like(found):
        raise ShownDiffers(f"'{found.path}' has changed since it was shown", next_step="Try it again.")
