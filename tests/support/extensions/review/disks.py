"""Disks for tests of commits."""

from __future__ import annotations

from llm_do_temporal.extensions.review.commit import Disk


class UnsyncedDisk(Disk):
    """Disk that does not wait for anything to be on it: what is tested is the order of things."""

    def sync(self, file: int) -> None:
        pass
