"""Files as they are found: what cannot be read is no file, and what may pass is an error."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from llm_do_temporal.policy.files.sandbox import locate
from llm_do_temporal.sandbox.safe_open import WorkshopFolder
from llm_do_temporal.sandbox.seen_files import see_file
from tests.support.workshops.file_tree import WHOLE


def failing_with(number: int) -> WorkshopFolder:
    """A folder in which nothing can be opened."""

    def open_below(_folder: int, _path: str, _flags: int) -> int:
        raise OSError(number, os.strerror(number))

    return WorkshopFolder(Path.cwd(), open_below)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EXDEV, errno.ENXIO, errno.ELIBACC])
def test_a_file_that_cannot_be_read_is_seen_as_none(number: int) -> None:
    seen = see_file(failing_with(number), locate(WHOLE, "/a.txt"))
    assert (seen.path, seen.place, seen.sha256, seen.mode) == ("/a.txt", None, None, None)


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ESTALE])
def test_a_file_that_cannot_be_read_for_a_moment_is_not_taken_for_one_that_is_gone(number: int) -> None:
    with pytest.raises(OSError, match=os.strerror(number)):
        see_file(failing_with(number), locate(WHOLE, "/a.txt"))
