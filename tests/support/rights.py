"""Right of the superuser to open whatever file there is, given up for a while: modes count then as for anybody."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

_VERSION = 0x20080522
_OVERRIDES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


@contextmanager
def modes_count() -> Generator[None]:
    """Let modes of files and folders count for this thread in the block, also where it is the superuser's."""
    if os.geteuid() != 0:
        yield
        return
    assert sys.platform == "linux"
    libc = ctypes.CDLL(None, use_errno=True)
    head, held = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(head, held) == 0
    # The first word has the rights in effect; those that may be taken again stay.
    fewer = (ctypes.c_uint32 * 6)(held[0] & ~_OVERRIDES, *held[1:])
    assert libc.capset(head, fewer) == 0
    try:
        yield
    finally:
        assert libc.capset(head, held) == 0
